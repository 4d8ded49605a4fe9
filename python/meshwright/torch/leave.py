"""How a process ends: threads of a group that was destroyed end before Python does.

Whoever is the last to let go of a process group waits for its threads. A thread of Gloo is often the last to hold a tensor of
a collective, and takes Python's lock to free it; where Python ends meanwhile, that ends the process with `terminate called
without an active exception`. So nobody may hold a group that its user destroyed.
"""

from __future__ import annotations

import atexit
import sys
import types
import weakref

import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

_meshes: list[weakref.ref[DeviceMesh]] = []


def noted(mesh: DeviceMesh) -> DeviceMesh:
    """A mesh that lets go of its groups when this process ends."""
    if not _meshes:
        atexit.register(_let_go_of_groups)
    _meshes.append(weakref.ref(mesh))
    return mesh


def _let_go_of_groups() -> None:
    if dist.is_initialized():
        return
    for mesh in _meshes:
        getattr(mesh(), "_pg_registry", {}).clear()
    # What is imported after the group was made has it as a default of arguments; without a group, it is the same.
    late = sys.modules.get("torch.distributed.nn.functional")
    for function in vars(late).values() if late is not None else ():
        if isinstance(function, types.FunctionType) and function.__defaults__ is not None:
            defaults = (None if isinstance(value, dist.ProcessGroup) else value for value in function.__defaults__)
            function.__defaults__ = tuple(defaults)
