"""Factors that are tensors, in updates of optimizers."""

from __future__ import annotations

import builtins
import contextlib
import functools
import math
import unittest.mock
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class TensorFactors(TorchFunctionMode):
    """While it is active, updates take tensors for numbers that they multiply by. PyTorch would ask for the number in
    them, which is not there; optimizers that count their steps make such numbers. They are as exact as numbers are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.item:
            # A number of Python is as exact as f64 is.
            return args[0].double() if args[0].is_floating_point() else args[0]
        if func in _MIXED and torch.is_tensor(args[2]):
            args = (*args[:2], args[2].to(args[0].dtype))
        if func is torch.Tensor.__rpow__ and args[0].ndim == 0 and args[0].is_floating_point():
            # What optimizers count in are tensors of f32 here, and numbers of Python elsewhere: one less a power of nearly one
            # would lose half of its digits.
            args = (args[0].double(), *args[1:])
        name = "value" if func in _COMBINED else "alpha"
        if (func in _COMBINED or func in _ADDED) and torch.is_tensor(kwargs.get(name)):
            factor = kwargs.pop(name)
            if func in _COMBINED:
                tensor, left, right = args
                return tensor.add_(_COMBINED[func](left, right) * factor)
            tensor, other = args
            return getattr(tensor, _ADDED[func])(other * factor)
        return func(*args, **kwargs)


_COMBINED = {torch.Tensor.addcdiv_: torch.div, torch.Tensor.addcmul_: torch.mul}
_ADDED = {torch.Tensor.add_: "add_", torch.Tensor.sub_: "sub_", torch.Tensor.add: "add", torch.Tensor.sub: "sub"}
_MIXED = {torch.Tensor.lerp, torch.Tensor.lerp_, torch.lerp}


@contextlib.contextmanager
def numbers_in_tensors() -> Iterator[None]:
    """While it is active, updates of optimizers compute with numbers in tensors as with those of Python, which are not known:
    as factors, and as the arguments of functions that Python would have to see numbers for."""
    with TensorFactors(), contextlib.ExitStack() as stack:
        for owner, name, instead in _FUNCTIONS:
            usual = getattr(owner, name)
            stack.enter_context(unittest.mock.patch.object(owner, name, _of_tensors(usual, instead)))
        yield


_FUNCTIONS = [(builtins, "min", torch.minimum), (builtins, "max", torch.maximum), (math, "sqrt", torch.sqrt), (math, "pow", torch.pow)]


def _of_tensors(usual: Callable[..., Any], instead: Callable[..., torch.Tensor]) -> Callable[..., Any]:
    """A function of numbers that takes tensors of single numbers too, and then gives one."""

    def called(*args: Any, **kwargs: Any) -> Any:
        if not any(torch.is_tensor(arg) and arg.ndim == 0 for arg in args):
            return usual(*args, **kwargs)
        numbers = [arg.double() if torch.is_tensor(arg) else torch.tensor(arg, dtype=torch.float64) for arg in args]
        return instead(*numbers) if len(numbers) == 1 else functools.reduce(instead, numbers)

    return called
