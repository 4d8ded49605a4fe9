"""How the C library gives memory to threads."""

from __future__ import annotations

import contextlib
import ctypes
import sys
from collections.abc import Iterator

# Of `malloc.h`: the most arenas that there may be, and that there may be as many as it likes.
_ARENAS_MAX, _ANY = -8, 0


@contextlib.contextmanager
def no_new_arenas() -> Iterator[None]:
    """Threads of the planner come and go. With glibc each would get an arena of its own, and what one has freed the next does
    not find: planning takes half as much memory again. Elsewhere nothing changes."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is None:
        yield
        return
    mallopt(_ARENAS_MAX, 1)
    try:
        yield
    finally:
        mallopt(_ARENAS_MAX, _ANY)
