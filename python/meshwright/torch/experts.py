"""Experts of `transformers` models, in a form that works for all tokens whatever they choose and leaves every token where it is."""

from __future__ import annotations

import contextlib
import sys
import unittest.mock
from collections.abc import Iterator
from typing import Any

import torch

# What a configuration calls this form.
NAME = "meshwright"


@contextlib.contextmanager
def static_experts(model: torch.nn.Module, own_kernels: bool) -> Iterator[None]:
    """Models of `transformers` may loop over the experts that tokens chose, which cannot be known without tokens. The form
    for all tokens at once that PyTorch runs is `grouped_mm`, and a profile follows it: it sorts tokens by experts, by one op
    that it avoids where it is compiled. Sorting mixes all samples, though no token needs another one: where a step is cut,
    every token chooses its matrices where it is."""
    experts = sys.modules.get("transformers.integrations.moe")
    configs = {id(c): c for m in model.modules() if (c := getattr(m, "config", None)) is not None}
    known = ("eager",) if own_kernels else ("eager", "grouped_mm", "batched_mm")
    name = "grouped_mm" if own_kernels or not hasattr(experts, "ALL_EXPERTS_FUNCTIONS") else NAME
    with contextlib.ExitStack() as stack:
        if hasattr(experts, "_can_use_grouped_mm"):
            stack.enter_context(unittest.mock.patch.object(experts, "_can_use_grouped_mm", lambda *_: True))
        if name == NAME:
            experts.ALL_EXPERTS_FUNCTIONS[NAME] = experts_forward
            stack.callback(experts.ALL_EXPERTS_FUNCTIONS.__delitem__, NAME)
        for config in configs.values():
            own = getattr(config, "_experts_implementation", None)
            if own in known:
                config._experts_implementation = name
                stack.callback(setattr, config, "_experts_implementation", own)
        yield


def experts_forward(self: Any, hidden: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """What every token gets from the experts that it chose, in the words of a module with experts of `transformers`."""
    count, width = hidden.shape
    indices = chosen.reshape(-1)
    rows = hidden[:, None, :].expand(count, chosen.shape[-1], width).reshape(-1, width)
    name = "gate_up_proj" if self.has_gate else "up_proj"
    made = _linear(self, name, rows, indices)
    made = self._apply_gate(made) if self.has_gate else self.act_fn(made)
    made = _linear(self, "down_proj", made, indices)
    if getattr(self, "has_post_expert_norm", False):
        made = self.post_expert_norm(made)
    made = made * weights.reshape(-1, 1)
    return made.reshape(count, chosen.shape[-1], width).sum(1).to(hidden.dtype)


def _linear(self: Any, name: str, rows: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
    weight = getattr(self, name)
    table = weight if self.is_transposed else weight.transpose(1, 2)
    kind = rows.device.type
    # A function of its own is none of those that PyTorch knows to compute in fewer bits.
    dtype = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else table.dtype
    made: torch.Tensor = ChosenProducts.apply(rows.to(dtype), table.to(dtype), indices)
    return made + getattr(self, f"{name}_bias")[indices] if self.has_bias else made


class ChosenProducts(torch.autograd.Function):
    """Rows times the matrices that they choose. A chosen matrix is far more than its row: it is chosen anew wherever it is
    needed, next to its product, and kept nowhere."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, table: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(rows, table, indices)
        return torch.bmm(rows[:, None, :], table.index_select(0, indices))[:, 0, :]

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        rows, table, indices = ctx.saved_tensors
        of_rows = of_table = None
        if ctx.needs_input_grad[0]:
            of_rows = torch.bmm(gradient[:, None, :], table.transpose(1, 2).index_select(0, indices))[:, 0, :]
        if ctx.needs_input_grad[1]:
            parts = torch.bmm(rows[:, :, None], gradient[:, None, :])
            of_table = torch.zeros_like(table, memory_format=torch.contiguous_format).index_add(0, indices, parts)
        return of_rows, of_table, None
