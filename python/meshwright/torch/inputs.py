"""What users give, looked at before anything is done with it: errors say what is wrong with which of it."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Union

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

from meshwright import _core

Path_ = Union[str, "os.PathLike[str]"]
NO_TRAINED = "no parameter has a part in the loss\n\nhint: parameters need `requires_grad`, and the loss must be computed from them"


def check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise _core.Error(
            f"the model is `{type(model).__name__}`, not a `torch.nn.Module`\n\nhint: put the function into the `forward` of one"
        )


def check_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise _core.Error(
            f"the optimizer is `{type(optimizer).__name__}`, not a `torch.optim.Optimizer`\n\n"
            "hint: make one from the parameters of the model, as `torch.optim.AdamW(model.parameters())`"
        )
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise _core.Error(
            f"`{type(optimizer).__name__}` evaluates the model within its step, as often as it wants\n\n"
            "hint: take an optimizer whose `step` needs no closure"
        )


def check_leaf(path: str, leaf: Any) -> None:
    if torch.is_tensor(leaf) and leaf.layout is not torch.strided:
        raise _core.Error(
            f"`{path}` has the layout `{leaf.layout}`\n\nhint: programs have dense tensors; give `{path}.to_dense()`"
        )


@contextlib.contextmanager
def user_code(what: str, hint: str) -> Iterator[None]:
    """Says of a failure in a user's code which code that is. What the code asks of numbers is told apart from that."""
    try:
        yield
    except (_core.Error, DataDependentOutputException, DynamicOutputShapeException):
        raise
    except Exception as error:
        raise _core.Error(f"{what} fails with `{type(error).__name__}: {error}`\n\nhint: {hint}") from error


def read_cluster(cluster: Any) -> str:
    """A name of a cluster as it is, and the text of a file."""
    if isinstance(cluster, os.PathLike) or isinstance(cluster, str) and cluster.endswith(".toml"):
        return read_text(cluster)
    if not isinstance(cluster, str):
        raise _core.Error(
            f"the cluster is `{type(cluster).__name__}`, not a name\n\nhint: give a name such as `8x8xh100`, or a TOML file"
        )
    return cluster


def read_text(path: Path_) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise _core.Error(f"cannot read `{os.fspath(path)}`: {reason}") from error


def memory_text(memory: Any) -> str | None:
    """A limit in the words of the command."""
    if memory is None or isinstance(memory, str):
        return memory
    if isinstance(memory, bool) or not isinstance(memory, int):
        raise _core.Error(f"memory: cannot read `{memory!r}`\n\nhint: give a whole number of bytes, or a text such as `70GiB`")
    return f"{memory}B"
