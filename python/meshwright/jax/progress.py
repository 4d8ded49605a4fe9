"""A line on the terminal while something takes long. Where standard error is no terminal, nothing is shown."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

WIDTH = 20
# What takes less is not worth a line.
PATIENCE_SECONDS = 0.3
EVERY_SECONDS = 0.1

# Says how many are done, and of how many.
Told = Callable[[int, int], None]


@contextlib.contextmanager
def shown(what: str, stream: TextIO | None = None) -> Iterator[Told]:
    """Shows what is going on, for how long, and how much of it is done where somebody tells."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        yield lambda done, total: None
        return
    progress: list[int] = [0, 0]
    ended = threading.Event()

    def told(done: int, total: int) -> None:
        progress[:] = done, total

    thread = threading.Thread(target=_draw, args=(out, what, progress, ended), daemon=True)
    thread.start()
    try:
        yield told
    finally:
        ended.set()
        thread.join()


def _draw(out: TextIO, what: str, progress: list[int], ended: threading.Event) -> None:
    started = time.monotonic()
    is_drawn = False
    pause = PATIENCE_SECONDS
    while not ended.wait(pause):
        out.write("\r" + line(what, time.monotonic() - started, *progress))
        out.flush()
        is_drawn, pause = True, EVERY_SECONDS
    if is_drawn:
        # The line is gone when the work is done.
        out.write("\r\x1b[K")
        out.flush()


def line(what: str, seconds: float, done: int, total: int) -> str:
    """How it looks: a bar that fills where there is something to count, and otherwise one that goes back and forth."""
    if total:
        filled = WIDTH * done // total
        bar = "█" * filled + "░" * (WIDTH - filled)
        return f"{what} {bar} {done}/{total}  {seconds:.0f} s\x1b[K"
    place = int(seconds / EVERY_SECONDS) % (2 * (WIDTH - 3))
    place = min(place, 2 * (WIDTH - 3) - place)
    return f"{what} {'░' * place}███{'░' * (WIDTH - 3 - place)}  {seconds:.0f} s\x1b[K"
