"""Running a plan: from its local program to a jitted function."""

from __future__ import annotations

import dataclasses
import io
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
from meshwright.jax.progress import Told

# JAX has Shardy from 0.7 on unless it is asked for it before, and needs it to run manual computations.
IS_BEFORE_SHARDY = jax.__version_info__ < (0, 7)
if IS_BEFORE_SHARDY:
    jax.config.update("jax_use_shardy_partitioner", True)

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
    is_one_process: bool
    # Of all arguments, those by name behind those by number; what the step donates is donated.
    call: Any
    # Shapes and types of these arguments.
    shapes: tuple[Any, ...]

    def compile(self, told: Told) -> Any:
        """Compiled ahead, by JAX itself. What it gives is called like the jitted function, without looking twice at
        the leaves."""
        return self.call.lower(*self.shapes).compile()


def make_running(
    tree: Any, captured: Captured, plan: _core.Plan, devices: Sequence[jax.Device], compiler_options: Mapping[str, Any]
) -> Running:
    mesh = _mesh(plan, devices)
    arguments = _shardings(mesh, captured.arguments, plan.arguments)
    results = _shardings(mesh, captured.results, plan.results)
    of_leaves = module_call(plan.stablehlo, captured.arguments, captured.results, captured.platform, mesh.devices.size)

    def whole(*given: Any) -> Any:
        return jax.tree.unflatten(captured.results_tree, of_leaves(*jax.tree.leaves(given)))

    call = jax.jit(
        whole,
        in_shardings=_by_argument(tree, arguments),
        out_shardings=jax.tree.unflatten(captured.results_tree, results),
        donate_argnums=_donated(tree, captured),
        keep_unused=True,
        compiler_options={**COMPILER_OPTIONS.get(captured.platform, {}), **compiler_options},
    )
    is_one_process = len({device.process_index for device in mesh.devices.flat}) == 1
    return Running(arguments, results, is_one_process, call, _by_argument(tree, captured.arguments))


def program_bytes(compiled: Any) -> int | None:
    """What a device has in memory while it runs a program, where XLA says it."""
    found = compiled.memory_analysis()
    if found is None:
        return None
    outer = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return int(outer + found.temp_size_in_bytes)


def _by_argument(tree: Any, leaves: Sequence[Any]) -> tuple[Any, ...]:
    """Leaves in the arguments by number, and behind them in those by name, which is the order that JAX has them in."""
    args, kwargs = jax.tree.unflatten(tree, leaves)
    return (*args, *(kwargs[name] for name in sorted(kwargs)))


def _donated(tree: Any, captured: Captured) -> list[int]:
    """Which arguments the step donates. It donates all leaves of one or none."""
    donated = set(captured.donated)
    numbers = _by_argument(tree, range(len(captured.arguments)))
    return [number for number, leaves in enumerate(numbers) if donated.intersection(jax.tree.leaves(leaves))]


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
        if IS_BEFORE_SHARDY:
            return _serialize_for_itself(module)
        # The same process reads it again, so that the newest version will do. Shardy's operations stay as they are.
        return stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version(), True)


def _serialize_for_itself(module: ir.Module) -> bytes:
    """Before 0.7, JAX reads Shardy's operations only in the form in which it writes them itself."""
    from jaxlib import _jax

    code = io.BytesIO()
    module.operation.write_bytecode(code)
    return _jax.mlir.serialize_portable_artifact(code.getvalue(), stablehlo.get_current_version())
