"""A step of a plan without stages, as one process runs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh

from meshwright.torch.collectives import make_groups
from meshwright.torch.place import Cut, part_of
from meshwright.torch.processes import Control
from meshwright.torch.source import Source

# The parts of this process of arguments or results, by name.
Parts = Mapping[str, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Stored:
    """How an argument or a result is stored: all of its shape, its type, and the axes of the mesh that cut each dimension."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    cut: Cut


class WholeStep:
    """Every process runs one source, on its parts of everything."""

    def __init__(
        self, text: str, mesh: DeviceMesh, control: Control, device: torch.device, arguments: Mapping[str, Stored],
        results: Mapping[str, Stored],
    ) -> None:  # fmt: skip
        self.mesh, self.control, self.device = mesh, control, device
        self.text = text
        self.arguments, self.results = dict(arguments), dict(results)
        self.source = Source(text, control.rank, device)
        self.argument_names, self.result_names = list(arguments), list(results)

    def meet(self) -> None:
        """Makes the groups of the collectives. All processes come here together."""
        self.source.meet(make_groups(self.source.partitions, self.mesh))

    def compile(self) -> None:
        self.source.compile()

    @property
    def draws(self) -> bool:
        return self.source.draws

    def begin(self, seed: str) -> None:
        self.source.begin(seed)

    def part(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """The part of this process of an input."""
        return part_of(whole, self.mesh, self.arguments[name].cut)

    def forward(self, given: Parts) -> tuple[dict[str, torch.Tensor], Any]:
        """The loss and the next buffers, and what the backward pass needs."""
        arguments = [given.get(name) for name in self.argument_names]
        results, saved = self.source.function("forward")(arguments)
        named = self._named("forward", results)
        # Buffers are overwritten before the backward pass, which reads them as they were.
        overwritten = {_place(given[name]) for name, value in named.items() if name in given and value is not given[name]}
        if overwritten:
            for number in self.source.needed("backward"):
                arguments[number] = _kept(arguments[number], overwritten)
            saved = [_kept(value, overwritten) for value in saved]
        return named, (arguments, saved)

    def backward(self, left: Any) -> tuple[dict[str, torch.Tensor], Any]:
        """The gradients, and what the update needs besides."""
        gradients, kept = self.source.function("backward")(*left)
        return self._named("backward", gradients), kept

    def update(self, given: Parts, gradients: Parts, kept: Any) -> None:
        """Overwrites parameters and state."""
        arguments = [given.get(name) for name in self.argument_names]
        names = [self.result_names[number] for number in self.source.gives("backward")]
        self.source.function("update")(arguments, [*(gradients[name] for name in names), *kept])

    def finishes(self, name: str) -> bool:
        """Whether a result is made here, and not by another stage for this one."""
        return name in self.results

    def combined_norm(self, norm: torch.Tensor, kind: float) -> torch.Tensor:
        """The norm of what all stages have, of that of each."""
        return norm

    def _named(self, function: str, results: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        return {self.result_names[number]: value for number, value in zip(self.source.gives(function), results)}


def _place(value: torch.Tensor) -> int:
    """Where a tensor lies, and all views of it."""
    return value.untyped_storage().data_ptr()


def _kept(value: torch.Tensor, overwritten: set[int]) -> torch.Tensor:
    return value.clone() if _place(value) in overwritten else value
