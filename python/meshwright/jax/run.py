"""Running a plan: from its local program to a jitted function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax import export
from jax.interpreters import mlir
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from meshwright import _core
from meshwright.jax.capture import Captured

# What keeps XLA from undoing what a plan says, by platform.
COMPILER_OPTIONS: dict[str, dict[str, str]] = {
    "cpu": {
        "xla_disable_hlo_passes": ",".join(
            [
                # It removes the barriers that keep recomputation, and gathers that are made again, from being merged
                # with what was computed before.
                "cse_barrier_expander",
                # It joins all-reduces, which the simulation of a CPU does not.
                "cpu-all-reduce-combiner",
            ]
        ),
    },
}


@dataclasses.dataclass(frozen=True)
class Running:
    """A plan on devices: where leaves lie, and what runs them."""

    arguments: tuple[NamedSharding, ...]
    results: tuple[NamedSharding, ...]
    # Of leaves, and giving leaves; the arguments that the step donates are donated.
    call: Callable[..., Any]


def make_running(
    captured: Captured, plan: _core.Plan, devices: Sequence[jax.Device], compiler_options: Mapping[str, Any]
) -> Running:
    mesh = _mesh(plan, devices)
    arguments = _shardings(mesh, captured.arguments, plan.arguments)
    results = _shardings(mesh, captured.results, plan.results)
    exported = _exported(captured, plan, mesh.size)
    call = jax.jit(
        exported.call,
        in_shardings=arguments,
        out_shardings=results,
        donate_argnums=captured.donated,
        keep_unused=True,
        compiler_options={**COMPILER_OPTIONS.get(captured.platform, {}), **compiler_options},
    )
    return Running(arguments, results, call)


def _mesh(plan: _core.Plan, devices: Sequence[jax.Device]) -> Mesh:
    names, sizes = [name for name, _ in plan.mesh], [size for _, size in plan.mesh]
    count = int(np.prod(sizes, dtype=int))
    if count > len(devices):
        raise _core.Error(
            f"the plan is for {count} devices, and there are {len(devices)}\n\n"
            "hint: plan for a cluster of as many devices as there are"
        )
    return Mesh(np.array(devices[:count]).reshape(sizes), names)


def _shardings(
    mesh: Mesh, leaves: Sequence[Any], stored: Sequence[Sequence[Sequence[str]]]
) -> tuple[NamedSharding, ...]:
    def sharding(leaf: Any, dims: Sequence[Sequence[str]]) -> NamedSharding:
        # A random key has a dimension in a program that it does not have in JAX; its parts are made on the devices.
        cut = [tuple(axes) or None for axes in dims[: leaf.ndim]]
        return NamedSharding(mesh, PartitionSpec(*cut))

    return tuple(map(sharding, leaves, stored))


def _exported(captured: Captured, plan: _core.Plan, devices: int) -> export.Exported:
    """The plan's module as JAX calls modules: an export of as many arguments and results, with another body."""

    def stand_in(*_: Any) -> tuple[Any, ...]:
        return tuple(jax.numpy.zeros(()) for _ in captured.results)

    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in captured.arguments]
    exported = export.export(jax.jit(stand_in, keep_unused=True), platforms=(captured.platform,))(*shapes)
    serialized = _serialize(plan.stablehlo)
    return dataclasses.replace(
        exported, mlir_module_serialized=serialized, nr_devices=devices, out_avals=captured.results
    )


def _serialize(text: str) -> bytes:
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        # The same process reads it again, so that the newest version will do. Shardy's operations stay as they are.
        return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True)
