"""Gradients that are rounding and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from meshwright.torch.capture import arguments_of, loss_of

# What is compared in 32 bits has to agree to so many digits, relative to its largest number.
DIGITS = 1e-4


def rounding_alone(
    model: torch.nn.Module, batch: Any, loss_fn: Any, gradients: Mapping[str, torch.Tensor]
) -> dict[str, float]:
    """The parameters whose gradients have no right digit, each with the largest number of all gradients.

    What a softmax does not see, such as a bias of keys, which moves all scores of a query alike, has a gradient of zero. What
    is computed of it in 32 bits is what rounding left of sums whose terms cancel, and any other order to add leaves another
    number: relative to itself it says nothing. How far it may be off follows from the terms, which are as large as gradients
    elsewhere. That it is so nobody takes from its being small: the same gradient in 64 bits has to be as good as gone, or it
    is held to its own digits like all others.
    """
    sizes = {path: _largest(gradient) for path, gradient in gradients.items() if gradient.dtype == torch.float32}
    largest = max(sizes.values(), default=0.0)
    small = [path for path, size in sizes.items() if 0.0 < size < 0.1 * DIGITS * largest]
    if not small:
        return {}
    exact = _exact(model, batch, loss_fn, small)
    return {path: largest for path, gradient in exact.items() if _largest(gradient) < DIGITS * sizes[path]}


def _exact(model: torch.nn.Module, batch: Any, loss_fn: Any, paths: list[str]) -> dict[str, torch.Tensor]:
    """Gradients in 64 bits; none where a model holds something that goes with 32 bits alone."""
    exact, wide = copy.deepcopy(model).double(), pytree.tree_map(_wide, batch)
    args, kwargs = arguments_of(wide)
    parameters = dict(exact.named_parameters())
    try:
        loss = loss_of(exact(*args, **kwargs), wide, loss_fn)
        return dict(zip(paths, torch.autograd.grad(loss, [parameters[path] for path in paths])))
    except RuntimeError:
        return {}


def _largest(gradient: torch.Tensor) -> float:
    return float(gradient.abs().max()) if gradient.numel() else 0.0


def _wide(leaf: Any) -> Any:
    return leaf.double() if torch.is_tensor(leaf) and leaf.dtype == torch.float32 else leaf
