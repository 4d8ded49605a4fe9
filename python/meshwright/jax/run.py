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
    call = jax.jit(
        module_call(plan.stablehlo, captured.arguments, captured.results, captured.platform, mesh.size),
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


def module_call(
    text: str, arguments: Sequence[Any], results: Sequence[Any], platform: str, devices: int
) -> Callable[..., Any]:
    """A module as a function that can be jitted: an export of as many arguments and results, with another body."""

    def stand_in(*_: Any) -> tuple[Any, ...]:
        return tuple(jax.numpy.zeros(()) for _ in results)

    shapes = [jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in arguments]
    exported = export.export(jax.jit(stand_in, keep_unused=True), platforms=(platform,))(*shapes)
    avals = tuple(jax.core.ShapedArray(leaf.shape, leaf.dtype, weak_type=leaf.weak_type) for leaf in results)
    replaced = dataclasses.replace(
        exported, mlir_module_serialized=_serialize(text), nr_devices=devices, out_avals=avals
    )
    return replaced.call


def _serialize(text: str) -> bytes:
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        # The same process reads it again, so that the newest version will do. Shardy's operations stay as they are.
        return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True)
