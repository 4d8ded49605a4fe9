"""State and batches in their places from the start: nothing is whole on any device that does not have to be."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshwright import _core
from meshwright.jax.place import from_parts, is_here, is_key, joined_mesh, key_numbers, keys_of, place, split_mesh


def lower_init(make: Callable[..., Any], args: Sequence[Any], lies: Any) -> list[tuple[list[int], Any]]:
    """What makes a state in parts: for the leaves of each set of devices, a program that computes these alone."""
    shardings, tree = jax.tree.flatten(lies)
    found = jax.tree.structure(jax.eval_shape(make, *args))
    if found != tree:
        raise _core.Error(
            f"what is made is {found}, and the step takes {tree}\n\n"
            "hint: `init` takes a function that gives the argument of the step"
        )
    groups: dict[Any, list[int]] = {}
    for number, sharding in enumerate(shardings):
        groups.setdefault(sharding.mesh, []).append(number)

    def lowered(mesh: Any, numbers: list[int]) -> Any:
        def some(*given: Any) -> list[Any]:
            leaves = jax.tree.leaves(make(*given))
            return [leaves[number] for number in numbers]

        whole = NamedSharding(mesh, PartitionSpec())
        jitted = jax.jit(some, in_shardings=whole, out_shardings=[shardings[number] for number in numbers])
        return jitted.lower(*args)

    return [(numbers, lowered(mesh, numbers)) for mesh, numbers in groups.items() if is_here(mesh)]


def init(make: Callable[..., Any], args: Sequence[Any], lies: Any) -> Any:
    """What a function makes, in parts where a step takes them."""
    shardings, tree = jax.tree.flatten(lies)
    leaves: dict[int, Any] = {}
    for numbers, lowered in lower_init(make, args, lies):
        whole = NamedSharding(shardings[numbers[0]].mesh, PartitionSpec())
        placed = jax.tree.map(lambda leaf: place(leaf, whole), tuple(args))
        leaves.update(zip(numbers, lowered.compile()(*placed)))
    shapes = jax.tree.leaves(jax.eval_shape(make, *args))
    elsewhere = [number for number in range(len(shapes)) if number not in leaves]
    for number in elsewhere:
        leaves[number] = from_parts(shapes[number].shape, shapes[number].dtype, shardings[number], None)
    return jax.tree.unflatten(tree, [leaves[number] for number in range(len(shapes))])


def save(path: Any, state: Any, meshes: Sequence[Mesh]) -> None:
    """Writes a state with orbax, every process its part, and comes back when all is written. Meshes are those of the
    stages."""
    import orbax.checkpoint
    from orbax.checkpoint import type_handlers

    numbers = ((kind, type_handlers.ScalarHandler()) for kind in (int, float, np.number))
    # Only the first copy of what there are several of is written; see `_shared`.
    arrays = (jax.Array, type_handlers.ArrayHandler(use_replica_parallel=False))
    registry = type_handlers.create_type_handler_registry(
        *numbers, (np.ndarray, type_handlers.NumpyHandler()), arrays
    )
    handler = orbax.checkpoint.PyTreeCheckpointHandler(type_handler_registry=registry)
    spare: dict[Any, Any] = {}
    shared = jax.tree.map(lambda leaf: _shared(key_numbers(leaf), meshes, spare), state)
    with orbax.checkpoint.Checkpointer(handler) as checkpointer:
        checkpointer.save(os.path.abspath(path), args=orbax.checkpoint.args.PyTreeSave(shared))


def _shared(leaf: Any, meshes: Sequence[Mesh], spare: dict[Any, Any]) -> Any:
    """Orbax refuses arrays that lie in one of several processes. Such a leaf gets one more copy, on a stage with devices
    of another process, that is never read: it has one part of each shape, which all leaves share."""
    sharding = getattr(leaf, "sharding", None)
    if not isinstance(sharding, NamedSharding):
        return leaf
    processes = {device.process_index for device in sharding.device_set}
    along = split_mesh(sharding.mesh)[0].devices.shape
    alike = [mesh for mesh in meshes if mesh.devices.shape == along]
    others = [mesh for mesh in alike if any(device.process_index not in processes for device in mesh.devices.flat)]
    if len(processes) > 1 or not others:
        return leaf
    shape = sharding.shard_shape(leaf.shape)

    def part(device: jax.Device) -> jax.Array:
        key = shape, leaf.dtype, device
        if key not in spare:
            spare[key] = jax.device_put(np.zeros(shape, leaf.dtype), device)
        return spare[key]

    own = [device for device in others[0].devices.flat if device.process_index == jax.process_index()]
    parts = [*(shard.data for shard in leaf.addressable_shards), *map(part, own)]
    both = NamedSharding(joined_mesh([*split_mesh(sharding.mesh), others[0]]), sharding.spec)
    return jax.make_array_from_single_device_arrays(leaf.shape, both, parts, dtype=leaf.dtype)


def restore(path: Any, wanted: Any) -> Any:
    """Reads what orbax wrote, under whatever plan, into other shapes and shardings: every device its own part."""
    import orbax.checkpoint

    # Orbax cannot make an array of which a process has nothing, but leaves out what is not asked for.
    asked = jax.tree.map(lambda leaf: key_numbers(leaf) if leaf.sharding.addressable_devices else ..., wanted)

    def arguments(leaf: Any) -> Any:
        if leaf is ...:
            return orbax.checkpoint.RestoreArgs()
        return orbax.checkpoint.ArrayRestoreArgs(dtype=leaf.dtype, sharding=leaf.sharding, global_shape=leaf.shape)

    restored_as = orbax.checkpoint.args.PyTreeRestore(item=asked, restore_args=jax.tree.map(arguments, asked))
    with orbax.checkpoint.PyTreeCheckpointer() as checkpointer:
        restored = checkpointer.restore(os.path.abspath(path), restored_as)

    def there(leaf: Any, found: Any) -> Any:
        if found is ...:
            return from_parts(leaf.shape, leaf.dtype, leaf.sharding, None)
        return keys_of(found, leaf.dtype) if is_key(leaf) else found

    return jax.tree.map(there, wanted, restored)


def local_slices(shape: tuple[int, ...], sharding: NamedSharding) -> tuple[slice, ...]:
    """The part of an array that the devices of this process have, from the first to the last element of each dimension."""
    indices = [index for index in sharding.addressable_devices_indices_map(shape).values() if index is not None]
    if not indices:
        return tuple(slice(0, 0) for _ in shape)
    bounds = [[part.indices(size)[:2] for part, size in zip(index, shape)] for index in indices]
    return tuple(slice(min(start for start, _ in along), max(stop for _, stop in along)) for along in zip(*bounds))


def from_local(name: str, leaf: Any, shape: tuple[int, ...], dtype: Any, sharding: NamedSharding) -> jax.Array:
    """An array of which every process gives all, or just its part."""
    if isinstance(leaf, jax.Array) and leaf.committed and sharding.is_equivalent_to(leaf.sharding, leaf.ndim):
        return leaf
    given = np.asarray(leaf, dtype)
    own = local_slices(shape, sharding)
    own_shape = tuple(part.stop - part.start for part in own)
    if given.shape == shape:
        return from_parts(shape, dtype, sharding, lambda index: given[index])
    if not sharding.addressable_devices:
        return from_parts(shape, dtype, sharding, None)
    if given.shape != own_shape:
        raise _core.Error(
            f"`{name}` is {list(given.shape)} here; all of it is {list(shape)}, and the part of this process {list(own_shape)}"
            "\n\nhint: `step.local_slices` says which part a process has to give"
        )

    def part(index: tuple[slice, ...]) -> Any:
        bounds = [along.indices(size) for along, size in zip(index, shape)]
        return given[tuple(slice(start - first.start, stop - first.start) for (start, stop, _), first in zip(bounds, own))]

    return from_parts(shape, dtype, sharding, part)
