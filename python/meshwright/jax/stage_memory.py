"""What the devices of stages have in memory over a step: arrays by the lists that stages follow, and what XLA says that
it needs for each piece besides."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meshwright import _core
from meshwright.jax.lists import donated_reads, turns_in_order
from meshwright.jax.stages import _dtype


def stage_bytes(plan: _core.Pipeline, compiled: Mapping[str, Any]) -> int | None:
    """The most that a device of any stage has, where XLA says what pieces need."""
    needs = {name: piece.memory_analysis() for name, piece in compiled.items()}
    if None in needs.values():
        return None
    turns = turns_in_order(plan)
    return max(_most_bytes(plan, needs, turns, stage) for stage in range(plan.stage_count))


def _most_bytes(plan: _core.Pipeline, needs_of: Mapping[str, Any], turns: Sequence[Any], stage: int) -> int:
    pieces = plan.pieces
    bytes_of = [_device_bytes(row, dict(plan.meshes[row[0]])) for row in plan.buffers]
    live: dict[Any, int] = {}
    for number in {number for numbers in plan.arguments for number in numbers if plan.buffers[number][0] == stage}:
        live |= {slot: bytes_of[number] for slot in _slots(plan, number)}
    most = sum(live.values())
    for turn in (turn for turn in turns if turn.stage == stage):
        live |= {slot: bytes_of[slot[0]] for slot in turn.receives}
        if turn.piece is not None and pieces[turn.piece][3]:
            name, _, reads, writes = pieces[turn.piece]
            needs = needs_of[name]
            made = needs.output_size_in_bytes - needs.alias_size_in_bytes
            most = max(most, sum(live.values()) + made + needs.temp_size_in_bytes)
            for read in donated_reads(plan, turns, turn.piece):
                live.pop(_slot_of(plan, reads[read], turn.microbatch), None)
            live |= {_slot_of(plan, number, turn.microbatch): bytes_of[number] for number in writes}
        # The first part is the sum, and others are added to it where it is.
        live |= {into: bytes_of[into[0]] for _, into in turn.sums}
        for slot in (*(part for part, _ in turn.sums), *turn.frees):
            live.pop(slot, None)
        most = max(most, sum(live.values()))
    return most


def _slots(plan: _core.Pipeline, number: int) -> list[Any]:
    is_each = plan.buffers[number][1]
    return [(number, each) for each in range(plan.microbatches)] if is_each else [(number, None)]


def _slot_of(plan: _core.Pipeline, number: int, microbatch: int | None) -> Any:
    return number, microbatch if plan.buffers[number][1] else None


def _device_bytes(row: Any, sizes: Mapping[str, int]) -> int:
    _, _, _, dtype, shape, dims = row
    parts = math.prod(sizes[axis] for axes in dims for axis in axes)
    return int(np.prod(shape, dtype=int)) * _dtype(dtype).itemsize // parts
