"""`parallelize`: a model and its optimizer on all processes, as a plan says."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Union

import torch
import torch.distributed as dist

from meshwright import _core
from meshwright.tactics import Tactic
from meshwright.torch.backends import backends, is_gloo
from meshwright.torch.capture import Captured, _flattened, capture
from meshwright.torch.initialize import initial_tensors
from meshwright.torch.inputs import BatchDim, Dims, Path_, check_model, check_no_scheduler, read_cluster, read_text
from meshwright.torch.module import Leaf, ParallelModel, hold
from meshwright.torch.optimizer import ParallelOptimizer
from meshwright.torch.place import Cut, device_mesh
from meshwright.torch.plan import make_plan, wanted_dim
from meshwright.torch.processes import Control
from meshwright.torch.record import shape_and_type
from meshwright.torch.stages import StagedStep
from meshwright.torch.step import Stored, WholeStep

AnyPlan = Union[_core.Plan, _core.Pipeline]


def parallelize(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    loss_fn: Callable[..., Any] | None = None,
    *,
    cluster: Path_ | None = None,
    memory: str | int | None = None,
    mesh: str | Mapping[str, int] | None = None,
    tactics: Path_ | Iterable[Tactic] | None = None,
    microbatches: int | None = None,
    stages: int | str | None = None,
    plan: _core.Plan | _core.Pipeline | Path_ | None = None,
    compile: bool = False,
    batch_dim: BatchDim = None,
) -> tuple[ParallelModel, ParallelOptimizer]:
    """A model and its optimizer for one device as those for all processes of `torchrun`.

    `model(batch)` then gives the loss of a whole batch, which every process is given alike; `loss.backward()` leaves
    finished gradients and `optimizer.step()` updates, each process its parts. Weights are those of the first process. A
    model on the device `meta` is initialised part by part, so that no process ever holds all of it.

    Args:
      model: a module for one device, as it is trained.
      optimizer: made from its parameters; groups, learning rates and what it has of state are taken over.
      batch: what the model is called with, of the shapes and types that all batches have: a mapping of keywords, a list
        of positions, or one tensor.
      loss_fn: makes the loss of the model's output, and of the batch where it takes two arguments; else the output is
        the loss, or has one.
      cluster: what the processes run on, as a name such as `2x8xh100` or a TOML file; found out if not given.
      memory: what a device may use, as `"14GiB"` or a number of bytes; all that it has if not given.
      mesh: axes of devices and their sizes, as `{"data": 2, "model": 4}`; searched if not given.
      tactics: what is decided already, as a list of tactics or a tactics file; the rest is planned.
      microbatches: in how many microbatches a step runs; searched if not given.
      stages: how many stages the model is cut into, each on processes of its own, or `"auto"` for as many as are
        fastest; one if not given.
      plan: a plan that was made before, or its file; then nothing is searched.
      compile: whether `torch.compile` compiles what processes run.
      batch_dim: the dimension of inputs that samples lie along, as `1`, or by name where they differ, as `{"src": 1}`;
        found out if not given.
    """
    control = Control()
    control.together(lambda: check_model(model))
    device = _device(model)
    if device.type == "cuda":
        # What asks for a GPU without a number, as barriers do, is to have this one.
        torch.cuda.set_device(device)
    described = _cluster(cluster, device)
    control.together(lambda: _check_world(described))
    control.together(lambda: check_no_scheduler(optimizer))
    control.alike(_outline(model, optimizer, batch), "steps")
    captured = _captured(control, model, optimizer, batch, loss_fn, tactics, batch_dim)
    wishes = {"memory": memory, "mesh": mesh, "tactics": tactics, "microbatches": microbatches, "stages": stages}
    found = _agreed_plan(control, captured, described, device, plan, wishes)
    step = control.together(lambda: _step(control, captured, found, device))
    step.meet()
    _connect(device)
    if compile:
        control.together(lambda: _check_compiler(device))
        step.compile()
    paths, leaves, _ = _flattened(batch)
    seed = control.from_first(torch.initial_seed)
    made = ParallelModel(step, tuple(map(Leaf.of, paths, leaves)), captured, found, seed, model.training)
    with torch.no_grad():
        hold(made, model, initial_tensors(model, step))
    names = {parameter: path for path, parameter in model.named_parameters()}
    return made, control.together(lambda: ParallelOptimizer(made, optimizer, names))


def _device(model: torch.nn.Module) -> torch.device:
    """Where this process computes."""
    kinds = {tensor.device.type for tensor in [*model.parameters(), *model.buffers()]} - {"meta"}
    if "cuda" in kinds or backends().get("cuda") == "nccl":
        place = os.environ.get("LOCAL_RANK")
        return torch.device("cuda", torch.cuda.current_device() if place is None else int(place))
    return torch.device("cpu")


def _connect(device: torch.device) -> None:
    """NCCL connects all processes of a group when it is first used, to which all have to come. Sends between some of them, which
    may be the first that a plan does, would wait for the others."""
    if not is_gloo(device.type):
        dist.all_reduce(torch.zeros(1, device=device))


def _cluster(cluster: Path_ | None, device: torch.device) -> str:
    if cluster is not None:
        return read_cluster(cluster)
    reported = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    name = _core.device_name(reported)
    if name is None:
        raise _core.Error(
            f"nothing is known of devices `{reported}`\n\n"
            "hint: say what they are with `cluster=`, a name that `meshwright clusters` lists or a TOML file"
        )
    world = dist.get_world_size()
    per_node = int(os.environ.get("LOCAL_WORLD_SIZE", world))
    return f"{world}x{name}" if per_node == world else f"{world // per_node}x{per_node}x{name}"


def _check_world(cluster: str) -> None:
    name, count = _core.cluster_devices(cluster)
    if count != dist.get_world_size():
        raise _core.Error(
            f"the cluster has {count} devices `{name}`, and there are {dist.get_world_size()} processes\n\n"
            "hint: start as many processes as there are devices, or use `meshwright.torch.plan` for a cluster that is not here"
        )


def _check_compiler(device: torch.device) -> None:
    """Compiles next to nothing. What is missing would be found out only in the first step, and in no words of ours."""
    try:
        torch.compile(lambda value: value * 2 + 1)(torch.ones(2, device=device))
    except Exception as error:  # noqa: BLE001
        raise _core.Error(
            f"`torch.compile` compiles nothing here: {str(error).strip().splitlines()[0]}\n\n"
            "hint: PyTorch needs a C++ compiler for CPUs and Triton for GPUs; without `compile=True` ops run one by one"
        ) from error


def _outline(model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Any) -> str:
    """What must be the same in all processes, as text."""
    tensors = [*model.named_parameters(), *model.named_buffers(), *zip(*_flattened(batch)[:2])]
    rows = [str((path, Leaf.of(path, tensor))) for path, tensor in tensors]
    groups = [{**group, "params": len(group["params"])} for group in optimizer.param_groups]
    return "\n".join([type(model).__name__, type(optimizer).__name__, *rows, *map(str, groups)])


def _captured(
    control: Control, model: torch.nn.Module, optimizer: torch.optim.Optimizer, batch: Any, loss_fn: Any, tactics: Any,
    batch_dim: BatchDim,
) -> Captured:  # fmt: skip
    """The first process captures, and all others read what it recorded."""
    found: list[Captured] = []

    def made() -> tuple[str, dict[str, torch.Tensor], dict[str, int], Dims]:
        dim = wanted_dim(batch_dim, tactics)
        found.append(capture(model, batch, loss_fn, optimizer, runs=True, batch_dim=dim))
        return found[0].text, found[0].constants, found[0].unknown, found[0].dims

    text, constants, unknown, dims = control.from_first(made)
    if found:
        return control.together(lambda: found[0])
    name = type(model).__name__
    return control.together(lambda: Captured(_core.Program(text, name), text, constants, unknown, dims=dims))


def _agreed_plan(
    control: Control, captured: Captured, cluster: str, device: torch.device, plan: Any, wishes: Mapping[str, Any]
) -> AnyPlan:
    """The first process plans, and all others read what it found. Stages that tactics ask for are no file: there every
    process does the same."""
    engine = "pytorch" if device.type == "cuda" else "pytorch-cpu"
    found: list[AnyPlan] = []

    def text() -> str | None:
        if plan is not None and not isinstance(plan, (_core.Plan, _core.Pipeline)):
            return read_text(plan)
        made = make_plan(captured.program, cluster, engine=engine, **wishes) if plan is None else plan
        # One that was given is held to this program, as its file would be.
        if plan is None or made.json is None:
            found.append(made)
        return made.json

    def loaded() -> AnyPlan:
        try:
            return found[0] if found else captured.program.load(told, "plan.json")
        except _core.Error as error:
            # Every step that runs is told the rate of its first group.
            is_of_other = '"params.' in told and '"lr.0"' not in told
            hint = "" if not is_of_other else "; `meshwright.torch.plan` makes plans for `parallelize` where it is told `runs=True`"
            raise _core.Error(f"{error}{hint}") from error

    told = control.from_first(text)
    if told is None and not found:
        control.together(text)
    elif told is None:
        control.together(lambda: None)
    return control.together(loaded)


def _step(control: Control, captured: Captured, plan: AnyPlan, device: torch.device) -> WholeStep | StagedStep:
    meshes = plan.meshes if isinstance(plan, _core.Pipeline) else [plan.mesh]
    count = sum(math.prod(size for _, size in mesh) for mesh in meshes)
    if count != control.size:
        raise _core.Error(
            f"the plan is for {count} devices, and there are {control.size} processes\n\n"
            "hint: plan for as many devices as there are processes"
        )
    program = captured.program
    if isinstance(plan, _core.Pipeline):
        return StagedStep(plan, control, device, program.arguments, program.results)
    mesh = device_mesh(device, plan.mesh or [("device", 1)])
    arguments, results = _stored(program.arguments, plan.arguments), _stored(program.results, plan.results)
    return WholeStep(plan.torch_source(), mesh, control, device, arguments, results)


def _stored(named: Sequence[tuple[str, str]], cuts: Sequence[Cut]) -> dict[str, Stored]:
    return {name: Stored(*shape_and_type(ty), cut) for (name, ty), cut in zip(named, cuts)}
