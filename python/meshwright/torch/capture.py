"""Capturing a step: from a module, an optimizer and a batch to a program. Nothing is allocated."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import inspect
import unittest.mock
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.nn.utils.stateless import _reparametrize_module
from torch.utils import _pytree as pytree

from meshwright import _core
from meshwright.torch.attention import AttentionAsOp
from meshwright.torch.experts import static_experts
from meshwright.torch.functional import apart, functional
from meshwright.torch.inputs import (
    NO_TRAINED,
    BatchDim,
    Dims,
    asked_dims,
    check_group,
    check_leaf,
    check_model,
    check_optimizer,
    opened,
    user_code,
)
from meshwright.torch.record import Recorder
from meshwright.torch.scalars import numbers_in_tensors


@dataclasses.dataclass(frozen=True)
class Captured:
    """A step at some shapes."""

    program: _core.Program
    # The text that the program was read from.
    text: str
    # Large constants, which are arguments of the program, by name.
    constants: dict[str, torch.Tensor]
    # How often each op was met that the compiler does not know.
    unknown: dict[str, int]
    # What PyTorch's counter counts of the gradients of grouped convolutions besides what is computed.
    ungrouped_flops: int = 0
    # Inputs whose samples do not lie along the first dimension: the program has the dimension of these moved there.
    dims: Dims = dataclasses.field(default_factory=dict)


def capture(
    model: torch.nn.Module,
    batch: Any,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    backward: bool = True,
    own_kernels: bool = False,
    runs: bool = False,
    batch_dim: BatchDim = 0,
) -> Captured:
    """Runs a training step on tensors without memory and records what PyTorch would compute.

    Without an optimizer, gradients are results of the program. A model whose output is no loss is recorded without a
    backward pass where `backward` is false. Attention is one op, unless `own_kernels` asks for what PyTorch itself has
    kernels for on a CPU. For a step that `runs`, gradients are results besides the update, and the learning rates are
    arguments. `batch_dim` is as `parallelize` takes it.
    """
    check_model(model)
    if optimizer is not None:
        check_optimizer(optimizer)
    name = type(model).__name__
    dims = asked_dims(batch_dim, *_flattened(batch)[:2])

    def recorded() -> tuple[Recorder, str, _core.Program]:
        try:
            recorder = _recorded(model, batch, loss_fn, optimizer, backward, own_kernels, runs, dims)
        except (DataDependentOutputException, DynamicOutputShapeException) as error:
            raise _core.Error(_data_dependent(name, error)) from error
        text = recorder.text(name)
        return recorder, text, _core.Program(text, name)

    recorder, text, program = recorded()
    if batch_dim is None:
        rows = zip(program.arguments, program.batch_dims())
        dims = {path: dim for (path, _), dim in rows if dim and path.split(".")[0] == "batch"}
        recorder, text, program = recorded() if dims else (recorder, text, program)
    told = {op: unknown.told(op) for op, unknown in recorder.unknown.items()}
    # The compiler knows the op alone, the recorder also where it stands.
    others = [message for message in program.warnings if not any(message.startswith(f"`{op}` is not known") for op in told)]
    for message in [*told.values(), *others]:
        warnings.warn(f"`{name}`: {message}", stacklevel=3)
    unknown = {op: unknown.count for op, unknown in recorder.unknown.items()}
    return Captured(program, text, recorder.constants, unknown, recorder.ungrouped_flops, dims)


def _recorded(
    model: torch.nn.Module,
    batch: Any,
    loss_fn: Callable[..., Any] | None,
    optimizer: torch.optim.Optimizer | None,
    backward: bool,
    own_kernels: bool,
    runs: bool,
    dims: Dims,
) -> Recorder:
    """Models may have a form for when they are compiled, which needs no numbers. What PyTorch itself runs is the other one,
    as long as that needs none either."""

    def record(compiling: bool) -> Recorder:
        recorder = Recorder()
        fake = FakeTensorMode(allow_non_fake_inputs=True)
        with static_experts(model, own_kernels), functional(), fake, recorder:
            Step(model, batch, loss_fn, optimizer, recorder, fake, own_kernels, runs, compiling, dims).record(backward)
        return recorder

    failures = (_core.Error, DataDependentOutputException, DynamicOutputShapeException)
    if own_kernels:
        with contextlib.suppress(*failures[1:]):
            return record(compiling=False)
    try:
        return record(compiling=True)
    except failures:
        # What nobody compiles may fail there alone.
        with contextlib.suppress(*failures):
            return record(compiling=False)
        raise


class Step:
    """A step in the middle of being recorded."""

    def __init__(
        self,
        model: torch.nn.Module,
        batch: Any,
        loss_fn: Callable[..., Any] | None,
        optimizer: torch.optim.Optimizer | None,
        recorder: Recorder,
        fake: FakeTensorMode,
        own_kernels: bool = False,
        runs: bool = False,
        compiling: bool = True,
        dims: Dims | None = None,
    ) -> None:
        self.runs, self.compiling = runs, compiling
        self.model, self.loss_fn, self.optimizer, self.recorder, self.fake = model, loss_fn, optimizer, recorder, fake
        self.own_kernels = own_kernels
        self.originals = dict(model.named_parameters())
        self.parameters = {path: self._argument(f"params.{path}", tensor) for path, tensor in self.originals.items()}
        for path, tensor in self.originals.items():
            self.parameters[path].requires_grad_(tensor.requires_grad)
        self.buffers = {path: self._argument(f"buffers.{path}", tensor) for path, tensor in model.named_buffers()}
        paths, leaves, self.tree = _flattened(batch)
        given = list(zip(paths, leaves))
        for path, leaf in given:
            check_leaf(path, leaf)
        dims = dims or {}
        self.leaves = [self._input(path, leaf, dims.get(path, 0)) if torch.is_tensor(leaf) else leaf for path, leaf in given]

    def _input(self, path: str, leaf: torch.Tensor, dim: int) -> torch.Tensor:
        """An input as the model takes it, of an argument whose first dimension is that of its samples."""
        if not dim:
            return self._argument(path, leaf)
        with apart():
            moved = leaf.movedim(dim, 0)
        return self._argument(path, moved).movedim(0, dim)

    def _argument(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        made = self._unfilled(tensor)
        self.recorder.argument(name, made)
        return torch._to_functional_tensor(made)

    def _unfilled(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor alike that has no memory."""
        device = "cpu" if tensor.device.type == "meta" else tensor.device
        with apart(), self.fake:
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=device)

    def record(self, backward: bool) -> None:
        tensors = {**self.parameters, **self.buffers}
        # Blocks that are checkpointed run again in the backward pass, so the model has these tensors until that is over.
        # A module that the model has at several places is given them once for each, and back in the reverse order.
        replaced = _reparametrize_module(self.model, tensors, tie_weights=True, stack_weights=True)
        with replaced, self._traced():
            output = self._forward()
            if not backward:
                self._give_outputs(output)
                return
            loss = self._loss(output)
            del output
            gradients = self._gradients(loss)
        self.recorder.result("loss", _plain(loss.detach()))
        del loss
        if self.optimizer is None or self.runs:
            for path, gradient in gradients.items():
                self.recorder.result(f"grads.{path}", _plain(gradient))
        if self.optimizer is not None:
            self._update(gradients)
            for path, parameter in self.parameters.items():
                self._give_state(f"params.{path}", parameter)
        for path, buffer in self.buffers.items():
            self._give_state(f"buffers.{path}", buffer)

    def _give_state(self, name: str, tensor: torch.Tensor) -> None:
        self.recorder.result(name, _plain(tensor.detach()), alias=name)

    def _give_outputs(self, output: Any) -> None:
        for path, leaf in zip(*_flattened(output, "outputs")[:2]):
            if torch.is_tensor(leaf):
                self.recorder.result(path, _plain(leaf.detach()))

    def _forward(self) -> Any:
        batch = pytree.tree_unflatten(self.leaves, self.tree)
        args, kwargs = arguments_of(batch)
        words = [*(f"<{type(arg).__name__}>" for arg in args), *(f"{key}=<{type(arg).__name__}>" for key, arg in kwargs.items())]
        called = f"{type(self.model).__name__}({', '.join(words)})"
        with user_code(f"`{called}`", "this is how the model is called with the batch; try that by itself"):
            return self.model(*args, **kwargs)

    @contextlib.contextmanager
    def _traced(self) -> Iterator[None]:
        form = _compiling() if self.compiling else contextlib.nullcontext()
        with self.recorder.modules_of(self.model), AttentionAsOp(self.own_kernels), form:
            yield

    def _loss(self, output: Any) -> torch.Tensor:
        batch = pytree.tree_unflatten(self.leaves, self.tree)
        self.recorder.scope_prefix = "loss"
        with user_code("`loss_fn`", "it is given the model's output, and the batch where it takes two arguments"):
            loss = loss_of(output, batch, self.loss_fn)
        self.recorder.scope_prefix = ""
        if not loss.requires_grad:
            raise _core.Error(NO_TRAINED)
        return loss

    def _gradients(self, loss: torch.Tensor) -> dict[str, torch.Tensor]:
        trained = {path: tensor for path, tensor in self.parameters.items() if tensor.requires_grad}
        found = torch.autograd.grad(loss, list(trained.values()), allow_unused=True)
        return {path: gradient for path, gradient in zip(trained, found) if gradient is not None}

    def _update(self, gradients: dict[str, torch.Tensor]) -> None:
        assert self.optimizer is not None
        paths = {tensor: path for path, tensor in self.originals.items()}
        foreign = [p for group in self.optimizer.param_groups for p in group["params"] if p not in paths]
        if foreign:
            raise _core.Error(
                f"the optimizer has {len(foreign)} parameters that the model does not have\n\n"
                "hint: make the optimizer from `model.parameters()` of this very model"
            )
        shadow = self._shadow(paths, gradients)
        for number, group in enumerate(shadow.param_groups if self.runs else []):
            group["lr"] = self._argument(f"lr.{number}", torch.empty((), dtype=rate_dtype(group["params"])))
        kept: list[tuple[str, str]] = []
        with torch.no_grad(), _compiling(), numbers_in_tensors():
            with apart(), self.fake:
                first = self._first_step(paths, gradients)
            for path, parameter in self.parameters.items():
                for key, value in first.get(path, {}).items():
                    made = value
                    if torch.is_tensor(value):
                        made = self._argument(f"opt.{key}.{path}", value)
                        kept.append((path, key))
                    shadow.state[parameter][key] = made
            self.recorder.scope_prefix = "optimizer"
            shadow.step()
            self.recorder.scope_prefix = ""
            for path, gradient in self.parameters.items():
                gradient.grad = None
        for path, key in kept:
            # Optimizers write to what they keep, or keep another tensor from then on.
            self._give_state(f"opt.{key}.{path}", shadow.state[self.parameters[path]][key])

    def _first_step(self, paths: Any, gradients: dict[str, torch.Tensor]) -> dict[str, dict[str, Any]]:
        """The state that the optimizer has after a step: a step on tensors that are not recorded makes it. A number that
        another step would change, as one that counts them, is a tensor here."""
        assert self.optimizer is not None
        stand_ins = {}
        for path, original in self.originals.items():
            stand_in = torch.empty(original.shape, dtype=original.dtype)
            stand_in.requires_grad_(original.requires_grad)
            if path in gradients:
                stand_in.grad = torch.empty(original.shape, dtype=original.dtype)
            stand_ins[path] = stand_in
        optimizer = _copy_of(self.optimizer, {tensor: stand_ins[path] for tensor, path in paths.items()})
        optimizer.step()
        found = {path: dict(optimizer.state[stand_in]) for path, stand_in in stand_ins.items() if stand_in in optimizer.state}
        optimizer.step()
        for path, state in found.items():
            later = optimizer.state[stand_ins[path]]
            counted = [key for key, value in state.items() if not torch.is_tensor(value) and later[key] != value]
            state.update({key: torch.empty((), dtype=torch.float32) for key in counted})
        for own, stepped in zip(self.optimizer.param_groups, optimizer.param_groups):
            check_group(type(optimizer).__name__, own, stepped)
        return found

    def _shadow(self, paths: Any, gradients: dict[str, torch.Tensor]) -> torch.optim.Optimizer:
        assert self.optimizer is not None
        with torch.no_grad():
            leaves = {}
            for path, parameter in self.parameters.items():
                leaves[path] = parameter
                parameter.grad = None
                if path in gradients:
                    parameter.grad = gradients[path]
        return _copy_of(self.optimizer, {tensor: leaves[path] for tensor, path in paths.items()})


def rate_dtype(parameters: Any) -> torch.dtype:
    """The type of a learning rate that is an argument: as wide as what it changes."""
    return torch.float64 if any(parameter.dtype == torch.float64 for parameter in parameters) else torch.float32


def arguments_of(batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """How a model is called with a batch: names as keywords, lists as positions."""
    if isinstance(batch, Mapping):
        return (), dict(batch)
    if isinstance(batch, (tuple, list)):
        return tuple(batch), {}
    return (batch,), {}


def loss_of(output: Any, batch: Any, loss_fn: Callable[..., Any] | None) -> torch.Tensor:
    """The loss of an output: what `loss_fn` makes of it, else what the model itself calls its loss."""
    if loss_fn is not None:
        loss = loss_fn(output, batch) if _takes_two(loss_fn) else loss_fn(output)
    elif torch.is_tensor(output):
        loss = output
    elif isinstance(output, Mapping):
        loss = output.get("loss")
    else:
        loss = getattr(output, "loss", None)
        if loss is None and isinstance(output, (tuple, list)) and output and torch.is_tensor(output[0]):
            loss = output[0]
    if not torch.is_tensor(loss) or loss.numel() != 1 or not loss.is_floating_point():
        found = f"a tensor of shape {tuple(loss.shape)}" if torch.is_tensor(loss) else f"`{type(loss).__name__}`"
        raise _core.Error(
            f"the loss is {found}, not a single number\n\n"
            "hint: give a `loss_fn` that makes one of the model's output, and of the batch if it takes two arguments"
        )
    return loss.reshape(()) if loss.ndim else loss


def _takes_two(function: Callable[..., Any]) -> bool:
    if isinstance(function, torch.nn.Module):
        function = function.forward
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= 2 or any(p.kind == p.VAR_POSITIONAL for p in parameters)


def _flattened(tree: Any, root: str = "batch") -> tuple[list[str], list[Any], Any]:
    keyed, spec = pytree.tree_flatten_with_path(opened(tree))
    paths = [root + "".join(f".{_key(key)}" for key in path) for path, _ in keyed]
    return paths, [leaf for _, leaf in keyed], spec


def _key(key: Any) -> str:
    for name in ("key", "name", "idx"):
        if hasattr(key, name):
            return str(getattr(key, name))
    return str(key)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """What functionalization has made of a tensor by now."""
    if not torch._is_functional_tensor(tensor):
        return tensor
    torch._sync(tensor)
    return torch._from_functional_tensor(tensor)


def _copy_of(optimizer: torch.optim.Optimizer, replaced: Any) -> torch.optim.Optimizer:
    """The optimizer with other parameters and no state, told to work parameter by parameter on tensors alone."""
    made = bare_copy(optimizer)
    for group in optimizer.param_groups:
        own = {**group, "params": [replaced[parameter] for parameter in group["params"]]}
        own.update({key: False for key in ("foreach", "fused") if key in own})
        own.update({"capturable": True} if "capturable" in own else {})
        made.param_groups.append(own)
    return made


def bare_copy(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer without parameters, state and hooks."""
    made = copy.copy(optimizer)
    made.state = type(optimizer.state)(dict) if hasattr(optimizer.state, "default_factory") else {}
    made.param_groups = []
    made._optimizer_step_pre_hooks = {}
    made._optimizer_step_post_hooks = {}
    # A scheduler puts a function in the place of the method, which steps the optimizer itself.
    made.__dict__.pop("step", None)
    return made


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """Optimizers and models keep to tensors where they are compiled, instead of asking for the numbers in them."""
    with unittest.mock.patch("torch.compiler.is_compiling", lambda: True):
        yield


def _data_dependent(name: str, error: Exception) -> str:
    return (
        f"`{name}` does something that depends on numbers which are only known when it runs: `{error}`\n\n"
        "hint: shapes and branches must follow from shapes alone; replace `.item()`, `nonzero()` and masks as indices by "
        "`torch.where` and `masked_fill`"
    )
