"""What is on its way to other processes, and has to stay as it is until it has arrived."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from meshwright.torch.backends import is_gloo


class Outbox:
    """Values that are being sent between devices of a kind, each as long as that takes, by numbers that go up.

    NCCL can be asked what has arrived. Gloo tells those alone who wait for it, and then a thread does that; values are let
    go by the process itself, whose memory it is.
    """

    def __init__(self, kind: str) -> None:
        self.is_gloo = is_gloo(kind)
        self.held: dict[int, tuple[Any, torch.Tensor]] = {}
        self.next = 0
        self.sent: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self.arrived: queue.SimpleQueue[tuple[int, Exception | None]] = queue.SimpleQueue()
        if self.is_gloo:
            threading.Thread(target=_wait, args=(self.sent, self.arrived), name="meshwright sends", daemon=True).start()

    def send(self, value: torch.Tensor, receiver: int, tag: int, group: Any) -> None:
        number, work = self.next, dist.isend(value, receiver, group=group, tag=tag)
        self.next += 1
        self.held[number] = work, value
        if self.is_gloo:
            self.sent.put((number, work))

    def wait(self, mark: int) -> None:
        """Waits until what was sent before a mark has arrived."""
        while self.is_gloo and any(number < mark for number in self.held):
            self._let_go()
        for number in [number for number in self.held if number < mark]:
            work, _ = self.held.pop(number)
            work.wait()

    def tidy(self) -> None:
        """Lets go of what has arrived."""
        if not self.is_gloo:
            self.held = {number: row for number, row in self.held.items() if not row[0].is_completed()}
        while self.is_gloo and not self.arrived.empty():
            self._let_go()

    def empty(self) -> None:
        """Waits until everything has arrived."""
        self.wait(self.next)

    def _let_go(self) -> None:
        number, error = self.arrived.get()
        del self.held[number]
        if error is not None:
            raise error


def _wait(sent: queue.SimpleQueue[tuple[int, Any]], arrived: queue.SimpleQueue[tuple[int, Exception | None]]) -> None:
    while True:
        number, work = sent.get()
        failed = None
        try:
            work.wait()
        except RuntimeError as error:
            failed = error
        # Works hold what they send, too, and the process that is told next shall be the last to.
        del work
        arrived.put((number, failed))


def can_wait(lists: Sequence[Sequence[tuple[str, int, int, int | None]]]) -> bool:
    """Whether stages come to the ends of their lists where each, before it runs a piece, waits until what it sent before
    the last one has arrived. Otherwise one that has no backward pass would run ahead of all others and hold what it sends
    of all microbatches."""
    places, sent, received = [0] * len(lists), set(), set()
    before_last: list[set[Any]] = [set() for _ in lists]
    after_last: list[set[Any]] = [set() for _ in lists]

    def proceeds(stage: int) -> bool:
        kind, first, second, microbatch = lists[stage][places[stage]]
        if kind == "run":
            if not before_last[stage] <= received:
                return False
            before_last[stage], after_last[stage] = after_last[stage], set()
        elif kind == "send":
            sent.add((second, microbatch))
            after_last[stage].add((second, microbatch))
        elif kind == "receive":
            if (first, microbatch) not in sent:
                return False
            received.add((first, microbatch))
        places[stage] += 1
        return True

    has_moved = True
    while has_moved:
        has_moved = False
        for stage, rows in enumerate(lists):
            while places[stage] < len(rows) and proceeds(stage):
                has_moved = True
    return places == list(map(len, lists))
