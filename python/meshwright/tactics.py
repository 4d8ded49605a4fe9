"""Tactics: what you decide about a plan yourself. The words are those of tactics files.

Tactics apply in order, and what an earlier one decided stays. What none of them decides is planned; `auto` limits
what that may do. `docs/reference/tactics.md` says what each does.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Literal, Union

Value = Union[bool, int, str, "list[str]", "list[str | list[str]]", "Mapping[str, int | str]"]


@dataclasses.dataclass(frozen=True)
class Tactic:
    """One step of a schedule, as the keys and values of its table in a tactics file."""

    entries: Mapping[str, Value]


def tile(axis: str, dimensions: Mapping[str, int | Literal["first"]]) -> Tactic:
    """Cuts a dimension of the arguments and results that patterns name: `tile("data", {"batch.**": 0})`."""
    return Tactic({"axis": axis, "tile": dict(dimensions)})


def replicate(axis: str, names: Iterable[str]) -> Tactic:
    """Keeps an axis off the arguments and results that patterns name."""
    return Tactic({"axis": axis, "replicate": list(names)})


def keep_whole(axis: str, scopes: Iterable[str]) -> Tactic:
    """Keeps an axis off the operations in scopes that patterns name."""
    return Tactic({"axis": axis, "keep_whole": list(scopes)})


def data(axis: str) -> Tactic:
    """Cuts the batch."""
    return _preset(axis, "data")


def expert(axis: str) -> Tactic:
    """Spreads the experts of a mixture."""
    return _preset(axis, "expert")


def megatron(axis: str) -> Tactic:
    """Cuts attention by heads and multilayer perceptrons by their inner width."""
    return _preset(axis, "megatron")


def sequence(axis: str) -> Tactic:
    """Cuts the sequence between the products that `megatron` cuts."""
    return _preset(axis, "sequence")


def vocab(axis: str) -> Tactic:
    """Cuts embedding and head by the vocabulary."""
    return _preset(axis, "vocab")


def zero1(axis: str) -> Tactic:
    """Stores the optimizer's state in parts."""
    return _preset(axis, "zero1")


def zero2(axis: str) -> Tactic:
    """Stores the optimizer's state in parts, and gradients too."""
    return _preset(axis, "zero2")


def zero3(axis: str) -> Tactic:
    """Stores state, gradients and parameters in parts."""
    return _preset(axis, "zero3")


def stages(
    cut: int | Iterable[str | Iterable[str]],
    schedule: Literal["1f1b", "gpipe", "interleaved", "zero-bubble"] = "1f1b",
    chunks: int = 1,
) -> Tactic:
    """Runs the model in so many stages, each on a mesh of its own; or in stages of the scopes that patterns name."""
    scopes = cut if isinstance(cut, int) else [entry if isinstance(entry, str) else list(entry) for entry in cut]
    return Tactic({"stages": scopes, "schedule": schedule, **({"chunks": chunks} if chunks != 1 else {})})


def auto(
    axes: Iterable[str] | None = None,
    memory: str | None = None,
    only: Iterable[Literal["microbatches", "remat", "split", "state", "tensor"]] | None = None,
) -> Tactic:
    """Leaves the rest to planning: with some of the axes only, within some memory, by some means only."""
    limits = {
        "axes": None if axes is None else list(axes),
        "memory": memory,
        "only": None if only is None else list(only),
    }
    return Tactic({"auto": True, **{key: value for key, value in limits.items() if value is not None}})


def to_toml(tactics: Iterable[Tactic]) -> str:
    """The text of a tactics file."""
    tables = (
        "".join(f"{key} = {_inline(value)}\n" for key, value in tactic.entries.items()) for tactic in tactics
    )
    return "".join(f"[[tactic]]\n{table}\n" for table in tables)


def _preset(axis: str, preset: str) -> Tactic:
    return Tactic({"axis": axis, "preset": preset})


def _inline(value: Value) -> str:
    # TOML writes numbers, strings and lists as JSON does.
    if not isinstance(value, Mapping):
        return json.dumps(value)
    return "{ " + ", ".join(f"{json.dumps(key)} = {_inline(entry)}" for key, entry in value.items()) + " }"
