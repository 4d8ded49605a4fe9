"""Putting arrays where they belong: on some of the devices, on several stages at once, in one of several processes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshwright import _core

# The axis of a mesh that several stages are joined along.
STAGES = "stages of the plan"


def place(value: Any, sharding: NamedSharding) -> Any:
    """A value of which every process has all, put where it belongs; an array that lies on other devices is moved."""
    if sharding.is_fully_addressable and getattr(value, "is_fully_addressable", True):
        return jax.device_put(value, sharding)
    if isinstance(value, jax.Array):
        if sharding.is_equivalent_to(value.sharding, value.ndim):
            return value
        if value.sharding.device_set == sharding.device_set:
            return jax.device_put(value, sharding)
        if not value.is_fully_addressable:
            raise _core.Error(
                f"an array lies on devices of other processes, as {value.sharding}, and cannot be moved to {sharding}\n\n"
                "hint: save it and restore it into `step.shardings`, or make it with `step.init`"
            )
    if isinstance(value, jax.Array) and is_key(value):
        data = jax.random.key_data(value)
        placed = place(data, sharding)
        return jax.random.wrap_key_data(placed, impl=jax.random.key_impl(value))
    whole = np.asarray(value)
    whole = whole.astype(jax.dtypes.canonicalize_dtype(whole.dtype), copy=False)
    return from_parts(whole.shape, whole.dtype, sharding, lambda index: whole[index])


def from_parts(shape: tuple[int, ...], dtype: Any, sharding: NamedSharding, part: Any) -> jax.Array:
    """An array of the parts that this process has to give, which may be none."""
    indices = sharding.addressable_devices_indices_map(shape)
    parts = [jax.device_put(part(index), device) for device, index in indices.items()]
    if not parts and hasattr(jax.config, "jax_enable_empty_arrays"):
        # Before 0.7, JAX has to be told that a process may have no part of an array.
        jax.config.update("jax_enable_empty_arrays", True)
    return jax.make_array_from_single_device_arrays(shape, sharding, parts, dtype=dtype)


def is_key(leaf: Any) -> bool:
    return jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def key_numbers(leaf: Any) -> Any:
    """The numbers that a random key is made of, or the shape of them; everything else as it is."""
    if not isinstance(leaf, (jax.Array, jax.ShapeDtypeStruct)) or not is_key(leaf):
        return leaf
    if isinstance(leaf, jax.Array):
        return jax.random.key_data(leaf)
    numbers = jax.eval_shape(jax.random.key_data, leaf)
    return jax.ShapeDtypeStruct(numbers.shape, numbers.dtype, sharding=leaf.sharding)


def keys_of(numbers: jax.Array, dtype: Any) -> jax.Array:
    """Random keys of a type, from their numbers."""
    return jax.random.wrap_key_data(numbers, impl=dtype._impl.name)


def joined_mesh(meshes: Sequence[Mesh]) -> Mesh:
    """The mesh of several stages, with an axis more; that of one stage as it is. Where stages have different numbers of
    devices, these lie along that axis alone, and arrays are whole on each."""
    if len(meshes) == 1:
        return meshes[0]
    if len({mesh.devices.shape for mesh in meshes}) > 1:
        return Mesh(np.concatenate([mesh.devices.ravel() for mesh in meshes]), (STAGES,))
    return Mesh(np.stack([mesh.devices for mesh in meshes]), (STAGES, *meshes[0].axis_names))


def split_mesh(mesh: Mesh) -> list[Mesh]:
    """The meshes of the stages that one was joined of."""
    if STAGES not in mesh.axis_names:
        return [mesh]
    return [Mesh(devices, mesh.axis_names[1:]) for devices in mesh.devices]


def part_on(array: jax.Array, sharding: NamedSharding) -> jax.Array:
    """The copy on one stage of an array that lies on several; nothing is moved."""
    devices = sharding.addressable_devices
    parts = [shard.data for shard in array.addressable_shards if shard.device in devices]
    return jax.make_array_from_single_device_arrays(array.shape, sharding, parts, dtype=array.dtype)


def join(shape: tuple[int, ...], dtype: Any, copies: Iterable[jax.Array | None], sharding: NamedSharding) -> jax.Array:
    """An array of its copies on several stages, as far as they are in this process; nothing is moved."""
    parts = [shard.data for copy in copies if copy is not None for shard in copy.addressable_shards]
    return jax.make_array_from_single_device_arrays(shape, sharding, parts, dtype=dtype)


def is_here(mesh: Mesh) -> bool:
    """Whether this process has devices of a mesh."""
    own = jax.process_index()
    return any(device.process_index == own for device in mesh.devices.flat)


def spec_of(dims: Sequence[Sequence[str]]) -> PartitionSpec:
    return PartitionSpec(*[tuple(axes) or None for axes in dims])
