"""What is called first: `parallelize` for the devices there are, `plan` for any cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import jax

from meshwright import _core
from meshwright.jax.capture import capture, function
from meshwright.jax.cluster import cluster_of, platform_of, read_cluster
from meshwright.jax.step import Step, Wish
from meshwright.tactics import Tactic, to_toml

Path_ = Union[str, "os.PathLike[str]"]


def parallelize(
    step: Callable[..., Any],
    *,
    devices: Sequence[jax.Device] | None = None,
    cluster: Path_ | None = None,
    memory: str | int | None = None,
    mesh: str | Mapping[str, int] | None = None,
    tactics: Path_ | Iterable[Tactic] | None = None,
    microbatches: int | None = None,
    stages: int | str | None = None,
    plan: _core.Plan | Path_ | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    compiler_options: Mapping[str, Any] | None = None,
) -> Step:
    """A step for one device as one for many, that is called in the same way.

    Args:
      step: a function that `jax.jit` could take, not jitted: of parameters, state and a batch, say.
      devices: what to run on; all of `jax.devices()` if not given.
      cluster: what the devices are, as a name such as `2x8xh100` or a TOML file; asked of the devices if not given.
      memory: what a device may use, as `"14GiB"` or a number of bytes; all that it has if not given.
      mesh: axes of devices and their sizes, as `{"data": 2, "model": 4}`; searched if not given.
      tactics: what is decided already, as a list of tactics or a tactics file; the rest is planned.
      microbatches: in how many microbatches a step runs; searched if not given.
      stages: how many stages the model is cut into, each on devices of its own, or `"auto"` for as many as are
        fastest; one if not given.
      plan: a plan that was made before, or its file; then nothing is searched.
      static_argnums, static_argnames, donate_argnums, donate_argnames: as `jax.jit` takes them.
      compiler_options: more options for XLA, as `jax.jit` takes them.
    """
    devices = tuple(jax.devices() if devices is None else devices)
    described = cluster_of(devices) if cluster is None else read_cluster(cluster)
    name, count = _core.cluster_devices(described)
    if count != len(devices):
        raise _core.Error(
            f"the cluster has {count} devices `{name}`, and there are {len(devices)}\n\n"
            "hint: give as many `devices`, or use `meshwright.jax.plan` for a cluster that is not here"
        )
    captured = function(step, static_argnums, static_argnames, donate_argnums, donate_argnames)
    return Step(captured, devices, _wish(described, memory, mesh, tactics, microbatches, stages), plan, compiler_options)


def plan(
    step: Callable[..., Any],
    *args: Any,
    cluster: Path_,
    memory: str | int | None = None,
    mesh: str | Mapping[str, int] | None = None,
    tactics: Path_ | Iterable[Tactic] | None = None,
    microbatches: int | None = None,
    stages: int | str | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    donate_argnums: int | Sequence[int] | None = None,
    donate_argnames: str | Sequence[str] | None = None,
    **kwargs: Any,
) -> _core.Plan | _core.Pipeline:
    """Plans a step for a cluster, which need not be here. Only shapes and types of the arguments matter, such as
    `jax.eval_shape` gives; nothing is allocated. The other options are those of `parallelize`."""
    described = read_cluster(cluster)
    given = function(step, static_argnums, static_argnames, donate_argnums, donate_argnames)
    captured = capture(given, args, kwargs, platform_of(described))
    return _wish(described, memory, mesh, tactics, microbatches, stages).make_plan(captured)


def _wish(
    cluster: str,
    memory: str | int | None,
    mesh: str | Mapping[str, int] | None,
    tactics: Path_ | Iterable[Tactic] | None,
    microbatches: int | None,
    stages: int | str | None,
) -> Wish:
    axes = ",".join(f"{name}={size}" for name, size in mesh.items()) if isinstance(mesh, Mapping) else mesh
    return Wish(
        cluster=cluster,
        memory=f"{memory}B" if isinstance(memory, int) else memory,
        mesh=axes,
        tactics=_tactics(tactics),
        microbatches=microbatches,
        stages=None if stages is None else str(stages),
    )


def _tactics(tactics: Path_ | Iterable[Tactic] | None) -> str | None:
    if tactics is None:
        return None
    if isinstance(tactics, (str, os.PathLike)):
        return Path(tactics).read_text(encoding="utf-8")
    return to_toml(tactics)
