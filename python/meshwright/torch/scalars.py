"""Factors that are tensors, in updates of optimizers."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import TorchFunctionMode


class TensorFactors(TorchFunctionMode):
    """While it is active, updates take tensors for numbers that they multiply by. PyTorch would ask for the number in
    them, which is not there; optimizers that count their steps make such numbers. They are as exact as numbers are."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
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
