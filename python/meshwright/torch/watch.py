"""What went wrong in a process, told to all others: those that wait for it end with the cause instead of waiting on."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import torch.distributed as dist

from meshwright import _core
from meshwright.torch.backends import backends

# Seconds between two looks at what others tell.
PAUSE = 1.0
# Seconds in which somebody who waits is expected to be told by the connection that he waits on.
GRACE = 10.0
_CAUSE, _ALIVE, _KNOWN = "meshwright/cause", "meshwright/alive", "meshwright/known"
# What collectives and stores raise when a connection ends, among others.
_LOST = (RuntimeError, dist.DistError)
# What Gloo and NCCL say when a connection ends.
_SIGNS = ("Connection closed by peer", "Connection reset by peer", "gloo/transport", "Broken pipe", "NCCL", "Timed out waiting")


class Watch:
    """The eyes of a process on all others, through the store that they met in.

    Where a step fails in its middle, the others are in collectives that nobody will finish. So whoever fails writes the
    cause to the store, and a thread of every process looks for one. Connections end with the process that failed, by which
    those who wait for it come back and raise the cause; NCCL, which does not notice, is told to give up. A process that
    still waits after a while, since the one that failed lives on, is ended with the cause.
    """

    def __init__(self, store: Any, rank: int, size: int) -> None:
        # The thread has a connection of its own: others may be waiting on the first.
        self.store, self.rank, self.size = store.clone(), rank, size
        self.cause: str | None = None
        self.is_inside = False
        self.stopped = threading.Event()
        self.thread = threading.Thread(target=self._look, name="meshwright watch", daemon=True)
        self.thread.start()

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """In which this process works together with others. What goes wrong here is told to them, and what went wrong in
        another is raised."""
        self._raise_cause()
        self.is_inside = True
        try:
            yield
        except _LOST as error:
            if not _is_of_another(error):
                self.tell(error)
                raise
            self._find_cause()
            raise _core.Error(self.cause or _unknown(self.rank, error)) from error
        except Exception as error:
            self.tell(error)
            raise
        finally:
            self.is_inside = False
        # Collectives that were given up leave anything in their results.
        self._raise_cause()

    def tell(self, error: BaseException) -> None:
        """Tells all others why this process ends, unless somebody told them something before."""
        if self.cause is None:
            text = str(error).partition("\n\nhint:")[0]
            self._settle(f"process {self.rank} failed: {type(error).__name__}: {text}\n\nhint: its own output tells where")

    def stop(self) -> None:
        self.stopped.set()
        self.thread.join()

    def _raise_cause(self) -> None:
        if self.cause is not None:
            raise _core.Error(self.cause)

    def _settle(self, cause: str) -> None:
        """Makes something the cause in all processes, or learns that there is one already."""
        self.cause = cause
        with contextlib.suppress(*_LOST):
            self._learn(self.store.compare_set(_CAUSE, "", cause).decode())

    def _learn(self, cause: str) -> None:
        """Notes what went wrong, and that this process knows it. The store may end with the first process, which therefore
        waits until all others know, or are gone."""
        self.cause = cause
        self.store.set(f"{_KNOWN}/{self.rank}", "")
        names = [f"{_KNOWN}/{rank}" for rank in range(self.size)]
        ends = time.monotonic() + 2 * PAUSE
        while self.rank == 0 and time.monotonic() < ends and not self.store.check(names):
            time.sleep(PAUSE / 10)

    def _find_cause(self) -> None:
        """Why a connection ended. A process that was killed told nothing: its thread does not count on."""
        try:
            before = self._counts()
            ends = time.monotonic() + 3 * PAUSE
            while time.monotonic() < ends:
                if self.store.check([_CAUSE]):
                    return self._learn(self.store.get(_CAUSE).decode())
                time.sleep(PAUSE / 10)
            gone = [rank for rank, (old, new) in enumerate(zip(before, self._counts())) if old == new]
        except _LOST:
            self.cause = self.cause or _gone("the process that has the store, process 0 or the launcher, is")
            return
        if gone:
            names = ", ".join(map(str, gone))
            self._settle(_gone(f"process {names} is" if len(gone) == 1 else f"processes {names} are"))

    def _counts(self) -> list[int]:
        return [self.store.add(f"{_ALIVE}/{rank}", 0) for rank in range(self.size)]

    def _look(self) -> None:
        while not self.stopped.wait(PAUSE):
            try:
                self.store.add(f"{_ALIVE}/{self.rank}", 1)
                if not self.store.check([_CAUSE]):
                    continue
                self._learn(self.store.get(_CAUSE).decode())
            except _LOST:
                # At the end of a run the store goes first.
                return
            return self._end()

    def _end(self) -> None:
        """Has this process come back from what it waits for, or ends it."""
        for group in list(dist.distributed_c10d._world.pg_names):
            if set(backends(group).values()) != {"gloo"}:
                with contextlib.suppress(RuntimeError):
                    group.abort()
        ends = time.monotonic() + GRACE
        while self.is_inside:
            if time.monotonic() > ends:
                print(f"error: {self.cause}", file=sys.stderr, flush=True)
                os._exit(1)
            if self.stopped.wait(PAUSE / 10):
                return


def _is_of_another(error: Exception) -> bool:
    return isinstance(error, dist.DistError) or any(sign in str(error) for sign in _SIGNS)


def _gone(who: str) -> str:
    return (
        f"{who} gone without a word\n\n"
        "hint: it may have been killed, as systems do where memory runs out; its output and that of the launcher tell more"
    )


def _unknown(rank: int, error: Exception) -> str:
    return (
        f"process {rank} lost the connection to another process: {str(error).splitlines()[0]}\n\n"
        "hint: what went wrong is told by the process that ended first"
    )


_watch: Watch | None = None
_group: Any = None


def watch() -> Watch:
    """The watch of the process group that there is. It also tells what goes wrong between steps, where that ends a process."""
    global _watch, _group
    if _watch is None:
        _tell_what_ends_this_process()
    elif _group() is not dist.group.WORLD:
        _watch.stop()
        _watch = None
    if _watch is None:
        # Whoever destroys the group wants it to end.
        _group = weakref.ref(dist.group.WORLD)
        _watch = Watch(dist.distributed_c10d._get_default_store(), dist.get_rank(), dist.get_world_size())
    return _watch


def _tell_what_ends_this_process() -> None:
    previous = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
        if _watch is not None:
            _watch.tell(error)
        previous(kind, error, trace)

    sys.excepthook = hook
    atexit.register(lambda: _watch is not None and _watch.stop())
