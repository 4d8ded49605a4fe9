"""A model whose passes run the local program of a plan."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from meshwright import _core
from meshwright.torch.capture import Captured, _flattened
from meshwright.torch.place import cut_of, local, part_of, to_dtensor
from meshwright.torch.record import as_bytes
from meshwright.torch.step import WholeStep


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A part of a batch as it was captured: a tensor by shape and type, else the value itself."""

    path: str
    shape: tuple[int, ...] | None
    dtype: torch.dtype | None
    value: Any

    @staticmethod
    def of(path: str, leaf: Any) -> Leaf:
        if torch.is_tensor(leaf):
            return Leaf(path, tuple(leaf.shape), leaf.dtype, None)
        return Leaf(path, None, None, leaf)

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.value!r}"
        return f"{str(self.dtype).removeprefix('torch.')}{list(self.shape)}"


# What copies of a model have in common: what runs, and how often it did.
_SHARED = {"_step", "_leaves", "_captured", "_kept", "_anchor", "plan", "_seed", "_steps", "_was_training", "_specs", "_names", "_is_seen", "_cast"}


class Held(torch.nn.Module):
    """A module inside of the model of a plan."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise _core.Error("modules inside of a planned model hold parameters alone\n\nhint: call the model itself, with a whole batch")


class ParallelModel(torch.nn.Module):
    """The model of a plan. It is called with a whole batch, the same in every process, and gives the loss of all of it.

    Its parameters have the names of the model that it was made of, and are DTensors that lie as the plan says. Modules
    inside hold parameters and buffers, and cannot be called.
    """

    def __init__(
        self, step: WholeStep, leaves: Sequence[Leaf], captured: Captured, plan: Any, seed: int, training: bool
    ) -> None:
        super().__init__()
        # Neither modules nor parameters, which assignment would look for. Autograd comes to the backward pass through
        # something that needs a gradient.
        anchor = torch.zeros((), requires_grad=True)
        self.__dict__.update(_step=step, _leaves=leaves, _captured=captured, _kept=None, _anchor=anchor, plan=plan)
        # What is drawn follows from the seed of the first process and from how many steps there were.
        self.__dict__.update(_seed=seed, _steps=itertools.count(), _was_training=training, _specs={}, _is_seen=False, _cast=autocast_of(step.device))
        # All that the model it was made of has, in whichever process.
        self.__dict__.update(_names=frozenset())
        self.train(training)

    def __deepcopy__(self, memo: dict[int, Any]) -> ParallelModel:
        """Another model of the same plan, with parameters of its own, as averages of a model are."""
        made = memo[id(self)] = self.__class__.__new__(self.__class__)
        shared = {key: value for key, value in self.__dict__.items() if key in _SHARED}
        own = {key: copy.deepcopy(value, memo) for key, value in self.__dict__.items() if key not in _SHARED}
        made.__dict__.update(shared | own | {"_kept": None, "_anchor": torch.zeros((), requires_grad=True)})
        return made

    @property
    def source(self) -> str:
        """What this process runs, as text."""
        return self._step.text

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        batch = kwargs if kwargs else args[0] if len(args) == 1 else args
        try:
            leaves, error = self._checked(batch), None
        except _core.Error as caught:
            leaves, error = {}, caught
        self._step.control.agree(error)
        if not self._is_seen:
            self._check_alike(leaves)
        if not torch.is_grad_enabled():
            return self._forward(leaves)[0]
        return _Passes.apply(self._anchor, self, leaves)

    def _checked(self, batch: Any) -> dict[str, torch.Tensor]:
        """The tensors of a batch by name. All has to be as it was when the step was captured."""
        if self.training != self._was_training and (self.training or self._is_mode_seen()):
            modes = ("evaluation", "training")
            raise _core.Error(
                f"the model was planned for {modes[self._was_training]}, and is set to {modes[self.training]} now\n\n"
                f"hint: call `parallelize` with a model in the mode of {modes[self.training]}, and load its state"
            )
        cast = autocast_of(self._step.device)
        if cast != self._cast:
            told, other = (f"on in `{dtype}`" if dtype else "off" for dtype in (cast, self._cast))
            raise _core.Error(
                f"`torch.autocast` is {told} now, and was {other} when the step was planned\n\n"
                "hint: call `parallelize` within `torch.autocast` if the model is to be called there, and else neither"
            )
        paths, leaves, _ = _flattened(batch)
        found = {path: Leaf.of(path, leaf) for path, leaf in zip(paths, leaves)}
        for expected in self._leaves:
            given = found.pop(expected.path, None)
            if given != expected:
                had = "nothing" if given is None else f"`{given}`"
                raise _core.Error(
                    f"`{expected.path}` was `{expected}` when the step was planned, and is {had} now\n\n"
                    "hint: give batches of one shape and type, or call `parallelize` again for others"
                )
        if found:
            raise _core.Error(f"the batch has `{next(iter(found))}`, which it had not when the step was planned")
        return {path: leaf for path, leaf in zip(paths, leaves) if torch.is_tensor(leaf)}

    def _check_alike(self, leaves: Mapping[str, torch.Tensor]) -> None:
        """Refuses a first batch that is not the same everywhere: who gives every process samples of its own, as is done
        elsewhere, would train on a mixture of these."""
        digest = hashlib.sha256()
        for leaf in leaves.values():
            if not isinstance(leaf, DTensor):
                digest.update(as_bytes(leaf))
        hint = "give every process the whole batch, of which it takes its part; a sampler that deals samples out is not needed"
        self._step.control.alike(digest.hexdigest(), "batches", hint)
        self.__dict__["_is_seen"] = True

    def _is_mode_seen(self) -> bool:
        """Whether evaluation would be other than training: it draws nothing, and moves no statistics of batches."""
        return self._step.draws or any(name.startswith("buffers.") for name in self._step.result_names)

    def parts(self) -> dict[str, torch.Tensor]:
        """What this process holds of parameters and buffers, by name."""
        # A part is let go of by autograd at once, which a DTensor would do by many calls.
        held = {f"params.{path}": local(parameter).detach() for path, parameter in self.named_parameters()}
        return held | {f"buffers.{path}": local(buffer) for path, buffer in self.named_buffers()}

    def _inputs(self, leaves: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The parts of this process of a batch, and of what the model holds besides."""
        step, made, captured = self._step, {}, self._captured
        for name, tensor in [*leaves.items(), *captured.constants.items()]:
            if name in step.arguments:
                is_part, dim = isinstance(tensor, DTensor), captured.dims.get(name, 0)
                given = local(tensor) if is_part else tensor
                given = given.movedim(dim, 0) if dim else given
                made[name] = (given if is_part else step.part(name, given)).detach().to(step.device)
        return made

    def _forward(self, leaves: Mapping[str, torch.Tensor]) -> tuple[torch.Tensor, Any]:
        # Collectives cannot give tensors of inference mode.
        with torch.inference_mode(False), torch.no_grad(), self._step.control.running(), as_planned(self._step.device):
            held = self.parts()
            self._step.begin(f"{self._seed}/{next(self._steps)}")
            results, left = self._step.forward(held | self._inputs(leaves))
            for name, value in results.items():
                if name.startswith("buffers.") and value is not held[name]:
                    held[name].copy_(value)
        return results["loss"], left

    def _backward(self, left: Any, factor: torch.Tensor) -> None:
        """Gives parameters their gradients, or adds to those that they have."""
        step = self._step
        with torch.no_grad(), step.control.running(), as_planned(step.device):
            gradients, self.__dict__["_kept"] = step.backward(left)
            parameters = dict(self.named_parameters())
            is_scaled = factor.device.type != "cpu" or float(factor) != 1.0
            seen: set[int] = set()
            for name in list(gradients):
                gradient = _own(gradients.pop(name), factor if is_scaled else None, seen)
                parameter = parameters[name.removeprefix("grads.")]
                if parameter.grad is None:
                    parameter.grad = self._as_dtensor(name, gradient, parameter.shape)
                else:
                    local(parameter.grad).add_(gradient)

    def _as_dtensor(self, name: str, part: torch.Tensor, shape: torch.Size) -> DTensor:
        """The result that parts make up. How it lies is the same in every step, and takes long to tell."""
        if name not in self._specs:
            self._specs[name] = to_dtensor(part, self._step.mesh, self._step.results[name].cut, shape)._spec
        return DTensor(part, self._specs[name], requires_grad=False)

    def _apply(self, fn: Any, recurse: bool = True) -> ParallelModel:
        """What `to`, `half` and their like do: nothing, as long as they ask for what is there."""
        for name, tensor in self.parts().items():
            probe = torch.empty(0, dtype=tensor.dtype, device=tensor.device)
            made = fn(probe)
            if (made.dtype, made.device) != (probe.dtype, probe.device):
                raise _core.Error(
                    f"`{name.partition('.')[2]}` is `{probe.dtype}` on `{probe.device}` in the plan, and would be `{made.dtype}` on `{made.device}`\n\n"
                    "hint: turn the model into what it is to be before `parallelize`"
                )
        return self

    @torch.no_grad()
    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
        """Scales gradients so that the norm of all of them is at most so much, and gives what it was.

        It is `torch.nn.utils.clip_grad_norm_` for plans in stages too, where a process has the gradients of its stage alone.
        """
        step, gradients = self._step, {path: parameter.grad for path, parameter in self.named_parameters()}
        gradients = {path: gradient for path, gradient in gradients.items() if gradient is not None}
        with step.control.running():
            own = [gradient for path, gradient in gradients.items() if step.finishes(f"grads.{path}")]
            norm = torch.nn.utils.get_total_norm(own, norm_type)
            norm = step.combined_norm(norm.full_tensor() if isinstance(norm, DTensor) else norm, norm_type)
        for gradient in gradients.values():
            local(gradient).mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))
        return norm

    @torch.no_grad()
    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Takes parameters and buffers over, whole or as they lie under another plan. Of whole ones only the part of
        this process is read, so that a file that is mapped into memory is never read as a whole."""
        own = self.state_dict(keep_vars=True)
        # Files have what is tied under one of its names.
        there = {id(tensor) for name, tensor in own.items() if name in state_dict}
        missing = [name for name in own if name not in state_dict and id(own[name]) not in there]
        # In stages, a process is given what others have, too.
        unexpected = [name for name in state_dict if name not in own and name not in self._names]
        wrong = [name for name in own if name in state_dict and state_dict[name].shape != own[name].shape]
        if wrong:
            name = wrong[0]
            shapes = f"{tuple(state_dict[name].shape)}, and the model's {tuple(own[name].shape)}"
            raise _core.Error(f"the shape of `{name}` is {shapes}")
        if strict and (missing or unexpected):
            told = [f"lacks `{missing[0]}`"] if missing else []
            told += [f"has `{unexpected[0]}`, which the model has not"] if unexpected else []
            raise _core.Error(f"the state {' and '.join(told)}\n\nhint: `strict=False` leaves out what is not in both")
        for name, tensor in own.items():
            if name in state_dict:
                take_over(tensor, state_dict[name], self._step)
        return torch.nn.modules.module._IncompatibleKeys(missing, unexpected)


def autocast_of(device: torch.device) -> torch.dtype | None:
    """The type that PyTorch is told to compute in here, if any."""
    return torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None


def as_planned(device: torch.device) -> Any:
    """Sources have all casts in them."""
    return torch.autocast(device.type, enabled=False)


def take_over(tensor: Any, given: Any, step: WholeStep) -> None:
    """Overwrites the part of a tensor here with that of another, which may lie otherwise or be whole."""
    if isinstance(given, DTensor):
        local(tensor).copy_(local(given.redistribute(tensor.device_mesh, tensor.placements)))
    else:
        local(tensor).copy_(part_of(torch.as_tensor(given), step.mesh, cut_of(tensor)))


def _own(gradient: torch.Tensor, factor: torch.Tensor | None, seen: set[int]) -> torch.Tensor:
    """A gradient in memory of its own, since users change gradients in place."""
    storage = gradient.untyped_storage().data_ptr()
    is_shared = storage in seen or any(size > 1 and not step for size, step in zip(gradient.shape, gradient.stride()))
    seen.add(storage)
    if factor is not None:
        return gradient * factor.to(gradient.dtype)
    return gradient.clone() if is_shared else gradient


class _Passes(torch.autograd.Function):
    """The forward and backward pass of a model to autograd."""

    @staticmethod
    def forward(ctx: Any, anchor: torch.Tensor, model: ParallelModel, leaves: Mapping[str, torch.Tensor]) -> torch.Tensor:
        loss, ctx.left = model._forward(leaves)
        ctx.model = model
        return loss.clone()

    @staticmethod
    def backward(ctx: Any, factor: torch.Tensor) -> Any:
        if ctx.left is None:
            raise _core.Error("the backward pass of this loss has run already\n\nhint: run the model again")
        left, ctx.left = ctx.left, None
        ctx.model._backward(left, factor)
        return None, None, None


def hold(model: ParallelModel, like: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> None:
    """Gives a model the parameters and buffers of another by their names, as they are given."""
    model.__dict__["_names"] = frozenset(like.state_dict())
    made: dict[int, torch.nn.Parameter] = {}
    for path, original in like.named_parameters(remove_duplicate=False):
        if f"params.{path}" not in tensors and id(original) not in made:
            continue
        if id(original) not in made:
            made[id(original)] = torch.nn.Parameter(tensors[f"params.{path}"], requires_grad=original.requires_grad)
        _holder(model, path).register_parameter(path.rpartition(".")[2], made[id(original)])
    for path, _ in like.named_buffers(remove_duplicate=False):
        owner, _, name = path.rpartition(".")
        is_kept = name not in like.get_submodule(owner)._non_persistent_buffers_set
        if f"buffers.{path}" in tensors:
            _holder(model, path).register_buffer(name, tensors[f"buffers.{path}"], persistent=is_kept)


def _holder(model: torch.nn.Module, path: str) -> torch.nn.Module:
    for name in path.split(".")[:-1]:
        if name not in model._modules:
            model.add_module(name, Held())
        model = model._modules[name]
    return model
