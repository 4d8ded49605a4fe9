"""What the devices of stages have in memory over a step: arrays by the lists that stages follow, and what XLA says that
it needs for each piece besides."""

import math

import numpy as np

from meshwright.jax.lists import donated_reads, turns_in_order
from meshwright.jax.stages import _dtype


def stage_bytes(step):
    """The most that a device of any stage has."""
    turns = turns_in_order(step.plan)
    return max(most_bytes(step, turns, stage) for stage in range(step.plan.stage_count))


def most_bytes(step, turns, stage):
    plan, pieces = step.plan, step.plan.pieces
    bytes_of = [device_bytes(row, dict(plan.mesh)) for row in plan.buffers]
    live = {}
    for number in {number for numbers in plan.arguments for number in numbers if plan.buffers[number][0] == stage}:
        live |= {slot: bytes_of[number] for slot in slots(plan, number)}
    most = sum(live.values())
    for turn in (turn for turn in turns if turn.stage == stage):
        live |= {slot: bytes_of[slot[0]] for slot in turn.receives}
        if turn.piece is not None and pieces[turn.piece][3]:
            name, _, reads, writes = pieces[turn.piece]
            needs = step.compiled[name].memory_analysis()
            made = needs.output_size_in_bytes - needs.alias_size_in_bytes
            most = max(most, sum(live.values()) + made + needs.temp_size_in_bytes)
            for read in donated_reads(plan, turns, turn.piece):
                live.pop(slot_of(plan, reads[read], turn.microbatch), None)
            live |= {slot_of(plan, number, turn.microbatch): bytes_of[number] for number in writes}
        # The first part is the sum, and others are added to it where it is.
        live |= {into: bytes_of[into[0]] for _, into in turn.sums}
        for slot in (*(part for part, _ in turn.sums), *turn.frees):
            live.pop(slot, None)
        most = max(most, sum(live.values()))
    return most


def slots(plan, number):
    is_each = plan.buffers[number][1]
    return [(number, each) for each in range(plan.microbatches)] if is_each else [(number, None)]


def slot_of(plan, number, microbatch):
    return number, microbatch if plan.buffers[number][1] else None


def device_bytes(row, sizes):
    _, _, _, dtype, shape, dims = row
    parts = math.prod(sizes[axis] for axes in dims for axis in axes)
    return int(np.prod(shape, dtype=int)) * _dtype(dtype).itemsize // parts
