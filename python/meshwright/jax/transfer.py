"""What goes from one stage to another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshwright.jax.place import STAGES, is_here

# Takes arrays on the stage that sends and gives them on the stage that receives. Who has no devices of a stage has
# nothing there.
Transfer = Callable[[Sequence[Any]], Sequence[Any]]
# What an array is on the stage that sends, and on the one that receives: parts of devices have the same shape.
Kinds = tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]


def make_transfer(source: Mesh, target: Mesh, kinds: Sequence[Kinds], senders: Sequence[int]) -> Transfer:
    """How arrays get from a stage to another, of which every device has the part of one of the senders."""
    if not _is_one_process(source, target):
        return _between_processes(source, target, kinds, senders)
    if source.devices.shape == target.devices.shape:
        shardings = [there.sharding for _, there in kinds]
        return lambda arrays: jax.device_put(list(arrays), shardings)
    return lambda arrays: [_moved(array, there, source, senders) for array, (_, there) in zip(arrays, kinds)]


def make_copy(here: jax.ShapeDtypeStruct, there: jax.ShapeDtypeStruct) -> Callable[[Any], Any]:
    """How one array gets to a stage on which it lies otherwise."""
    source, target = here.sharding.mesh, there.sharding.mesh
    if _is_one_process(source, target):
        return lambda array: jax.device_put(array, there.sharding)
    whole = NamedSharding(source, PartitionSpec()), NamedSharding(target, PartitionSpec())
    kinds = tuple(jax.ShapeDtypeStruct(here.shape, here.dtype, sharding=sharding) for sharding in whole)
    senders = [device % source.devices.size for device in range(target.devices.size)]
    # Copies to several stages follow each other in no order that all processes have in common, so that each waits.
    transfer = _between_processes(source, target, [kinds], senders, waits=True)
    gather = jax.jit(lambda array: array, out_shardings=whole[0])
    cut = jax.jit(lambda array: array, out_shardings=there.sharding)

    def copy(array: Any) -> Any:
        [received] = transfer([gather(array) if is_here(source) else None])
        return cut(received) if is_here(target) else None

    return copy


def _is_one_process(*meshes: Mesh) -> bool:
    return len({device.process_index for mesh in meshes for device in mesh.devices.flat}) == 1


def _moved(array: jax.Array, there: jax.ShapeDtypeStruct, source: Mesh, senders: Sequence[int]) -> jax.Array:
    parts = {shard.device: shard.data for shard in array.addressable_shards}
    order = list(source.devices.flat)
    pairs = zip(senders, there.sharding.mesh.devices.flat)
    moved = [jax.device_put(parts[order[sender]], device) for sender, device in pairs]
    return jax.make_array_from_single_device_arrays(there.shape, there.sharding, moved, dtype=there.dtype)


def _between_processes(
    source: Mesh, target: Mesh, kinds: Sequence[Kinds], senders: Sequence[int], waits: bool = False
) -> Transfer:
    """Devices of several processes only meet in a program that all of them run: one in which devices of a stage give
    what they have to those of the other. What goes in there on the receiving stage is zeros."""
    mesh = Mesh(np.array([*source.devices.flat, *target.devices.flat]), (STAGES,))
    shift = _shift(senders, source.devices.size)
    shapes = [here.sharding.shard_shape(here.shape) for here, _ in kinds]
    # Numbers have no dimension along which devices could lie, and need none: what each device has of them is its own.
    specs = tuple(PartitionSpec(STAGES) if shape else PartitionSpec() for shape in shapes)
    wholes = [(mesh.devices.size * shape[0], *shape[1:]) if shape else () for shape in shapes]
    joined = [NamedSharding(mesh, spec) for spec in specs]
    program = jax.shard_map(shift, mesh=mesh, in_specs=specs, out_specs=specs, check_vma=False)
    abstract = [
        jax.ShapeDtypeStruct(whole, here.dtype, sharding=sharding)
        for whole, (here, _), sharding in zip(wholes, kinds, joined)
    ]
    compiled = jax.jit(program).lower(*abstract).compile()
    zeros = [_zeros(shape, here.dtype, target) for shape, (here, _) in zip(shapes, kinds)]

    def given(array: Any, zero: Sequence[jax.Array], whole: tuple[int, ...], sharding: NamedSharding) -> jax.Array:
        own = [shard.data for shard in array.addressable_shards] if array is not None else []
        return jax.make_array_from_single_device_arrays(whole, sharding, [*own, *zero], dtype=(zero or own)[0].dtype)

    def transfer(arrays: Sequence[Any]) -> Sequence[Any]:
        shifted = compiled(*[given(*row) for row in zip(arrays, zeros, wholes, joined)])
        if waits:
            jax.block_until_ready(shifted)
        return [_taken(array, there) for array, (_, there) in zip(shifted, kinds)]

    return transfer


def _shift(senders: Sequence[int], first: int) -> Callable[..., tuple[Any, ...]]:
    """Gives receivers, whose numbers begin behind those of all that may send, what their senders have. Who sends to
    several does so once in every round."""
    rounds: list[list[tuple[int, int]]] = []
    turns = np.zeros(first + len(senders), np.int32)
    for receiver, sender in enumerate(senders):
        turn = senders[:receiver].count(sender)
        rounds += [[]] if turn == len(rounds) else []
        rounds[turn].append((sender, first + receiver))
        turns[first + receiver] = turn

    def shift(*parts: Any) -> tuple[Any, ...]:
        own = jax.numpy.asarray(turns)[jax.lax.axis_index(STAGES)]

        def moved(part: Any) -> Any:
            found = jax.lax.ppermute(part, STAGES, rounds[0])
            for turn, pairs in enumerate(rounds[1:], 1):
                # A round begins when the one before has ended, on all devices alike.
                part, found = jax.lax.optimization_barrier((part, found))
                found = jax.numpy.where(own == turn, jax.lax.ppermute(part, STAGES, pairs), found)
            return found

        return tuple(map(moved, parts))

    return shift


def _zeros(shape: tuple[int, ...], dtype: Any, mesh: Mesh) -> list[jax.Array]:
    here = [device for device in mesh.devices.flat if device.process_index == jax.process_index()]
    return [jax.device_put(np.zeros(shape, dtype), device) for device in here]


def _taken(array: jax.Array, kind: jax.ShapeDtypeStruct) -> jax.Array:
    devices = kind.sharding.addressable_devices
    parts = [shard.data for shard in array.addressable_shards if shard.device in devices]
    return jax.make_array_from_single_device_arrays(kind.shape, kind.sharding, parts, dtype=kind.dtype)
