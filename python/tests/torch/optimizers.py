"""Optimizers, those of PyTorch and one of a user, by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch


class Counted(torch.optim.Optimizer):
    """As many are written that are not PyTorch's: it counts in a number of Python, bounds factors by functions of Python, and
    keeps new tensors instead of writing to those that it has."""

    def __init__(self, params: Any, lr: float) -> None:
        super().__init__(params, {"lr": lr, "beta": 0.9})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state, beta = self.state[parameter], group["beta"]
                if not state:
                    state.update(step=0, average=torch.zeros_like(parameter))
                state["step"] += 1
                state["average"] = beta * state["average"] + (1 - beta) * parameter.grad
                rate = min(group["lr"] / math.sqrt(state["step"]), 0.8 * group["lr"])
                parameter.add_(state["average"], alpha=-rate / (1 - beta ** state["step"]))


def grouped(parameters: Any) -> torch.optim.Optimizer:
    found = list(parameters)
    matrices, vectors = ([each for each in found if (each.ndim > 1) == is_matrix] for is_matrix in (True, False))
    return torch.optim.AdamW([{"params": matrices}, {"params": vectors, "lr": 0.03, "weight_decay": 0.0}], 0.1, weight_decay=0.2)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, 0.1),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, 0.1, amsgrad=True, weight_decay=0.1),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, 0.1, momentum=0.5, centered=True),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.1, initial_accumulator_value=0.2),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters, 0.1, weight_decay=0.1),
    "nadam": lambda parameters: torch.optim.NAdam(parameters, 0.1),
    "counted": lambda parameters: Counted(parameters, 0.1),
    "grouped": grouped,
}
