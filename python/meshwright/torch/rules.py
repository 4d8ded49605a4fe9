"""Sharding rules of ops that programs have no words for: those that users give for their own, and some of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

RULES: dict[str, str] = {}


def register_rule(op: str, rule: str) -> None:
    """Says how an op that Meshwright does not know may be cut.

    Args:
      op: its name, such as `my::op`, with the overload if it has several, as `my::op.Tensor`.
      rule: a letter for every dimension of every operand and result, such as `(b s d, d e) -> (b s e)`. A letter that
        stands for the same dimension in several places may be cut there alike; one that no result has is summed over.
    """
    namespace, _, name = op.replace("::", ".").partition(".")
    RULES[f"{namespace}.{name}" if "." in name else f"{namespace}.{name}.default"] = rule


def has_rule(name: str) -> bool:
    return name in RULES or name in OWN


def rule_of(name: str, args: Sequence[Any], out: Any) -> str:
    """How a call may be cut that runs as it was recorded."""
    return RULES[name] if name in RULES else OWN[name](args, out)


def _transform(args: Sequence[Any], out: torch.Tensor) -> str:
    """What is not transformed may be cut, as it lies along the same dimension before and after."""
    whole = {dim % out.ndim for dim in args[1]}
    letters = " ".join("_" if dim in whole else f"d{dim}" for dim in range(out.ndim))
    return f"({letters}) -> ({letters})"


def _as_complex(args: Sequence[Any], out: torch.Tensor) -> str:
    letters = _letters(out.ndim)
    return f"({letters} _) -> ({letters})"


def _as_real(args: Sequence[Any], out: torch.Tensor) -> str:
    letters = _letters(out.ndim - 1)
    return f"({letters}) -> ({letters} _)"


def _letters(count: int) -> str:
    return " ".join(f"d{dim}" for dim in range(count))


# Ops of PyTorch that no program has in its own ops. They run as they were recorded.
OWN: dict[str, Callable[[Sequence[Any], Any], str]] = {
    "aten._fft_c2c.default": _transform,
    "aten._fft_c2r.default": _transform,
    "aten._fft_r2c.default": _transform,
    "aten.view_as_complex.default": _as_complex,
    "aten.view_as_real.default": _as_real,
}
