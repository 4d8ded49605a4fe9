"""A plan in the words of other tools, as far as these have words for it."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from typing import Any

from meshwright._core import Plan


def to_pspecs(plan: Plan) -> dict[str, tuple[Any, ...]]:
    """Of every argument that is kept from step to step, the axes that cut each dimension: `None`, a name, or several
    names. `jax.sharding.PartitionSpec(*spec)` takes one as it is."""
    return {row["name"]: _spec(row["stored"]) for row in _arguments(plan) if row["role"] != "input"}


@dataclasses.dataclass(frozen=True)
class Fsdp2:
    """How `torch.distributed.fsdp.fully_shard` would be called, and what it has no words for."""

    # Sizes of the axes that parameters are sharded over.
    mesh: dict[str, int]
    # Modules by path, in the order of calls (inside first), and whether parameters go after the forward pass.
    modules: dict[str, bool]
    notes: tuple[str, ...]

    def __str__(self) -> str:
        """Python code that does it."""
        names = ", ".join(f'"{name}"' for name in self.mesh)
        sizes = ", ".join(str(size) for size in self.mesh.values())
        lines = [
            "from torch.distributed.device_mesh import init_device_mesh",
            "from torch.distributed.fsdp import fully_shard",
            "",
            f'mesh = init_device_mesh("cuda", ({sizes},), mesh_dim_names=({names},))',
        ]
        for path, reshards in self.modules.items():
            module = f'model.get_submodule("{path}")' if path else "model"
            lines.append(f"fully_shard({module}, mesh=mesh, reshard_after_forward={reshards})")
        return "\n".join([*lines, *(f"# {note}" for note in self.notes)])


def to_fsdp2(plan: Plan) -> Fsdp2:
    """Which modules `fully_shard` takes, and whether each reshards after the forward pass."""
    parameters = [row for row in _arguments(plan) if row["role"] == "parameter"]
    data = _batch_axes(plan)
    sizes = dict(plan.mesh)
    gathers = dict(zip((row["name"] for row in _arguments(plan)), plan.gathers))
    sharded: dict[str, list[bool]] = {}
    whole, other = [], []
    for row in parameters:
        axes = {axis for dim in _spec(row["stored"]) for axis in _names(dim)}
        path = row["name"].removeprefix("params.").rpartition(".")[0]
        if axes and axes <= data:
            sharded.setdefault(_layer(path), []).append(gathers.get(row["name"], 0) > 1)
        elif axes:
            other.append(row["name"].removeprefix("params."))
        else:
            whole.append(row["name"].removeprefix("params."))
    notes = []
    if whole:
        notes.append(f"{len(whole)} parameters are whole on every device, such as {whole[0]}: the plan does not shard them")
    if other:
        notes.append(f"{len(other)} parameters are cut for tensor parallelism, such as {other[0]}: `parallelize_module` does that")
    if plan.microbatches > 1:
        notes.append(f"a step runs in {plan.microbatches} microbatches")
    modules = {path: any(again) for path, again in sorted(sharded.items(), key=lambda row: (-row[0].count("."), row[0]))}
    return Fsdp2({axis: sizes[axis] for axis in sizes if axis in data}, modules, tuple(notes))


class MegatronArguments(list[str]):
    """Arguments of Megatron-LM as its command takes them, and where the plan does something that they do not say."""

    def __init__(self, arguments: list[str], notes: list[str]) -> None:
        super().__init__(arguments)
        self.notes = tuple(notes)

    def __str__(self) -> str:
        """A line for an option, then the notes."""
        options: list[str] = []
        for argument in self:
            if argument.startswith("--"):
                options.append(argument)
            else:
                options[-1] += f" {argument}"
        return "\n".join([*options, *(f"# {note}" for note in self.notes)])


def to_megatron_args(plan: Plan) -> MegatronArguments:
    """The arguments of Megatron-LM that come nearest, with notes on what differs."""
    rows, data = _arguments(plan), _batch_axes(plan)
    kept = [(row, {axis for dim in _spec(row["stored"]) for axis in _names(dim)}) for row in rows if row["role"] != "input"]
    parameters = [(row, axes) for row, axes in kept if row["role"] == "parameter"]
    state = [(row, axes) for row, axes in kept if row["role"] == "state"]
    tensor_axes = {axis for _, axes in parameters for axis in axes - data}
    sequence = _batch_axes(plan, dim=1) - data
    found = ["--tensor-model-parallel-size", str(_ways(plan, tensor_axes)), "--pipeline-model-parallel-size", "1"]
    if sequence:
        found += ["--context-parallel-size", str(_ways(plan, sequence))]
    shards_parameters = any(axes & data for _, axes in parameters)
    if shards_parameters:
        found += ["--use-torch-fsdp2"]
    elif any(axes & data for _, axes in state):
        found += ["--use-distributed-optimizer"]
    batch = _batch_size(rows)
    if batch is not None:
        each = batch // _ways(plan, data) // plan.microbatches
        found += ["--global-batch-size", str(batch), "--micro-batch-size", str(max(1, each))]
    recomputed = json.loads(plan.json).get("recomputed")
    if recomputed:
        found += ["--recompute-activations"]
    notes = _unevenly_cut(parameters, tensor_axes) + _unevenly_sharded(parameters, state, data, shards_parameters)
    if recomputed:
        notes.append("the plan says op by op what is made again; `--recompute-activations` does so for attention alone")
    return MegatronArguments(found, notes + _other_notes(plan, rows))


def _ways(plan: Plan, axes: set[str]) -> int:
    return math.prod(size for axis, size in plan.mesh if axis in axes)


def _unevenly_cut(parameters: list[Any], tensor_axes: set[str]) -> list[str]:
    """Megatron cuts all matrices of layers, and each by all devices that are there for that."""
    partly = [row["name"] for row, axes in parameters if axes & tensor_axes and not tensor_axes <= axes]
    is_matrix = lambda row: row["type"].count("x") > 1  # noqa: E731
    whole = [row["name"] for row, axes in parameters if tensor_axes and is_matrix(row) and not axes & tensor_axes]
    notes = []
    if partly:
        notes.append(f"{_such_as(partly)} cut over some axes of {', '.join(sorted(tensor_axes))}; Megatron cuts over all of them")
    if whole:
        notes.append(f"{_such_as(whole)} not cut for tensor parallelism; Megatron cuts all matrices of layers")
    return notes


def _unevenly_sharded(parameters: list[Any], state: list[Any], data: set[str], shards_parameters: bool) -> list[str]:
    """Megatron shards all parameters, or all state of the optimizer, or none."""
    of, option = (parameters, "--use-torch-fsdp2") if shards_parameters else (state, "--use-distributed-optimizer")
    # What has but few numbers is whole or not, whoever shards it.
    large = [(row, axes) for row, axes in of if row["type"].count("x") > 1]
    whole = [row["name"] for row, axes in large if not axes & data]
    partly = [row["name"] for row, axes in large if axes & data and not data <= axes]
    notes = []
    if whole and len(whole) < len(large):
        notes.append(f"{_such_as(whole)} not sharded over {', '.join(sorted(data))}; `{option}` shards all")
    if partly:
        notes.append(f"{_such_as(partly)} sharded over some axes of {', '.join(sorted(data))}; `{option}` takes all of them")
    return notes


def _other_notes(plan: Plan, rows: list[dict[str, Any]]) -> list[str]:
    notes = []
    held = [row["name"] for row in rows if row.get("on_host")]
    if held:
        notes.append(f"{_such_as(held)} kept on the host; see `--optimizer-cpu-offload`")
    if json.loads(plan.json).get("splits"):
        notes.append("some ops run in slices, for which Megatron has no option")
    return notes


def _such_as(names: list[str]) -> str:
    return f"{names[0]} is" if len(names) == 1 else f"{len(names)} tensors such as {names[0]} are"


def _arguments(plan: Plan) -> list[dict[str, Any]]:
    return json.loads(plan.json)["arguments"]


def _spec(stored: str) -> tuple[Any, ...]:
    """`[{node,device}, {}]` as `(("node", "device"), None)`."""
    inside = stored[1 : stored.index("]")]
    dims = [tuple(name for name in part.split(",") if name) for part in re.findall(r"{([^}]*)}", inside)]
    return tuple(None if not names else names[0] if len(names) == 1 else names for names in dims)


def _names(dim: Any) -> tuple[str, ...]:
    return () if dim is None else (dim,) if isinstance(dim, str) else dim


def _batch_axes(plan: Plan, dim: int = 0) -> set[str]:
    """The axes that cut a dimension, the first, of what comes anew with every step."""
    inputs = [row for row in _arguments(plan) if row["role"] == "input" and row["name"].startswith("batch")]
    return {axis for row in inputs for names in _spec(row["stored"])[dim : dim + 1] for axis in _names(names)}


def _batch_size(rows: list[dict[str, Any]]) -> int | None:
    for row in rows:
        if row["role"] == "input" and row["name"].startswith("batch"):
            found = re.match(r"tensor<(\d+)x", row["type"])
            if found:
                return int(found.group(1))
    return None


def _layer(path: str) -> str:
    """The layer of a list that a module is in, or the module itself."""
    found = re.match(r"^(.*?\.\d+)(\.|$)", path)
    return found.group(1) if found else path
