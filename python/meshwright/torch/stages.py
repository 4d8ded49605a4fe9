"""A step of a plan in stages, as one process runs it: a list of instructions on the mesh of its stage."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist

from meshwright import _core
from meshwright.torch.backends import is_gloo
from meshwright.torch.collectives import make_groups
from meshwright.torch.outbox import Outbox, can_wait
from meshwright.torch.place import device_mesh, part_of
from meshwright.torch.processes import Control
from meshwright.torch.record import OF_NAMES
from meshwright.torch.source import Source
from meshwright.torch.step import Parts, Stored

# A buffer, for the microbatch where there is one for each.
Slot = tuple[int, "int | None"]
Memory = dict[Slot, Any]


@dataclasses.dataclass
class Update:
    """A piece that updates, which has run as far as its gradients: what the rest of it needs."""

    piece: int
    # What it reads and has made, by buffer.
    values: dict[int, Any]
    kept: list[Any]


class StagedStep:
    """Processes of a stage run its pieces in the order of its list, and send on what other stages wait for.

    The forward pass runs all of the list but for updates, gradients with it; the backward pass only gives these out.
    """

    def __init__(
        self, pipeline: _core.Pipeline, control: Control, device: torch.device, arguments: Sequence[tuple[str, str]],
        results: Sequence[tuple[str, str]],
    ) -> None:  # fmt: skip
        self.pipeline, self.control, self.device = pipeline, control, device
        axes = [mesh or [("device", 1)] for mesh in pipeline.meshes]
        self.counts = [math.prod(size for _, size in mesh) for mesh in axes]
        # The first process of every stage.
        self.firsts = [sum(self.counts[:stage]) for stage in range(pipeline.stage_count)]
        self.stage = max(stage for stage, first in enumerate(self.firsts) if first <= control.rank)
        self.place = control.rank - self.firsts[self.stage]
        self.meshes = [device_mesh(device, mesh, first) for mesh, first in zip(axes, self.firsts)]
        self.mesh = self.meshes[self.stage]
        self._between: dict[tuple[int, int], list[int]] = {}
        self.argument_names, self.result_names = [name for name, _ in arguments], [name for name, _ in results]
        self.buffers = pipeline.buffers
        # What this stage holds of arguments and results: their buffers.
        self.given = self._here(self.argument_names, pipeline.arguments)
        self.made = self._made(pipeline.results)
        self.received = self._received(pipeline.results)
        # Gradients that users see here, by buffer.
        self.gradients = {buffer: name for name, buffer in self.made.items() if name.startswith("grads.")} | self.received
        self.arguments = {name: self._stored(buffer) for buffer, name in self.given.items()}
        self.results = {name: self._stored(self._senders[buffer]) for buffer, name in self.received.items()}
        self.results |= {name: self._stored(buffer) for name, buffer in self.made.items()}
        self.sources = self._sources()
        self.outbox = Outbox(device.type)
        self.waits = can_wait(pipeline.instructions)
        # By which groups values go to later stages, and to earlier ones.
        self.lanes: list[Any] = [None, None]

    def _here(self, names: Sequence[str], copies: Sequence[Sequence[int]]) -> dict[int, str]:
        """Names by buffers: a stage may have an input as a whole and one microbatch of it after the other."""
        rows = zip(names, copies)
        return {buffer: name for name, buffers in rows for buffer in buffers if self.buffers[buffer][0] == self.stage}

    def _made(self, copies: Sequence[Sequence[int]]) -> dict[str, int]:
        """Buffers of results by name. Where a gradient follows from what comes back alone, as that of a bias does, a stage
        finishes it that does not have its parameter: it sends it on and shows it to nobody."""
        held = set(self.given.values())
        rows = {name: buffer for buffer, name in self._here(self.result_names, copies).items()}
        is_shown = {name: not name.startswith("grads.") or f"params.{name.removeprefix('grads.')}" in held for name in rows}
        return {name: buffer for name, buffer in rows.items() if is_shown[name]}

    def _received(self, copies: Sequence[Sequence[int]]) -> dict[int, str]:
        """Gradients that another stage finishes and this one updates with, by buffer."""
        rows = [(name, buffers) for name, buffers in zip(self.result_names, copies) if name.startswith("grads.")]
        finished = {buffer: name for name, buffers in rows if name not in self.made for buffer in buffers}
        here = [into for into in self._senders if self.buffers[into][0] == self.stage]
        return {into: finished[self._senders[into]] for into in here if self._senders[into] in finished}

    def _stored(self, buffer: int) -> Stored:
        _, is_each, dim, dtype, shape, cut = self.buffers[buffer]
        whole = list(shape)
        if is_each and dim is not None:
            whole[dim] *= self.pipeline.microbatches
        return Stored(tuple(whole), OF_NAMES[dtype], cut)

    def _sources(self) -> dict[int, Source]:
        """Pieces of all stages, since processes make the groups of all of them together. Pieces alike are one."""
        made: dict[tuple[int, str], Source] = {}
        found = {}
        for piece, (_, stage, _, _) in enumerate(self.pipeline.pieces):
            text = self.pipeline.piece_torch(piece, self.argument_names, self.result_names)
            key = self.counts[stage], text
            if key not in made:
                made[key] = Source(text, self.place, self.device)
            found[piece] = made[key]
        return found

    @property
    def text(self) -> str:
        own = {piece for kind, piece, *_ in self.pipeline.instructions[self.stage] if kind == "run"}
        texts = [f"# {self.pipeline.pieces[piece][0]}\n{self.sources[piece].text}" for piece in sorted(own)]
        return "\n\n".join([*texts, ""])

    def meet(self) -> None:
        # NCCL has one queue for what two processes send each other within a group: where both send before they receive, each
        # would wait for the other. It knows no tags either, but lists have what goes from one stage to another in one order.
        if not is_gloo(self.device.type):
            self.lanes = [dist.new_group() for _ in self.lanes]
        for stage, mesh in enumerate(self.meshes):
            own = [self.sources[piece] for piece, row in enumerate(self.pipeline.pieces) if row[1] == stage]
            partitions: list[Any] = []
            for source in own:
                partitions += [partition for partition in source.partitions if partition not in partitions]
            groups = make_groups(partitions, mesh)
            if stage == self.stage:
                for source in own:
                    source.meet([groups[partitions.index(partition)] for partition in source.partitions])

    def compile(self) -> None:
        for source in set(self.sources.values()):
            source.compile()

    @property
    def draws(self) -> bool:
        return any(source.draws for source in self.sources.values())

    def begin(self, seed: str) -> None:
        for source in self.sources.values():
            source.begin(seed)

    def part(self, name: str, whole: torch.Tensor) -> torch.Tensor:
        """The part of this process of an input, of all microbatches."""
        return part_of(whole, self.mesh, self.arguments[name].cut)

    # Passes.

    def forward(self, given: Parts) -> tuple[dict[str, torch.Tensor], Any]:
        memory = self._filled(given)
        updates: list[Update] = []
        # The number of what is sent next, as it was before the last piece ran.
        mark = self.outbox.next
        for kind, first, second, microbatch in self.pipeline.instructions[self.stage]:
            if kind == "run":
                if self.waits:
                    self.outbox.wait(mark)
                mark = self.outbox.next
                self._run(memory, first, microbatch, updates)
            elif kind == "send":
                self._send(memory, first, second, microbatch)
            elif kind == "receive":
                self._receive(memory, first, microbatch)
            elif kind == "accumulate":
                self._accumulate(memory, first, second, microbatch)
            else:
                memory.pop(self._slot(first, microbatch), None)
            self.outbox.tidy()
        self.outbox.empty()
        results = {name: self._whole(memory, buffer) for name, buffer in self.made.items() if self._is_there(memory, buffer)}
        results["loss"] = self._everywhere("loss", results.get("loss"))
        early = {name: value for name, value in results.items() if not name.startswith("grads.")}
        gradients = {name: value for name, value in results.items() if name.startswith("grads.")}
        for update in updates:
            gradients |= {self.received[buffer]: value for buffer, value in update.values.items() if buffer in self.received}
            # Users have gradients, and let go of them when they like.
            update.values = {buffer: value for buffer, value in update.values.items() if buffer not in self.gradients}
        return early, (gradients, updates)

    def backward(self, left: Any) -> tuple[dict[str, torch.Tensor], Any]:
        return left

    def update(self, given: Parts, gradients: Parts, kept: Any) -> None:
        values = {buffer: given[name] for buffer, name in self.given.items() if name in given}
        values |= {buffer: gradients[name] for buffer, name in self.gradients.items()}
        for update in kept:
            _, _, reads, writes = self.pipeline.pieces[update.piece]
            source, known = self.sources[update.piece], update.values | values
            finished = [known[writes[number]] for number in source.gives("backward")]
            source.function("update")([known.get(buffer) for buffer in reads], [*finished, *update.kept])

    def finishes(self, name: str) -> bool:
        """Whether a result is made here, and not by another stage for this one."""
        return name in self.made

    def combined_norm(self, norm: torch.Tensor, kind: float) -> torch.Tensor:
        """The norm of what all stages have, of that of each."""
        # One process speaks for its stage.
        power = norm if math.isinf(kind) else norm**kind
        power = power.to(self.device) if self.place == 0 else torch.zeros_like(norm, device=self.device)
        dist.all_reduce(power, dist.ReduceOp.MAX if math.isinf(kind) else dist.ReduceOp.SUM)
        return power if math.isinf(kind) else power ** (1 / kind)

    # Instructions.

    def _slot(self, buffer: int, microbatch: int | None) -> Slot:
        return buffer, microbatch if self.buffers[buffer][1] else None

    def _filled(self, given: Parts) -> Memory:
        memory: Memory = {}
        for buffer, name in self.given.items():
            if name not in given:
                continue
            _, is_each, dim, *_ = self.buffers[buffer]
            if not is_each:
                memory[buffer, None] = given[name]
                continue
            # Parts of devices are cut into microbatches, as they are where a piece does that by itself.
            count = self.pipeline.microbatches
            parts = [given[name]] * count if dim is None else given[name].chunk(count, dim)
            memory.update({(buffer, microbatch): part for microbatch, part in enumerate(parts)})
        for buffer in self.pipeline.numbers:
            for microbatch in range(self.pipeline.microbatches):
                memory[self._slot(buffer, microbatch)] = microbatch
        return memory

    def _run(self, memory: Memory, piece: int, microbatch: int | None, updates: list[Any]) -> None:
        _, _, reads, writes = self.pipeline.pieces[piece]
        source = self.sources[piece]
        values = [memory.get(self._slot(buffer, microbatch)) for buffer in reads]
        values = [self._number(buffer, value) for buffer, value in zip(reads, values)]
        if "RUN" in source.names:
            made = dict(zip(writes, source.function("run")(values)))
        else:
            first, saved = source.function("forward")(values)
            second, kept = source.function("backward")(values, saved)
            made = dict(zip([writes[number] for number in source.gives("forward")], first))
            finished = dict(zip([writes[number] for number in source.gives("backward")], second))
            made |= finished
            needed = {reads[number] for number in source.needed("update")} | self.received.keys()
            known = {buffer: value for buffer, value in zip(reads, values) if buffer in needed}
            updates.append(Update(piece, known | finished, kept))
        memory.update({self._slot(buffer, microbatch): value for buffer, value in made.items()})

    def _number(self, buffer: int, value: Any) -> Any:
        return torch.tensor(value, dtype=torch.int32) if isinstance(value, int) else value

    def _receivers(self, stage: int) -> list[int]:
        """The processes of another stage that have their parts from this one."""
        senders = self._senders_between(self.stage, stage)
        return [self.firsts[stage] + place for place, sender in enumerate(senders) if sender == self.place]

    def _sender(self, stage: int) -> int:
        """The process of another stage that this one has its part from."""
        return self.firsts[stage] + self._senders_between(stage, self.stage)[self.place]

    def _senders_between(self, source: int, target: int) -> list[int]:
        if (source, target) not in self._between:
            self._between[source, target] = self.pipeline.senders(source, target)
        return self._between[source, target]

    def _tag(self, buffer: int, microbatch: int | None) -> int:
        return buffer * (self.pipeline.microbatches + 1) + (0 if microbatch is None else microbatch + 1)

    def _send(self, memory: Memory, own: int, into: int, microbatch: int | None) -> None:
        value = memory[self._slot(own, microbatch)].contiguous()
        tag = self._tag(into, self._slot(into, microbatch)[1])
        stage = self.buffers[into][0]
        for receiver in self._receivers(stage):
            self.outbox.send(value, receiver, tag, self._lane(self.stage, stage))

    def _receive(self, memory: Memory, buffer: int, microbatch: int | None) -> None:
        stage = self.buffers[self._senders[buffer]][0]
        _, _, _, dtype, shape, cut = self.buffers[buffer]
        sizes = dict(self.pipeline.meshes[self.stage])
        local_shape = [size // math.prod(sizes[axis] for axis in axes) for size, axes in zip(shape, cut)]
        value = torch.empty(local_shape, dtype=OF_NAMES[dtype], device=self.device)
        tag = self._tag(buffer, self._slot(buffer, microbatch)[1])
        dist.recv(value, self._sender(stage), group=self._lane(stage, self.stage), tag=tag)
        memory[self._slot(buffer, microbatch)] = value

    def _lane(self, source: int, target: int) -> Any:
        return self.lanes[source > target]

    @property
    def _senders(self) -> Mapping[int, int]:
        """Of every buffer that is sent to, the buffer that it comes from."""
        if "_found" not in self.__dict__:
            rows = [row for rows in self.pipeline.instructions for row in rows if row[0] == "send"]
            self.__dict__["_found"] = {second: first for _, first, second, _ in rows}
        return self.__dict__["_found"]

    def _accumulate(self, memory: Memory, part: int, total: int, microbatch: int | None) -> None:
        value, into = memory[self._slot(part, microbatch)], (total, None)
        if into in memory:
            memory[into] = memory[into].add_(value)
        else:
            # Parts are deleted by themselves, and may be seen elsewhere until then.
            memory[into] = value.clone()

    def _is_there(self, memory: Memory, buffer: int) -> bool:
        return (buffer, None) in memory or (buffer, 0) in memory

    def _whole(self, memory: Memory, buffer: int) -> torch.Tensor:
        """A result, of all microbatches where there is one for each."""
        if (buffer, None) in memory:
            return memory[buffer, None]
        _, _, dim, *_ = self.buffers[buffer]
        parts = [memory[buffer, microbatch] for microbatch in range(self.pipeline.microbatches)]
        return parts[0] if dim is None else torch.cat(parts, dim)

    def _everywhere(self, name: str, value: torch.Tensor | None) -> torch.Tensor:
        """A number that one stage has, in all processes."""
        buffer = self.pipeline.results[self.result_names.index(name)][0]
        source = self.firsts[self.buffers[buffer][0]]
        dtype = OF_NAMES[self.buffers[buffer][3]]
        made = torch.empty((), dtype=dtype, device=self.device) if value is None else value.clone()
        dist.broadcast(made, source)
        return made
