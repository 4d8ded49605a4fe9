"""What parameters and buffers are at the start, part by part."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor

from meshwright import _core
from meshwright.torch.place import part_of, to_dtensor
from meshwright.torch.step import WholeStep


def initial_tensors(model: torch.nn.Module, step: WholeStep) -> dict[str, DTensor]:
    """Of every parameter and buffer the part of this process, by its name in the program.

    What the model has is taken from the first process, a tensor at a time. Modules that lie on the device `meta` are
    made one by one, by how they initialise themselves, and only the parts are kept.
    """
    roots = {id(tensor): f"params.{path}" for path, tensor in model.named_parameters()}
    roots |= {id(tensor): f"buffers.{path}" for path, tensor in model.named_buffers()}
    made: dict[str, DTensor] = {}
    # Also those of which this process has no part: all processes come to each tensor together.
    known: set[str] = set()

    def keep(name: str, whole: torch.Tensor) -> None:
        if name in step.arguments:
            cut = step.arguments[name].cut
            part = part_of(whole, step.mesh, cut).to(step.device).clone(memory_format=torch.contiguous_format)
            made[name] = to_dtensor(part, step.mesh, cut, whole.shape)

    generator = _generator_of_first(model, step)
    for module in model.modules():
        own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        missing = {id(tensor) for _, tensor in own if tensor.device.type == "meta" and roots[id(tensor)] not in known}
        filled = _initialized(model, module) if missing else {}
        for key, tensor in own:
            name = roots[id(tensor)]
            if name in known:
                continue
            known.add(name)
            keep(name, filled[key] if id(tensor) in missing else _from_first(tensor.detach(), step))
    if generator is not None:
        torch.set_rng_state(generator)
    return made


def _generator_of_first(model: torch.nn.Module, step: WholeStep) -> torch.Tensor | None:
    """Has all processes draw what the first one draws, where a model is yet to be initialised: they may have seeds of their
    own, and what several hold has to be the same. Gives what those others go on with afterwards."""
    if not any(tensor.device.type == "meta" for tensor in [*model.parameters(), *model.buffers()]):
        return None
    own = torch.get_rng_state()
    torch.set_rng_state(step.control.from_first(torch.get_rng_state))
    return None if step.control.rank == 0 else own


def _from_first(tensor: torch.Tensor, step: WholeStep) -> torch.Tensor:
    """A tensor as the first process has it."""
    if step.control.size == 1:
        return tensor
    whole = tensor.to(step.device).clone(memory_format=torch.contiguous_format)
    dist.broadcast(whole, src=0)
    return whole


def _initialized(model: torch.nn.Module, module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """What a module on `meta` is once it has memory: a copy of it is filled as the module, or the model, does that."""
    copied = _shallow(module)
    reset = getattr(copied, "reset_parameters", None) or getattr(copied, "_reset_parameters", None)
    of_model = getattr(model, "_init_weights", None)
    if of_model is not None:
        of_model(copied)
    elif reset is not None:
        reset()
    else:
        names = [name for name, _ in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]]
        raise _core.Error(
            f"`{type(module).__name__}` lies on the device `meta` and does not say how `{names[0]}` begins\n\n"
            "hint: give it a method `reset_parameters`, or make it on a device"
        )
    return {**dict(copied.named_parameters(recurse=False)), **dict(copied.named_buffers(recurse=False))}


def _shallow(module: torch.nn.Module) -> Any:
    """The module itself, with tensors that have memory and are its own."""
    made = module.__new__(type(module))
    made.__dict__ = dict(module.__dict__)
    for kind in ("_parameters", "_buffers"):
        own = {name: None if tensor is None else _empty(tensor) for name, tensor in module.__dict__[kind].items()}
        made.__dict__[kind] = own
    return made


def _empty(tensor: torch.Tensor) -> torch.Tensor:
    whole = torch.zeros(tensor.shape, dtype=tensor.dtype)
    return torch.nn.Parameter(whole, requires_grad=tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else whole
