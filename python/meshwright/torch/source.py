"""Sources of local programs as functions."""

from __future__ import annotations

import hashlib
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

    @property
    def draws(self) -> bool:
        """Whether anything is left to chance."""
        return "chance(" in self.text

    def begin(self, seed: str) -> None:
        """Begins a step, in which numbers are drawn that follow from a seed."""
        if self.draws:
            self.names["chance"] = Chance(seed, self.names["device"])

    def compile(self) -> None:
        """Has PyTorch compile all functions when they are first called."""
        for name in {"forward", "backward", "update", "run"} & self.names.keys():
            self.names[name] = torch.compile(self.names[name], dynamic=False)

    def function(self, name: str) -> Callable[..., Any]:
        return self.names[name]

    def needed(self, name: str) -> list[int]:
        """Numbers of the arguments that the backward pass or the update needs."""
        return self.names[f"{name.upper()}_NEEDS"]

    def gives(self, name: str) -> list[int]:
        """Numbers of the results that a function gives."""
        return self.names[name.upper()]


class Chance:
    """Generators of random numbers. Every process draws the same for an op, of which it may have a part, and for the op
    that computes it again."""

    def __init__(self, seed: str, device: torch.device) -> None:
        self.seed, self.device = seed, device
        # How often each op has drawn: once for every microbatch.
        self.turns: dict[int, int] = {}

    def __call__(self, place: str, op: int) -> torch.Generator:
        turn = self.turns[op] = self.turns.get(op, -1) + 1
        digest = hashlib.sha256(f"{self.seed}/{turn}/{place}".encode()).digest()
        return torch.Generator(self.device).manual_seed(int.from_bytes(digest[:7], "big"))


def _constant(dtype: torch.dtype, shape: Sequence[int], digits: str, device: torch.device) -> torch.Tensor:
    data = bytearray.fromhex(digits)
    flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
    return flat.reshape(shape).to(device)
