"""Running a step in stages: every stage has a part of the devices, and one list drives them all."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import functools
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding

from meshwright import _core
from meshwright.jax.capture import Captured
from meshwright.jax.lists import Slot, Turn, donated_reads, turns_in_order
from meshwright.jax.place import is_here, is_key, join, joined_mesh, key_numbers, keys_of, part_on, place, spec_of
from meshwright.jax.run import COMPILER_OPTIONS, module_call
from meshwright.jax.transfer import make_copy, make_transfer

# What stages have in memory, by slot.
Memory = dict[Slot, Any]
Work = Callable[[Memory], None]


@dataclasses.dataclass(frozen=True)
class Buffer:
    stage: int
    is_each: bool
    # The dimension of the whole that is cut into microbatches.
    dim: int | None
    # With the sharding on the mesh of its stage.
    kind: jax.ShapeDtypeStruct

    def slots(self, number: int, microbatches: int) -> list[Slot]:
        return [(number, each) for each in range(microbatches)] if self.is_each else [(number, None)]


class Staged:
    """A step in stages on devices: where leaves lie, and what runs them."""

    def __init__(
        self,
        captured: Captured,
        pipeline: _core.Pipeline,
        devices: Sequence[jax.Device],
        compiler_options: Mapping[str, Any],
    ) -> None:
        self.captured, self.pipeline = captured, pipeline
        self._options = {**COMPILER_OPTIONS.get(captured.platform, {}), **compiler_options}
        self.meshes = _meshes(pipeline, devices)
        self.buffers = [_buffer(row, self.meshes) for row in pipeline.buffers]
        self.turns = turns_in_order(pipeline)
        state = {result: argument for argument, result in pipeline.state}
        holders = [self.alike(self.stages_of(numbers)) for numbers in pipeline.arguments]
        self.argument_holders = holders
        # What is no state is for whoever looks at it: every process has it.
        is_one_process = len({device.process_index for device in devices}) == 1
        everywhere = range(pipeline.stage_count)

        def result_stages(number: int, buffers: Sequence[int]) -> tuple[int, ...]:
            made = self.stages_of(buffers)
            others = () if is_one_process else (stage for stage in everywhere if stage not in made)
            return holders[state[number]] if number in state else tuple(sorted(self.alike((*made, *others))))

        result_holders = [result_stages(*row) for row in enumerate(pipeline.results)]
        self.arguments = self._shardings(captured.arguments, pipeline.arguments, holders)
        self.results = self._shardings(captured.results, pipeline.results, result_holders)
        self.result_holders = result_holders
        self._made: dict[Any, Any] = {}

    def once(self, key: Any, make: Callable[[], Any]) -> Any:
        """What is made for the first microbatch and used for all."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def stages_of(self, numbers: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted({self.buffers[number].stage for number in numbers}))

    def alike(self, stages: Sequence[int]) -> tuple[int, ...]:
        """Those stages that have as many devices along all axes as the first. An array can lie on these at once."""
        shapes = [self.meshes[stage].devices.shape for stage in stages]
        return tuple(stage for stage, shape in zip(stages, shapes) if shape == shapes[0])

    def _shardings(
        self, leaves: Sequence[Any], copies: Sequence[Sequence[int]], holders: Sequence[tuple[int, ...]]
    ) -> tuple[NamedSharding, ...]:
        def sharding(leaf: Any, numbers: Sequence[int], stages: tuple[int, ...]) -> NamedSharding:
            mesh = joined_mesh([self.meshes[stage] for stage in stages])
            # A random key has a dimension in a program that it does not have in JAX.
            spec = self.buffers[numbers[0]].kind.sharding.spec[: leaf.ndim]
            return NamedSharding(mesh, jax.sharding.PartitionSpec(*spec))

        return tuple(map(sharding, leaves, copies, holders))

    def compile(self, told: Callable[[int, int], None]) -> Program:
        """Compiles every piece once. Who has no devices of a stage has nothing to do for it."""
        # A piece that writes nothing has nothing to do.
        pieces = enumerate(self.pipeline.pieces)
        here = [number for number, (_, stage, _, writes) in pieces if writes and is_here(self.meshes[stage])]
        texts = [self.pipeline.piece_stablehlo(number) for number in here]
        donated = [tuple(donated_reads(self.pipeline, self.turns, number)) for number in here]
        keys = [(text, self.pipeline.pieces[number][1], given) for text, number, given in zip(texts, here, donated)]
        first = {key: number for key, number in reversed(list(zip(keys, here)))}
        compiled: dict[Any, Any] = {}
        told(0, len(first))
        pool = concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1))
        try:
            jobs = {pool.submit(self._compile_piece, number, *key): key for key, number in first.items()}
            for job in concurrent.futures.as_completed(jobs):
                compiled[jobs[job]] = job.result()
                told(len(compiled), len(first))
        finally:
            # Who presses Ctrl-C does not wait for what is not begun.
            pool.shutdown(wait=False, cancel_futures=True)
        return Program(self, {number: compiled[key] for number, key in zip(here, keys)})

    def _compile_piece(self, piece: int, text: str, stage: int, donated: tuple[int, ...]) -> Any:
        _, _, reads, writes = self.pipeline.pieces[piece]
        kinds = [self.buffers[number].kind for number in reads]
        results = [self.buffers[number].kind for number in writes]
        call = module_call(text, kinds, results, self.captured.platform, self.meshes[stage].devices.size)
        jitted = jax.jit(
            call,
            in_shardings=tuple(kind.sharding for kind in kinds),
            out_shardings=tuple(kind.sharding for kind in results),
            donate_argnums=donated,
            keep_unused=True,
            compiler_options=self._options,
        )
        return jitted.lower(*kinds).compile()


class Program:
    """What a process does in a step, as a list of functions."""

    def __init__(self, staged: Staged, pieces: Mapping[int, Any]) -> None:
        self.staged = staged
        names = [row[0] for row in staged.pipeline.pieces]
        # By the names of the pieces, as JAX shows what it compiled.
        self.compiled = {names[number]: compiled for number, compiled in sorted(pieces.items())}
        self._kept = _passed_on(staged)
        self._numbers = _numbers(staged)
        self._loads = [*_load_copies(staged), *_load_microbatches(staged)]
        self._turns = [work for turn in staged.turns for work in _turn(staged, turn, pieces)]
        self._ends = [*_join_microbatches(staged), *_spread(staged)]

    def __call__(self, leaves: Sequence[Any]) -> list[Any]:
        staged = self.staged
        memory: Memory = dict(self._numbers)
        given = list(map(_laid, leaves, staged.arguments))
        for number, array in enumerate(given):
            # Arguments before they are on the stages, which have numbers from 0 on.
            memory[-1 - number, None] = key_numbers(array)
        for work in (*self._loads, *self._turns, *self._ends):
            work(memory)
        results = [self._result(memory, number) for number in range(len(staged.results))]
        for number in staged.captured.donated:
            if number not in self._kept and not given[number].is_deleted():
                given[number].delete()
        return results

    def _result(self, memory: Memory, number: int) -> Any:
        staged = self.staged
        kind = staged.buffers[staged.pipeline.results[number][0]]
        leaf = staged.captured.results[number]
        stages, sharding = staged.result_holders[number], staged.results[number]
        copies = [memory.get(_result_slot(number, stage)) for stage in stages]
        shape = _whole_shape(kind, staged.pipeline.microbatches)
        if is_key(leaf):
            spec = staged.buffers[staged.pipeline.results[number][0]].kind.sharding.spec
            sharding = NamedSharding(sharding.mesh, spec)
        found = copies[0] if len(copies) == 1 else None
        array = found if found is not None else join(shape, kind.kind.dtype, copies, sharding)
        return keys_of(array, leaf.dtype) if is_key(leaf) else array


def _meshes(pipeline: _core.Pipeline, devices: Sequence[jax.Device]) -> list[Mesh]:
    shapes = [[size for _, size in mesh] for mesh in pipeline.meshes]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if ends[-1] > len(devices):
        raise _core.Error(
            f"the plan is for {ends[-1]} devices, and there are {len(devices)}\n\n"
            "hint: plan for a cluster of as many devices as there are"
        )
    parts = np.split(np.array(devices[: ends[-1]]), ends[:-1])
    return [Mesh(part.reshape(shape), [name for name, _ in pipeline.mesh]) for part, shape in zip(parts, shapes)]


def _buffer(row: tuple[int, bool, int | None, str, list[int], list[list[str]]], meshes: Sequence[Mesh]) -> Buffer:
    stage, is_each, dim, dtype, shape, dims = row
    sharding = NamedSharding(meshes[stage], spec_of(dims))
    return Buffer(stage, is_each, dim, jax.ShapeDtypeStruct(tuple(shape), _dtype(dtype), sharding=sharding))


def _dtype(name: str) -> Any:
    """The type of elements that StableHLO calls so."""
    if name == "i1":
        return np.dtype(bool)
    if name.startswith("complex"):
        return np.dtype(f"complex{2 * int(name[9:-1])}")
    kinds = (("bf", "bfloat"), ("ui", "uint"), ("i", "int"), ("f", "float"))
    short, long = next(pair for pair in kinds if name.startswith(pair[0]))
    digits = name[len(short) :]
    bits, _, rest = digits.partition("E")
    return jax.numpy.dtype(f"{long}{bits}" + (f"_e{rest.lower()}" if rest else ""))


def _passed_on(staged: Staged) -> set[int]:
    """Arguments that are results as they are."""
    results = {number for numbers in staged.pipeline.results for number in numbers}
    return {number for number, buffers in enumerate(staged.pipeline.arguments) if results.intersection(buffers)}


def _numbers(staged: Staged) -> Memory:
    memory: Memory = {}
    for number in staged.pipeline.numbers:
        buffer = staged.buffers[number]
        if is_here(staged.meshes[buffer.stage]):
            for each in range(staged.pipeline.microbatches):
                memory[number, each] = place(np.int32(each), buffer.kind.sharding)
    return memory


def _laid(leaf: Any, lies: NamedSharding) -> Any:
    """An argument in its place. One that was put elsewhere on purpose is refused, as `jax.jit` does."""
    if isinstance(leaf, jax.Array) and leaf.committed:
        if leaf.sharding == lies or lies.is_equivalent_to(leaf.sharding, leaf.ndim):
            return leaf
        raise ValueError("an argument lies elsewhere")
    return place(leaf, lies)


def _load_copies(staged: Staged) -> list[Work]:
    """Takes the copy of every stage out of arguments that lie on several."""

    def load(argument: int, number: int, buffer: Buffer, is_one: bool) -> Work:
        slot, sharding = (number, None), buffer.kind.sharding

        def work(memory: Memory) -> None:
            array = memory[-1 - argument, None]
            memory[slot] = array if is_one else part_on(array, sharding)

        return work

    works: list[Work] = []
    for argument, numbers in enumerate(staged.pipeline.arguments):
        holders = staged.argument_holders[argument]
        first = next(number for number in numbers if staged.buffers[number].stage == holders[0])
        for number in numbers:
            stage = staged.buffers[number].stage
            if stage not in holders:
                works += _load_elsewhere(staged, first, number)
            elif is_here(staged.meshes[stage]):
                works.append(load(argument, number, staged.buffers[number], len(holders) == 1))
    return works


def _load_elsewhere(staged: Staged, first: int, number: int) -> list[Work]:
    """Copies an argument from the first stage that has it to one that has other axes."""
    meshes = [staged.meshes[staged.buffers[buffer].stage] for buffer in (first, number)]
    if not any(map(is_here, meshes)):
        return []
    copy = make_copy(_kind(staged, (first, None)), _kind(staged, (number, None)))

    def work(memory: Memory) -> None:
        array = copy(memory.get((first, None)))
        if array is not None:
            memory[number, None] = array

    return [work]


def _load_microbatches(staged: Staged) -> list[Work]:
    """Cuts arguments into microbatches on every stage that reads them so: each device its own part."""
    count = staged.pipeline.microbatches

    def cut(dims: Sequence[int], *parts: Any) -> list[list[Any]]:
        return [jax.numpy.split(part, count, dim) for dim, part in zip(dims, parts)]

    def split(own: Sequence[int], call: Any) -> Work:
        def work(memory: Memory) -> None:
            cuts = call(*[memory.pop((number, None)) for number in own])
            for number, parts in zip(own, cuts):
                memory.update({(number, each): part for each, part in enumerate(parts)})

        return work

    works: list[Work] = []
    all_cut = _cut_buffers(staged, staged.pipeline.arguments)
    for stage, mesh in enumerate(staged.meshes):
        own = [number for number in all_cut if staged.buffers[number].stage == stage]
        if not own or not is_here(mesh):
            continue
        specs = tuple(staged.buffers[number].kind.sharding.spec for number in own)
        dims = [staged.buffers[number].dim or 0 for number in own]
        out = [[spec] * count for spec in specs]
        cutting = functools.partial(cut, dims)
        call = jax.jit(jax.shard_map(cutting, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False))
        works.append(split(own, call))
    return works


def _join_microbatches(staged: Staged) -> list[Work]:
    """Puts results together that there is one part of for every microbatch."""
    count = staged.pipeline.microbatches

    def joined(number: int, buffer: Buffer) -> Work:
        spec = buffer.kind.sharding.spec
        mesh = staged.meshes[buffer.stage]
        concatenate = jax.shard_map(
            lambda *parts: jax.numpy.concatenate(parts, buffer.dim), mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        call = jax.jit(concatenate)

        def work(memory: Memory) -> None:
            memory[number, None] = call(*[memory[number, each] for each in range(count)])

        return work

    cut = _cut_buffers(staged, staged.pipeline.results)
    return [joined(number, staged.buffers[number]) for number in cut if is_here(staged.meshes[staged.buffers[number].stage])]


def _cut_buffers(staged: Staged, copies: Sequence[Sequence[int]]) -> list[int]:
    numbers = sorted({number for numbers in copies for number in numbers})
    return [number for number in numbers if staged.buffers[number].is_each and staged.buffers[number].dim is not None]


def _kind(staged: Staged, slot: Slot) -> jax.ShapeDtypeStruct:
    """What is in a slot: of a buffer for every microbatch, that of all of them is the whole."""
    buffer = staged.buffers[slot[0]]
    if slot[1] is not None or not buffer.is_each:
        return buffer.kind
    shape = _whole_shape(buffer, staged.pipeline.microbatches)
    return jax.ShapeDtypeStruct(shape, buffer.kind.dtype, sharding=buffer.kind.sharding)


def _whole_shape(buffer: Buffer, microbatches: int) -> tuple[int, ...]:
    shape = list(buffer.kind.shape)
    if buffer.is_each and buffer.dim is not None:
        shape[buffer.dim] *= microbatches
    return tuple(shape)


def _turn(staged: Staged, turn: Turn, pieces: Mapping[int, Any]) -> list[Work]:
    """What this process does in a turn."""
    works: list[Work] = []
    runs = turn.piece is not None and turn.piece in pieces
    if turn.piece is not None and runs:
        _, _, reads, writes = staged.pipeline.pieces[turn.piece]

        def slot(number: int) -> Slot:
            return number, turn.microbatch if staged.buffers[number].is_each else None

        works.append(_run(pieces[turn.piece], list(map(slot, reads)), list(map(slot, writes))))
    for stage in sorted({staged.buffers[into].stage for _, (into, _) in turn.sends}):
        pairs = [pair for pair in turn.sends if staged.buffers[pair[1][0]].stage == stage]
        works += _send(staged, turn.stage, stage, pairs)
    if runs and turn.sums:
        works.append(_accumulate(staged, turn.sums))
    if runs and turn.frees:
        works.append(_free(turn.frees))
    return works


def _run(call: Any, reads: Sequence[Slot], writes: Sequence[Slot]) -> Work:
    def work(memory: Memory) -> None:
        memory.update(zip(writes, call(*[memory[slot] for slot in reads])))

    return work


def _send(staged: Staged, source: int, target: int, pairs: Sequence[tuple[Slot, Slot]]) -> list[Work]:
    if not is_here(staged.meshes[source]) and not is_here(staged.meshes[target]):
        return []
    meshes = staged.meshes[source], staged.meshes[target]

    def kinds(slot: Slot, into: Slot) -> tuple[jax.ShapeDtypeStruct, jax.ShapeDtypeStruct]:
        kind = _kind(staged, slot)
        sharding = NamedSharding(meshes[1], kind.sharding.spec)
        # Results beside the buffers lie there as they lie here.
        there = jax.ShapeDtypeStruct(kind.shape, kind.dtype, sharding=sharding) if into[0] < 0 else _kind(staged, into)
        return kind, there

    # Microbatches go the same way.
    numbers = tuple(number for (number, _), _ in pairs)
    senders = staged.pipeline.senders(source, target)
    make = functools.partial(make_transfer, *meshes, [kinds(*pair) for pair in pairs], senders)
    transfer = staged.once(("send", target, numbers), make)
    receives = is_here(staged.meshes[target])
    slots, intos = [own for own, _ in pairs], [into for _, into in pairs]

    def work(memory: Memory) -> None:
        arrays = transfer([memory.get(slot) for slot in slots])
        if receives:
            memory.update(zip(intos, arrays))

    return [work]


def _add(sums: Sequence[Any], parts: Sequence[Any]) -> list[Any]:
    return [before + part for before, part in zip(sums, parts)]


def _accumulate(staged: Staged, pairs: Sequence[tuple[Slot, Slot]]) -> Work:
    slots, intos = [part for part, _ in pairs], [into for _, into in pairs]
    shardings = [staged.buffers[number].kind.sharding for number, _ in intos]
    add = staged.once(("add", tuple(intos)), lambda: jax.jit(_add, donate_argnums=0, out_shardings=shardings))

    def work(memory: Memory) -> None:
        if intos[0] in memory:
            memory.update(zip(intos, add([memory[into] for into in intos], [memory[slot] for slot in slots])))
        else:
            memory.update({into: memory[slot] for slot, into in pairs})

    return work


def _free(slots: Sequence[Slot]) -> Work:
    def work(memory: Memory) -> None:
        for slot in slots:
            memory.pop(slot, None)

    return work


def _result_slot(number: int, stage: int) -> Slot:
    """Results on stages are beside the buffers, which have numbers from 0 on."""
    return -1 - number, -1 - stage


def _spread(staged: Staged) -> list[Work]:
    """Brings results to the stages that hold them and did not make them."""
    works: list[Work] = []
    for result, numbers in enumerate(staged.pipeline.results):
        made = {staged.buffers[number].stage: number for number in reversed(numbers)}
        first = numbers[0]
        for stage in staged.result_holders[result]:
            into = _result_slot(result, stage)
            number = made.get(stage)
            if number is None:
                works += _send(staged, staged.buffers[first].stage, stage, [((first, None), into)])
            elif is_here(staged.meshes[stage]):
                works.append(_copy((number, None), into))
    return works


def _copy(slot: Slot, into: Slot) -> Work:
    def work(memory: Memory) -> None:
        memory[into] = memory[slot]

    return work
