"""Collectives as functions of tensors, between the devices of a group."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh

from meshwright.torch.backends import is_gloo

_OPS = torch.ops._c10d_functional
# What does for one tensor what another does for several.
_ONE_OF = {
    _OPS.all_gather_into_tensor_coalesced: _OPS.all_gather_into_tensor,
    _OPS.all_reduce_coalesced: _OPS.all_reduce,
    _OPS.reduce_scatter_tensor_coalesced: _OPS.reduce_scatter_tensor,
}


@dataclasses.dataclass(frozen=True)
class Group:
    """Devices that take part in a collective, this one among them."""

    # Of the process group.
    name: str
    # Ranks in the order of their parts.
    ranks: tuple[int, ...]
    is_gloo: bool

    @property
    def size(self) -> int:
        return len(self.ranks)

    @property
    def order(self) -> list[int] | None:
        """Of every part the place of its rank in the process group, which has ranks in their own order."""
        ordered = sorted(self.ranks)
        return None if list(self.ranks) == ordered else [ordered.index(rank) for rank in self.ranks]


def make_groups(partitions: Sequence[Sequence[Sequence[int]]], mesh: DeviceMesh) -> list[Group]:
    """For every partition of the devices of a mesh into groups, that of this process; devices count from 0 on.

    All processes come here together, also those that are not on the mesh. Groups that the mesh has are not made again.
    """
    ranks = mesh.mesh.reshape(-1).tolist()
    known = _known_groups(mesh)
    groups = []
    for partition in partitions:
        members = [tuple(ranks[device] for device in devices) for devices in partition]
        key = frozenset(tuple(sorted(group)) for group in members)
        if key not in known:
            made = {group: dist.new_group(list(group)) for group in sorted(key)}
            known[key] = next((group for ranks, group in made.items() if dist.get_rank() in ranks), None)
        own = next((group for group in members if dist.get_rank() in group), None)
        if own is not None:
            groups.append(Group(known[key].group_name, own, is_gloo(mesh.device_type, known[key])))
    return groups


def _known_groups(mesh: DeviceMesh) -> dict[frozenset[tuple[int, ...]], Any]:
    """Partitions for which every process has a group already, the same in all processes."""
    known: dict[frozenset[tuple[int, ...]], Any] = {frozenset({tuple(range(dist.get_world_size()))}): dist.group.WORLD}
    is_here = dist.get_rank() in mesh.mesh.reshape(-1).tolist()
    for dim in range(mesh.mesh.ndim):
        rows = mesh.mesh.movedim(dim, -1).reshape(-1, mesh.mesh.shape[dim]).tolist()
        known.setdefault(frozenset(map(tuple, rows)), mesh.get_group(dim) if is_here else None)
    return known


def all_gather(value: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
    """The parts of all devices one behind the other."""
    return _in_order(_called(_OPS.all_gather_into_tensor, value.contiguous(), group, group.size), dim, group)


def all_gathers(values: Sequence[torch.Tensor], dims: Sequence[int], group: Group) -> list[torch.Tensor]:
    """Several gathers at once."""
    made = _called(_OPS.all_gather_into_tensor_coalesced, [value.contiguous() for value in values], group, group.size)
    return [_in_order(value, dim, group) for value, dim in zip(made, dims)]


def _in_order(made: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
    """Parts that lie behind each other in the order of ranks, along a dimension in the order of the group."""
    if dim == 0 and group.order is None:
        return made
    parts = made.chunk(group.size)
    if group.order is not None:
        parts = [parts[place] for place in group.order]
    return torch.cat(parts, dim)


def all_reduce(value: torch.Tensor, kind: str, group: Group) -> torch.Tensor:
    if value.dtype == torch.bool:
        return all_reduce(value.to(torch.uint8), _OF_BOOLS[kind], group).to(torch.bool)
    return _called(_OPS.all_reduce, value.contiguous(), group, kind)


def all_reduces(values: Sequence[torch.Tensor], kind: str, group: Group) -> list[torch.Tensor]:
    """Several sums at once."""
    return _called(_OPS.all_reduce_coalesced, [value.contiguous() for value in values], group, kind)


def reduce_scatter(value: torch.Tensor, kind: str, dim: int, group: Group) -> torch.Tensor:
    """The part of this device of what all devices make together."""
    if value.dtype == torch.bool:
        return reduce_scatter(value.to(torch.uint8), _OF_BOOLS[kind], dim, group).to(torch.bool)
    return reduce_scatters([value], kind, [dim], group)[0]


def reduce_scatters(
    values: Sequence[torch.Tensor], kind: str, dims: Sequence[int], group: Group
) -> list[torch.Tensor]:
    """Several at once. Gloo would reduce all of a value on every device: there the parts are exchanged, and reduced where
    they belong."""
    if not group.is_gloo:
        whole = [_by_rank(value, dim, group) for value, dim in zip(values, dims)]
        return _called(_OPS.reduce_scatter_tensor_coalesced, whole, group, kind, group.size)
    shapes = [
        [size // group.size if own == dim else size for own, size in enumerate(value.shape)]
        for value, dim in zip(values, dims)
    ]
    rows = [_by_rank(value, dim, group).reshape(group.size, -1) for value, dim in zip(values, dims)]
    widths = [row.shape[1] for row in rows]
    sent = rows[0] if len(rows) == 1 else torch.cat(rows, 1)
    del rows
    # Sizes are those of the first dimension.
    ones = [1] * group.size
    received = _called(_OPS.all_to_all_single, sent, group, ones, ones)
    del sent
    return [_reduced(part, kind).reshape(shape) for part, shape in zip(received.split(widths, 1), shapes)]


def _by_rank(value: torch.Tensor, dim: int, group: Group) -> torch.Tensor:
    """The parts of a dimension one behind the other, in the order of ranks."""
    if dim or group.order is not None:
        parts = list(value.chunk(group.size, dim))
        if group.order is not None:
            parts = [part for _, part in sorted(zip(group.order, parts), key=lambda row: row[0])]
        value = torch.cat(parts)
    return value.contiguous()


def _reduced(parts: torch.Tensor, kind: str) -> torch.Tensor:
    if kind == "sum":
        return parts.sum(0, dtype=parts.dtype)
    return {"max": torch.amax, "min": torch.amin, "product": torch.prod}[kind](parts, 0)


def all_to_all(value: torch.Tensor, split: int, concat: int, group: Group) -> torch.Tensor:
    """Parts along one dimension go to all devices, and what comes from these lies along another."""
    parts = list(value.chunk(group.size, split))
    if group.order is not None:
        parts = [part for _, part in sorted(zip(group.order, parts), key=lambda row: row[0])]
    sizes = [1] * group.size
    made = list(_called(_OPS.all_to_all_single, torch.stack(parts), group, sizes, sizes).unbind())
    if group.order is not None:
        made = [made[place] for place in group.order]
    return torch.cat(made, concat)


def broadcast(value: torch.Tensor, group: Group) -> torch.Tensor:
    """What the first device has, which the process group counts by its own order."""
    return _called(_OPS.broadcast, value.contiguous(), group, sorted(group.ranks).index(group.ranks[0]))


def permute(value: torch.Tensor, pairs: Sequence[tuple[int, int]]) -> torch.Tensor:
    """What another device sends; zeros where none does."""
    rank = dist.get_rank()
    source = next((source for source, target in pairs if target == rank), None)
    target = next((target for source, target in pairs if source == rank), None)
    value = value.contiguous()
    if source == rank:
        return value
    made = torch.zeros_like(value)
    ops = [dist.P2POp(dist.isend, value, target)] if target is not None else []
    ops += [dist.P2POp(dist.irecv, made, source)] if source is not None else []
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()
    return made


# What booleans are combined by, as numbers.
_OF_BOOLS = {"any": "max", "all": "min", "sum": "max", "max": "max", "min": "min"}


# How long is slept at first until a thread of Gloo has let go, and at most: each time twice as long, since to look takes time of
# the processor, which that thread may be waiting for.
_FIRST_SECONDS, _MOST_SECONDS = 2e-5, 2e-2


def _called(op: Any, given: Any, group: Group, *words: Any) -> Any:
    """What a collective makes of a tensor or of several. These are held here until nobody else does: so they are freed by this
    process itself, when the plan says so."""
    if torch.is_tensor(given) and given.is_complex():
        # Not all collectives of Gloo and NCCL know complex numbers; their parts lie next to each other.
        return torch.view_as_complex(_called(op, torch.view_as_real(given.resolve_conj()), group, *words))
    if not torch.is_tensor(given) and any(value.is_complex() for value in given):
        return [_called(_ONE_OF[op], value, group, *words) for value in given]
    made = op(given, *words, group.name)
    # What several are made by holds all of them until each has been waited for.
    values = [_OPS.wait_tensor(value) for value in ([made] if torch.is_tensor(made) else made)]
    if group.is_gloo and not torch.compiler.is_compiling():
        for value in values:
            _let_go(value)
    return values[0] if torch.is_tensor(made) else values


def _let_go(value: torch.Tensor) -> None:
    """Waits until nobody else holds what a collective gave.

    A thread of Gloo says that it is done before it lets go of what it read and wrote. Where this process went on at once,
    memory would be freed later than the plan has it, or by that thread, of which PyTorch's profiler does not hear.
    """
    seconds = _FIRST_SECONDS
    # Python counts as one. What was read is let go of before what was written.
    while _holders(value) > 1 and seconds <= _MOST_SECONDS:
        time.sleep(seconds)
        seconds *= 2


def _holders(value: torch.Tensor) -> int:
    """How many hold a tensor. PyTorch promises nobody to tell that: where it does not, memory is freed a moment later."""
    count = getattr(value, "_use_count", None)
    return 1 if count is None else count()
