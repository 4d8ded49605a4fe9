"""Where tensors lie: parts of devices, and DTensors of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.placement_types import Placement, _StridedShard

from meshwright.torch.leave import noted

# Of every dimension the axes that cut it, the most significant first.
Cut = Sequence[Sequence[str]]


def device_mesh(device: torch.device, axes: Sequence[tuple[str, int]], first: int = 0) -> DeviceMesh:
    """Processes from one on, along axes of some names and sizes."""
    sizes = [size for _, size in axes]
    ranks = torch.arange(math.prod(sizes)).reshape(sizes) + first
    return noted(DeviceMesh(device.type, ranks, mesh_dim_names=tuple(name for name, _ in axes)))


def placements(mesh: DeviceMesh, cut: Cut) -> tuple[Placement, ...]:
    """A cut in the words of DTensors, which go through the axes of the mesh in its order."""
    names = mesh.mesh_dim_names or ()
    found: list[Placement] = []
    for place, name in enumerate(names):
        dim = next((dim for dim, axes in enumerate(cut) if name in axes), None)
        if dim is None:
            found.append(Replicate())
            continue
        axes = list(cut[dim])
        # Axes that cut the dimension before this one, although the mesh has them behind it.
        earlier = [axis for axis in axes[: axes.index(name)] if names.index(axis) > place]
        factor = math.prod(mesh.size(names.index(axis)) for axis in earlier)
        found.append(Shard(dim) if factor == 1 else _StridedShard(dim, split_factor=factor))
    return tuple(found)


def part_of(whole: torch.Tensor, mesh: DeviceMesh, cut: Cut) -> torch.Tensor:
    """The part of this process as a view."""
    for dim, axes in enumerate(cut):
        index, count = 0, 1
        for axis in axes:
            size = mesh.size(mesh.mesh_dim_names.index(axis))
            index, count = index * size + mesh.get_local_rank(axis), count * size
        if count > 1:
            size = whole.shape[dim] // count
            whole = whole.narrow(dim, index * size, size)
    return whole


def cut_of(tensor: DTensor) -> list[list[str]]:
    """The cut that a DTensor has; of axes that cut the same dimension, those that stride come last."""
    names = tensor.device_mesh.mesh_dim_names or ()
    cut: list[list[str]] = [[] for _ in range(tensor.ndim)]
    late: list[tuple[int, str]] = []
    for name, placement in zip(names, tensor.placements):
        if isinstance(placement, _StridedShard):
            late.append((placement.dim, name))
        elif isinstance(placement, Shard):
            cut[placement.dim].append(name)
    for dim, name in reversed(late):
        cut[dim].append(name)
    return cut


def part_shape(shape: Sequence[int], mesh: DeviceMesh, cut: Cut) -> tuple[int, ...]:
    names = mesh.mesh_dim_names or ()
    return tuple(size // math.prod(mesh.size(names.index(axis)) for axis in axes) for size, axes in zip(shape, cut))


def to_dtensor(part: torch.Tensor, mesh: DeviceMesh, cut: Cut, shape: Sequence[int]) -> DTensor:
    """The tensor that parts make up."""
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    return DTensor.from_local(
        part, mesh, placements(mesh, cut), run_check=False, shape=torch.Size(shape), stride=tuple(strides)
    )


def local(tensor: Any) -> torch.Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor
