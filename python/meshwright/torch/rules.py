"""Sharding rules that users give for their own ops."""

from __future__ import annotations

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
