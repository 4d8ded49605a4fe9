"""What carries collectives: a process group has a backend for each kind of device."""

from __future__ import annotations

from typing import Any

import torch.distributed as dist


def backends(group: Any = None) -> dict[str, str]:
    """The backends of a group by kinds of devices, such as `cpu`. Where nobody named one, PyTorch chose by what the machine has,
    and `get_backend` does not say what."""
    rows = (row.partition(":") for row in dist.get_backend_config(group).split(","))
    return {device: name for device, _, name in rows}


def is_gloo(kind: str, group: Any = None) -> bool:
    """Whether collectives of a group between devices of a kind are Gloo's."""
    return backends(group).get(kind) == "gloo"
