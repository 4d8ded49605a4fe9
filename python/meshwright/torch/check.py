"""Does a captured program compute what PyTorch does?"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

from meshwright import _core
from meshwright.torch.capture import _flattened, arguments_of, capture, loss_of
from meshwright.torch.record import shape_and_type
from meshwright.torch.rounding import rounding_alone

# What the largest number of a result counts as, at least.
LEAST = 1e-6


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How far the results of a captured program are from PyTorch's own. It is true where they agree."""

    # Of every result its name, and the largest difference over its largest number; of a gradient that is rounding alone, over
    # that of all gradients.
    differences: tuple[tuple[str, float], ...]
    tolerance: float

    def __bool__(self) -> bool:
        return all(difference <= self.tolerance for _, difference in self.differences)

    def __str__(self) -> str:
        worst = sorted(self.differences, key=lambda row: -row[1])[:10]
        verdict = "equal" if self else "different"
        lines = [f"{verdict}: {len(self.differences)} results, differences up to {self.tolerance:g} allowed"]
        return "\n".join([*lines, *(f"  {difference:.2e}  {name}" for name, difference in worst)])


def check(
    model: torch.nn.Module, batch: Any, loss_fn: Callable[..., Any] | None = None, *, tolerance: float = 1e-4
) -> Comparison:
    """Evaluates the captured program by the reference interpreter and compares loss and gradients with PyTorch's own.

    Everything happens on one CPU, so give it a small model and small data, without dropout.
    """
    captured = capture(model, batch, loss_fn)
    found = evaluate(captured.program, given(model, batch) | captured.constants)
    buffers = {path: buffer.clone() for path, buffer in model.named_buffers()}
    expected: dict[str, torch.Tensor] = {}
    parameters = {path: parameter for path, parameter in model.named_parameters() if parameter.requires_grad}
    with _restored(model, buffers):
        args, kwargs = arguments_of(batch)
        loss = loss_of(model(*args, **kwargs), batch, loss_fn)
        gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
        expected["loss"] = loss.detach()
        expected |= {f"grads.{path}": g for path, g in zip(parameters, gradients) if g is not None}
        expected |= {f"buffers.{path}": buffer.clone() for path, buffer in model.named_buffers()}
        of_parameters = {path: gradient for path, gradient in zip(parameters, gradients) if gradient is not None}
        least = {f"grads.{path}": most for path, most in rounding_alone(model, batch, loss_fn, of_parameters).items()}
    missing = set(expected) ^ set(found)
    if missing:
        raise _core.Error(f"the program and PyTorch have different results: {', '.join(sorted(missing)[:5])}")
    rows = tuple((name, difference(found[name], expected[name], least.get(name, LEAST))) for name in expected)
    return Comparison(rows, tolerance)


def given(model: torch.nn.Module, batch: Any) -> dict[str, torch.Tensor]:
    """The arguments of a captured program by name."""
    values = {f"params.{path}": parameter for path, parameter in model.named_parameters()}
    values |= {f"buffers.{path}": buffer for path, buffer in model.named_buffers()}
    paths, leaves, _ = _flattened(batch)
    return values | {path: leaf for path, leaf in zip(paths, leaves) if torch.is_tensor(leaf)}


def evaluate(program: _core.Program, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The results of a program by the reference interpreter."""
    found = program.evaluate([to_bytes(values[name]) for name, _ in program.arguments])
    return {name: from_bytes(data, ty) for (name, ty), data in zip(program.results, found)}


def to_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b""


def from_bytes(data: bytes, ty: str) -> torch.Tensor:
    shape, dtype = shape_and_type(ty)
    flat = torch.frombuffer(bytearray(data), dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
    return flat.view(dtype).reshape(shape)


def difference(found: torch.Tensor, expected: torch.Tensor, least: float = LEAST) -> float:
    """The largest difference over the largest number, which counts as so much at least; not a number where only one has none."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return float("inf")
    if not expected.is_floating_point():
        return float((found != expected).any())
    if expected.numel() == 0 or torch.equal(found, expected):
        return 0.0
    left, right = found.double(), expected.double()
    same = (left == right) | (left.isnan() & right.isnan())
    largest = max(float(right[right.isfinite()].abs().max()) if right.isfinite().any() else 0.0, least)
    off = torch.where(same, torch.zeros_like(left), (left - right).abs())
    return float(off.max()) / largest


@contextlib.contextmanager
def _restored(model: torch.nn.Module, buffers: dict[str, torch.Tensor]) -> Any:
    try:
        yield
    finally:
        with torch.no_grad():
            for path, buffer in model.named_buffers():
                buffer.copy_(buffers[path])
