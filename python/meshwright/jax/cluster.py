"""Clusters: what JAX's devices are called in the catalog, and what a cluster's devices are to JAX."""

from __future__ import annotations

import collections
import os
from collections.abc import Sequence
from pathlib import Path

import jax

from meshwright import _core

# What JAX lowers for, by how the name of a device in the catalog begins. Everything else is made by NVIDIA.
PLATFORMS = {"cpu": "cpu", "mi": "rocm", "tpu": "tpu"}
# What runs programs there, as the simulator knows it.
ENGINES = {"cpu": "xla-cpu"}


def read_cluster(cluster: str | os.PathLike[str]) -> str:
    """A name as it is, or the text of a TOML file."""
    if isinstance(cluster, os.PathLike) or cluster.endswith(".toml"):
        return Path(cluster).read_text(encoding="utf-8")
    return cluster


def platform_of(cluster: str) -> str:
    """The platform that steps for a cluster are lowered for: they differ, in random numbers for one."""
    device, _ = _core.cluster_devices(cluster)
    found = (platform for prefix, platform in PLATFORMS.items() if device.startswith(prefix))
    return next(found, "cuda")


def engine_of(platform: str) -> str:
    return ENGINES.get(platform, "xla")


def cluster_of(devices: Sequence[jax.Device]) -> str:
    """The cluster that devices are, by what they say they are: `8xcpu`, `2x8xh100`."""
    kinds = sorted({device.device_kind for device in devices})
    hint = "\n\nhint: say what they are with `cluster=`, a name that `meshwright clusters` lists or a TOML file"
    if len(kinds) != 1:
        raise _core.Error(f"the devices are of several kinds: {', '.join(f'`{kind}`' for kind in kinds)}{hint}")
    name = _core.device_name(kinds[0])
    if name is None:
        raise _core.Error(f"nothing is known of devices `{kinds[0]}`{hint}")
    counts = collections.Counter(device.process_index for device in devices)
    if len(set(counts.values())) != 1:
        raise _core.Error(f"processes have different numbers of devices{hint}")
    per_node = next(iter(counts.values()))
    return f"{per_node}x{name}" if len(counts) == 1 else f"{len(counts)}x{per_node}x{name}"
