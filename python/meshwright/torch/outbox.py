"""What is on its way to other processes, and has to stay as it is until it has arrived."""

from __future__ import annotations

import itertools
import queue
import threading
from typing import Any

import torch
import torch.distributed as dist

from meshwright.torch.backends import is_gloo


class Outbox:
    """Values that are being sent between devices of a kind, each as long as that takes.

    NCCL can be asked what has arrived. Gloo tells those alone who wait for it, and then a thread does that; values are let
    go by the process itself, whose memory it is.
    """

    def __init__(self, kind: str) -> None:
        self.is_gloo = is_gloo(kind)
        self.held: dict[int, tuple[Any, torch.Tensor]] = {}
        self.numbers = itertools.count()
        self.sent: queue.SimpleQueue[tuple[int, Any]] = queue.SimpleQueue()
        self.arrived: queue.SimpleQueue[tuple[int, Exception | None]] = queue.SimpleQueue()
        if self.is_gloo:
            threading.Thread(target=_wait, args=(self.sent, self.arrived), name="meshwright sends", daemon=True).start()

    def send(self, value: torch.Tensor, receiver: int, tag: int, group: Any) -> None:
        number, work = next(self.numbers), dist.isend(value, receiver, group=group, tag=tag)
        self.held[number] = work, value
        if self.is_gloo:
            self.sent.put((number, work))

    def tidy(self) -> None:
        """Lets go of what has arrived."""
        if not self.is_gloo:
            self.held = {number: row for number, row in self.held.items() if not row[0].is_completed()}
        while self.is_gloo and not self.arrived.empty():
            self._let_go()

    def empty(self) -> None:
        """Waits until everything has arrived."""
        while self.is_gloo and self.held:
            self._let_go()
        for work, _ in self.held.values():
            work.wait()
        self.held.clear()

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
