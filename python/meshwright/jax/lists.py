"""The lists of a pipeline as one order of work, the same in every process."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from meshwright import _core

# A buffer, for the microbatch where there is one for each.
Slot = tuple[int, "int | None"]


@dataclasses.dataclass(frozen=True)
class Turn:
    """A piece that a stage runs, and what it does before it runs the next."""

    stage: int
    piece: int | None
    microbatch: int | None
    receives: tuple[Slot, ...] = ()
    # Slots of the stage, and those on other stages that they are sent to.
    sends: tuple[tuple[Slot, Slot], ...] = ()
    # Slots of parts, and of the sums that they are added to.
    sums: tuple[tuple[Slot, Slot], ...] = ()
    frees: tuple[Slot, ...] = ()


def turns_in_order(pipeline: _core.Pipeline) -> list[Turn]:
    """What all stages do in an order in which each has what it reads: a turn of every stage that can go on, then the
    next of every stage. Processes that follow the same order never wait for each other in a circle."""
    is_each = [row[1] for row in pipeline.buffers]
    waiting = [_turns(stage, rows, is_each) for stage, rows in enumerate(pipeline.instructions)]
    sent: set[Slot] = set()
    order: list[Turn] = []
    while any(waiting):
        ready = [turns for turns in waiting if turns and sent.issuperset(turns[0].receives)]
        if not ready:
            raise _core.Error("stages wait for each other\n\nhint: this is a bug of Meshwright; report it")
        for turns in ready:
            turn = turns.pop(0)
            sent.update(into for _, into in turn.sends)
            order.append(turn)
    return order


def _turns(
    stage: int, rows: Sequence[tuple[str, int, int, int | None]], is_each: Sequence[bool]
) -> list[Turn]:
    """A stage's list in turns. What is freed goes at the end of a turn, since sends of the same turn still read it."""
    turns: list[Turn] = []
    receives: list[Slot] = []

    def add(**more: tuple[object, ...]) -> None:
        last = turns[-1]
        grown: dict[str, Any] = {name: (*getattr(last, name), *slots) for name, slots in more.items()}
        turns[-1] = dataclasses.replace(last, **grown)

    for kind, first, second, microbatch in rows:
        own = (first, microbatch if is_each[first] else None) if kind != "run" else (first, None)
        if kind == "receive":
            receives.append(own)
        elif kind == "run":
            turns.append(Turn(stage, first, microbatch, tuple(receives)))
            receives.clear()
        elif kind == "send":
            add(sends=((own, (second, microbatch if is_each[second] else None)),))
        elif kind == "accumulate":
            add(sums=((own, (second, None)),))
        else:
            add(frees=(own,))
    if receives:
        turns.append(Turn(stage, None, None, tuple(receives)))
    return turns


def donated_reads(pipeline: _core.Pipeline, turns: Sequence[Turn], piece: int) -> list[int]:
    """Which arguments of a piece are freed after each of its runs, and give their memory to one of its results."""
    _, _, reads, writes = pipeline.pieces[piece]
    rows = pipeline.buffers
    own = [turn for turn in turns if turn.piece == piece]

    def kind(buffer: int) -> object:
        _, _, _, dtype, shape, dims = rows[buffer]
        return dtype, tuple(shape), tuple(map(tuple, dims))

    def is_freed(buffer: int) -> bool:
        slots = ((buffer, turn.microbatch if rows[buffer][1] else None) for turn in own)
        return reads.count(buffer) == 1 and all(slot in turn.frees for slot, turn in zip(slots, own))

    free_places = [kind(buffer) for buffer in writes]
    donated = []
    for number, buffer in enumerate(reads):
        if kind(buffer) in free_places and is_freed(buffer):
            free_places.remove(kind(buffer))
            donated.append(number)
    return donated
