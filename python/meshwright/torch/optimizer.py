"""An optimizer whose step is the update of a plan."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.distributed.tensor import DTensor

from meshwright import _core
from meshwright.torch.capture import bare_copy, rate_dtype
from meshwright.torch.module import ParallelModel, as_planned, take_over
from meshwright.torch.place import local, part_of, part_shape, placements, to_dtensor

# What a group may say that the update does not follow from.
_FREE = {"params", "lr", "initial_lr", "foreach", "fused", "capturable", "differentiable", "max_lr", "min_lr", "param_names"}


class ParallelOptimizer(torch.optim.Optimizer):
    """The optimizer of a plan: groups of parameters, state and learning rates are those of the one it was made of, which
    need not be here any more. State lies as the plan says."""

    def __init__(self, model: ParallelModel, like: torch.optim.Optimizer, paths: Mapping[torch.Tensor, str]) -> None:
        parameters = dict(model.named_parameters())
        groups = []
        for group in like.param_groups:
            own = {key: copy.copy(value) for key, value in group.items() if key != "params"}
            # In stages, processes hold some of the parameters.
            held = [parameters[path] for path in map(paths.get, group["params"]) if path in parameters]
            groups.append({**own, "params": held})
        super().__init__(groups, dict(like.defaults))
        self.model, self.kind = model, type(like).__name__
        self.fixed = [_fixed(group) for group in self.param_groups]
        results = model._step.results.items()
        self.wanted = {name: placements(model._step.mesh, stored.cut) for name, stored in results if name.startswith("grads.")}
        self.rates = [torch.empty((), dtype=rate_dtype(group["params"]), device=model._step.device) for group in groups]
        self._fill(like, {path: parameter for parameter, path in paths.items()}, parameters)

    def _fill(
        self, like: torch.optim.Optimizer, originals: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]
    ) -> None:
        """State as the optimizer has it, or would have it before its first step."""
        step, initial = self.model._step, _initial(like)
        for name, stored in step.arguments.items():
            if not name.startswith("opt."):
                continue
            _, key, path = name.split(".", 2)
            known, parameter = like.state.get(originals[path], {}).get(key), parameters[path]
            is_unmade = torch.is_tensor(known) and known.device.type == "meta"
            if torch.is_tensor(known) and not is_unmade:
                part = part_of(known, step.mesh, stored.cut).to(step.device).clone()
            else:
                number = initial(originals[path], key) if known is None or is_unmade else known
                part = torch.full(part_shape(stored.shape, step.mesh, stored.cut), number, dtype=stored.dtype, device=step.device)
            self.state[parameter][key] = to_dtensor(part, step.mesh, stored.cut, stored.shape)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        model, control = self.model, self.model._step.control
        # What lies on a GPU is not waited for.
        told = (group["lr"] for group in self.param_groups)
        rates = [0.0 if torch.is_tensor(rate) and rate.device.type != "cpu" else float(rate) for rate in told]
        gradients = control.together(self._gradients, rates)
        if gradients is None:
            return loss
        given = model.parts()
        for path, parameter in model.named_parameters():
            given |= {f"opt.{key}.{path}": local(value) for key, value in self.state.get(parameter, {}).items()}
        for number, (group, rate) in enumerate(zip(self.param_groups, self.rates)):
            given[f"lr.{number}"] = rate.fill_(group["lr"])
        with control.running(), as_planned(model._step.device):
            model._step.update(given, gradients, model._kept)
        return loss

    def _gradients(self) -> dict[str, torch.Tensor] | None:
        """The parts of this process, where they were left or as users changed them."""
        self._check()
        parameters = dict(self.model.named_parameters())
        found, missing = {}, []
        for name, wanted in self.wanted.items():
            gradient = parameters[name.removeprefix("grads.")].grad
            if gradient is None:
                missing.append(name.removeprefix("grads."))
                continue
            if isinstance(gradient, DTensor) and gradient.placements != wanted:
                gradient = gradient.redistribute(placements=wanted)
            found[name] = local(gradient)
        if missing and found:
            raise _core.Error(
                f"`{missing[0]}` has no gradient, and {len(found)} other parameters have\n\n"
                "hint: an update is of all parameters at once; to leave some as they are, freeze them before `parallelize`"
            )
        return None if missing else found

    def _check(self) -> None:
        """Only learning rates may change from step to step."""
        for name in self.wanted:
            path = name.removeprefix("grads.")
            if not self.model.get_parameter(path).requires_grad:
                raise _core.Error(
                    f"`{path}` was trained when the step was planned, and needs no gradient now\n\n"
                    "hint: freeze parameters before `parallelize`, and call it again for other ones"
                )
        for number, (group, fixed) in enumerate(zip(self.param_groups, self.fixed)):
            for key, value in fixed.items():
                if group.get(key) != value:
                    raise _core.Error(
                        f"`{key}` of group {number} was {value!r} when the step was planned, and is {group.get(key)!r} now\n\n"
                        f"hint: learning rates may change from step to step; for other numbers, call `parallelize` again{_momenta(key)}"
                    )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        if hasattr(self, "fixed"):
            raise _core.Error("groups of parameters are fixed once a step is planned\n\nhint: call `parallelize` again")
        super().add_param_group(param_group)

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over state that may lie otherwise, such as that of another plan, into where it lies here."""
        numbers = [number for group in state_dict["param_groups"] for number in group["params"]]
        own = [parameter for group in self.param_groups for parameter in group["params"]]
        if len(numbers) != len(own):
            raise _core.Error(f"the state is of {len(numbers)} parameters, and there are {len(own)}")
        for number, parameter in zip(numbers, own):
            for key, value in state_dict["state"].get(number, {}).items():
                mine = self.state[parameter].get(key)
                if not torch.is_tensor(mine):
                    self.state[parameter][key] = copy.copy(value)
                else:
                    take_over(mine, torch.as_tensor(value), self.model._step)
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            group.update({key: value for key, value in saved.items() if key != "params"})


def _fixed(group: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in group.items() if key not in _FREE}


def _momenta(key: str) -> str:
    """What else to do where schedulers of learning rates change more than these."""
    return ", and give schedulers such as `OneCycleLR` the option `cycle_momentum=False`" if key in ("betas", "momentum") else ""


def _initial(like: torch.optim.Optimizer) -> Callable[[torch.Tensor, str], float]:
    """What numbers of state are before the first step: PyTorch's optimizers make state of a single element here, and that of
    others is 0. Where a first step is other than that, this is told."""
    found: dict[int, dict[str, float]] = {}
    groups = {parameter: number for number, group in enumerate(like.param_groups) for parameter in group["params"]}

    def initial(parameter: torch.Tensor, key: str) -> float:
        number = groups[parameter]
        if number not in found:
            found[number] = _first_state(like, number)
            _check_first_step(like, number, found[number])
        return found[number].get(key, 0.0)

    return initial


def _first_state(like: torch.optim.Optimizer, number: int) -> dict[str, float]:
    made, stand_in = _stand_in(like, number, (1,))
    begin = getattr(made, "_init_group", None)
    if begin is None:
        return {}
    lists = [[] for _ in list(inspect.signature(begin).parameters)[1:]]
    begin(made.param_groups[0], *lists)
    return {key: float(value.reshape(-1)[0]) for key, value in made.state[stand_in].items() if torch.is_tensor(value) and value.numel()}


def _check_first_step(like: torch.optim.Optimizer, number: int, numbers: Mapping[str, float]) -> None:
    """Takes a first step without state, and one from what state is taken to be before it. A plan has but one update."""
    for shape in {tuple(min(size, 3) for size in parameter.shape) for parameter in like.param_groups[number]["params"]}:
        (made, first), (again, second) = (_stand_in(like, number, shape) for _ in range(2))
        made.step()
        again.state[second].update({key: _begun(value, numbers.get(key, 0.0)) for key, value in made.state[first].items()})
        again.step()
        pairs = [(first, second), *((value, again.state[second][key]) for key, value in made.state[first].items())]
        if not all(torch.equal(*map(torch.as_tensor, pair)) for pair in pairs if torch.is_tensor(pair[0])):
            raise _core.Error(
                f"the first step of `{type(like).__name__}` is not like the others\n\n"
                "hint: take a step before `parallelize`, which takes the state over; with `SGD`, set `dampening` to 0"
            )


def _begun(value: Any, number: float) -> Any:
    """What a value of state was before it changed first."""
    if torch.is_tensor(value):
        return torch.full_like(value, number)
    return type(value)(number) if type(value) in (int, float) else value


def _stand_in(like: torch.optim.Optimizer, number: int, shape: tuple[int, ...]) -> tuple[torch.optim.Optimizer, torch.Tensor]:
    """The optimizer of one group with a small parameter instead of its own, before the first step."""
    parameter = torch.linspace(-1.0, 2.0, math.prod(shape)).reshape(shape).requires_grad_()
    parameter.grad = torch.linspace(0.5, -1.5, math.prod(shape)).reshape(shape)
    made = bare_copy(like)
    group = {**like.param_groups[number], "params": [parameter]}
    made.param_groups = [group | {key: False for key in ("foreach", "fused", "capturable") if key in group}]
    return made, parameter
