"""What goes from one stage to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshwright.jax.place import STAGES, is_here, joined_mesh

# Takes arrays on the stage that sends and gives them on the stage that receives. Who has no devices of a stage has
# nothing there.
Transfer = Callable[[Sequence[Any]], Sequence[Any]]


def make_transfer(source: Mesh, target: Mesh, types: Sequence[jax.ShapeDtypeStruct]) -> Transfer:
    """How arrays of these types and shardings, those on the stage that sends, get to another stage."""
    shardings = [NamedSharding(target, kind.sharding.spec) for kind in types]
    processes = {device.process_index for mesh in (source, target) for device in mesh.devices.flat}
    if len(processes) == 1:
        return lambda arrays: jax.device_put(list(arrays), shardings)
    return _between_processes(source, target, types, shardings)


def _between_processes(
    source: Mesh, target: Mesh, types: Sequence[jax.ShapeDtypeStruct], shardings: Sequence[NamedSharding]
) -> Transfer:
    """Devices of several processes only meet in a program that all of them run: one in which every device of a stage
    gives what it has to the device in its place on the other. What goes in there on the receiving stage is zeros."""
    mesh = joined_mesh([source, target])
    specs = [_joined_spec(kind) for kind in types]
    shapes = [(2 * kind.shape[0], *kind.shape[1:]) if kind.shape else () for kind in types]

    def shift(*parts: Any) -> tuple[Any, ...]:
        return tuple(jax.lax.ppermute(part, STAGES, [(0, 1)]) for part in parts)

    joined = [NamedSharding(mesh, spec) for spec in specs]
    shifted = jax.shard_map(shift, mesh=mesh, in_specs=tuple(specs), out_specs=tuple(specs), check_vma=False)
    abstract = [
        jax.ShapeDtypeStruct(shape, kind.dtype, sharding=sharding) for shape, kind, sharding in zip(shapes, types, joined)
    ]
    compiled = jax.jit(shifted).lower(*abstract).compile()
    zeros = [_zeros(kind, sharding) for kind, sharding in zip(types, shardings)]
    sends = is_here(source)

    def transfer(arrays: Sequence[Any]) -> Sequence[Any]:
        given = [
            _parts(shape, sharding, (array, zero) if sends else (zero,))
            for shape, sharding, array, zero in zip(shapes, joined, arrays, zeros)
        ]
        return [_taken(array, kind, sharding) for array, kind, sharding in zip(compiled(*given), types, shardings)]

    return transfer


def _joined_spec(kind: jax.ShapeDtypeStruct) -> PartitionSpec:
    """The parts of both stages one behind the other. Numbers have no dimension for that, and need none: what each device
    has of them is its own."""
    if not kind.shape:
        return PartitionSpec()
    first, *rest = (*kind.sharding.spec, *[None] * (len(kind.shape) - len(kind.sharding.spec)))
    axes = () if first is None else (first,) if isinstance(first, str) else tuple(first)
    return PartitionSpec((STAGES, *axes), *rest)


def _zeros(kind: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
    part = np.zeros(sharding.shard_shape(kind.shape), kind.dtype)
    parts = [jax.device_put(part, device) for device in sharding.addressable_devices]
    return jax.make_array_from_single_device_arrays(kind.shape, sharding, parts, dtype=kind.dtype)


def _parts(shape: tuple[int, ...], sharding: NamedSharding, arrays: Sequence[jax.Array]) -> jax.Array:
    parts = [shard.data for array in arrays for shard in array.addressable_shards]
    return jax.make_array_from_single_device_arrays(shape, sharding, parts, dtype=arrays[0].dtype)


def _taken(array: jax.Array, kind: jax.ShapeDtypeStruct, sharding: NamedSharding) -> jax.Array:
    devices = sharding.addressable_devices
    parts = [shard.data for shard in array.addressable_shards if shard.device in devices]
    return jax.make_array_from_single_device_arrays(kind.shape, sharding, parts, dtype=kind.dtype)
