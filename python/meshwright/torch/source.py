"""Sources of local programs as functions."""

from __future__ import annotations

import itertools
import linecache
from collections.abc import Callable, Sequence
from typing import Any

import torch

from meshwright.torch import ops
from meshwright.torch.collectives import Group

_NUMBERS = itertools.count()


class Source:
    """A source that was compiled. What it needs besides is given once the processes have met."""

    def __init__(self, text: str, rank: int, device: torch.device) -> None:
        self.text = text
        # Tracebacks show lines of files; this one is in memory.
        self.file = f"<meshwright source {next(_NUMBERS)}>"
        linecache.cache[self.file] = (len(text), None, text.splitlines(keepends=True), self.file)
        self.names: dict[str, Any] = {name: getattr(ops, name) for name in ops.__all__}
        self.names |= {"rank": rank, "device": device, "groups": []}
        exec(compile(text, self.file, "exec"), self.names)
        self.names["constants"] = [_constant(*row, device) for row in self.names["CONSTANTS"]]

    @property
    def partitions(self) -> Sequence[Sequence[Sequence[int]]]:
        """Groups of devices that collectives are between."""
        return self.names["GROUPS"]

    def meet(self, groups: Sequence[Group]) -> None:
        self.names["groups"] = groups

    def compile(self) -> None:
        """Has PyTorch compile all functions when they are first called."""
        for name in ("forward", "backward", "update"):
            self.names[name] = torch.compile(self.names[name], dynamic=False)

    def function(self, name: str) -> Callable[..., Any]:
        return self.names[name]

    def gives(self, name: str) -> list[int]:
        """Numbers of the results that a function gives."""
        return self.names[name.upper()]


def _constant(dtype: torch.dtype, shape: Sequence[int], digits: str, device: torch.device) -> torch.Tensor:
    data = bytearray.fromhex(digits)
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape).to(device)
