"""What users give, looked at before anything is done with it: errors say what is wrong with which of it."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Union

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch.distributed.tensor import DTensor
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils import _pytree as pytree

from meshwright import _core

Path_ = Union[str, "os.PathLike[str]"]
# The dimension that samples lie along: of all inputs, by name, or to be found out.
BatchDim = Union[int, Mapping[str, int], None]
# The same for those inputs of which it is not the first, by path.
Dims = dict[str, int]
NO_TRAINED = "no parameter has a part in the loss\n\nhint: parameters need `requires_grad`, and the loss must be computed from them"


def check_model(model: Any) -> None:
    if not isinstance(model, torch.nn.Module):
        raise _core.Error(
            f"the model is `{type(model).__name__}`, not a `torch.nn.Module`\n\nhint: put the function into the `forward` of one"
        )
    for path, tensor in [*model.named_parameters(), *model.named_buffers()]:
        if isinstance(tensor, UninitializedTensorMixin):
            raise _core.Error(f"`{path}` has no shape yet\n\nhint: call the model once, which gives lazy modules their shapes")
        if isinstance(tensor, DTensor):
            raise _core.Error(
                f"`{path}` is a DTensor already\n\nhint: give the model for one device, before `fully_shard` or `parallelize_module`"
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


def check_group(kind: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """What a group says stands in the recorded update, so a step may not change it. How it is to run may be told otherwise."""
    for key in after.keys() - {"params", "foreach", "fused", "capturable"}:
        if not torch.is_tensor(after[key]) and before.get(key) != after[key]:
            raise _core.Error(
                f"`{kind}` changes `{key}` of its groups in every step, which a plan cannot\n\n"
                "hint: count steps in the state of parameters, as `optimizer.state[parameter]`"
            )


def check_no_scheduler(optimizer: torch.optim.Optimizer) -> None:
    """A scheduler changes the learning rates of the optimizer that it was made for, which is not the one that trains."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        raise _core.Error(
            "a scheduler was made for the optimizer before `parallelize`, and would not change the learning rates of its result\n\n"
            "hint: make schedulers for the optimizer that `parallelize` gives"
        )


class _Opened:
    """A mapping of a kind that PyTorch does not look into, such as what tokenizers give. It is a tree here, and made of its
    leaves it is what it was."""

    def __init__(self, mapping: Mapping[Any, Any]) -> None:
        self.mapping = mapping

    def children(self) -> tuple[list[Any], Mapping[Any, Any]]:
        return [opened(value) for value in self.mapping.values()], self.mapping

    def named(self) -> tuple[list[tuple[Any, Any]], Mapping[Any, Any]]:
        values, mapping = self.children()
        return [(pytree.MappingKey(key), value) for key, value in zip(mapping, values)], mapping

    @staticmethod
    def made(values: Iterable[Any], mapping: Mapping[Any, Any]) -> Any:
        given = dict(zip(mapping, values))
        if not isinstance(mapping, MutableMapping):
            return given
        made = copy.copy(mapping)
        made.update(given)
        return made


pytree.register_pytree_node(_Opened, _Opened.children, _Opened.made, flatten_with_keys_fn=_Opened.named)


def opened(tree: Any) -> Any:
    """A batch whose mappings are trees, whatever their types."""
    return pytree.tree_map(lambda leaf: _Opened(leaf) if isinstance(leaf, Mapping) else leaf, tree)


def check_leaf(path: str, leaf: Any) -> None:
    held = [name for name, value in getattr(leaf, "__dict__", {}).items() if torch.is_tensor(value)]
    if held and not torch.is_tensor(leaf):
        kind = type(leaf).__name__
        raise _core.Error(
            f"`{path}` is a `{kind}`, whose tensor `{held[0]}` would be no input but part of the program\n\n"
            f"hint: give a mapping or a list, or tell PyTorch what it is made of by `torch.utils._pytree`, as `register_dataclass`"
        )
    if torch.is_tensor(leaf) and leaf.layout is not torch.strided:
        raise _core.Error(
            f"`{path}` has the layout `{leaf.layout}`\n\nhint: programs have dense tensors; give `{path}.to_dense()`"
        )


def asked_dims(asked: BatchDim, paths: Sequence[str], leaves: Sequence[Any]) -> Dims:
    """The dimensions that a user says samples lie along. What has fewer dimensions has samples along its first."""
    ranks = {path: leaf.ndim for path, leaf in zip(paths, leaves) if torch.is_tensor(leaf)}
    if asked is None:
        return {}
    if not isinstance(asked, Mapping):
        found = {path: asked for path, rank in ranks.items() if rank > asked}
    else:
        found = {f"batch.{name}": dim for name, dim in asked.items()}
    for path, dim in found.items():
        if path not in ranks:
            raise _core.Error(f"batch_dim: the batch has no tensor `{path.removeprefix('batch.')}`\n\nhint: it has {_listed(ranks)}")
        if not 0 <= dim < ranks[path]:
            raise _core.Error(f"batch_dim: `{path}` has no dimension {dim}\n\nhint: it has {ranks[path]}, counted from 0 on")
    return {path: dim for path, dim in found.items() if dim}


def _listed(ranks: Mapping[str, int]) -> str:
    return ", ".join(f"`{path.removeprefix('batch.')}`" for path in ranks)


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
