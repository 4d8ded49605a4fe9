"""A plan in the words of other tools, as far as these have words for it."""

from __future__ import annotations

import dataclasses
import json
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


def to_megatron_args(plan: Plan) -> list[str]:
    """The arguments of Megatron-LM that come nearest. What differs is said in the last ones, as a comment."""
    sizes = dict(plan.mesh)
    data = _batch_axes(plan)
    rows = _arguments(plan)
    cut: set[str] = set()
    sharded_state = sharded_parameters = False
    for row in rows:
        axes = {axis for dim in _spec(row["stored"]) for axis in _names(dim)}
        if row["role"] == "parameter":
            cut |= axes - data
            sharded_parameters |= bool(axes & data)
        elif row["role"] == "state":
            sharded_state |= bool(axes & data)
    tensor = 1
    for axis in cut:
        tensor *= sizes[axis]
    found = ["--tensor-model-parallel-size", str(tensor), "--pipeline-model-parallel-size", "1"]
    if sharded_parameters:
        found += ["--use-torch-fsdp2"]
    elif sharded_state:
        found += ["--use-distributed-optimizer"]
    batch = _batch_size(rows)
    if batch is not None:
        ways = 1
        for axis in data:
            ways *= sizes[axis]
        found += ["--global-batch-size", str(batch), "--micro-batch-size", str(max(1, batch // ways // plan.microbatches))]
    if json.loads(plan.json).get("recomputed"):
        found += ["--recompute-activations"]
    return found


def _arguments(plan: Plan) -> list[dict[str, Any]]:
    return json.loads(plan.json)["arguments"]


def _spec(stored: str) -> tuple[Any, ...]:
    """`[{node,device}, {}]` as `(("node", "device"), None)`."""
    inside = stored[1 : stored.index("]")]
    dims = [tuple(name for name in part.split(",") if name) for part in re.findall(r"{([^}]*)}", inside)]
    return tuple(None if not names else names[0] if len(names) == 1 else names for names in dims)


def _names(dim: Any) -> tuple[str, ...]:
    return () if dim is None else (dim,) if isinstance(dim, str) else dim


def _batch_axes(plan: Plan) -> set[str]:
    """The axes that cut the first dimension of what comes anew with every step."""
    inputs = [row for row in _arguments(plan) if row["role"] == "input" and row["name"].startswith("batch")]
    return {axis for row in inputs for dim in _spec(row["stored"])[:1] for axis in _names(dim)}


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
