"""Plans on processes beside FSDP2 and tensor parallelism written by hand: losses, CPU time, bytes moved and memory.

    python python/benches/torch_by_hand.py [--layers 4] [--width 256] [--steps 5]

starts four processes of Gloo on this machine and prints a table. Every row trains the same GPT-2 with the same batch, one
after the other in one run. CPU time is that of all processes; bytes are the whole values that collectives of a process are
about; memory is the most that tensors take at a time in a process, from the events of PyTorch's allocator, with parameters and state.
The last columns are the same as shares of what the way by hand takes. FSDP2 lets go of the weights that it gathered after the
forward pass and gathers them again, unless `reshard_after_forward=False` has it keep them. Without a limit a plan keeps
them, since there is room: it is held beside the way by hand that makes the same choice. Within the memory of the way that lets
go, plans are held beside that.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.utils._python_dispatch import TorchDispatchMode

import meshwright as mw

sys.path.append(str(Path(__file__).parent.parent / "tests" / "torch"))

import processes  # noqa: E402

WORLD = 4
# How often each is trained and timed; the best counts.
REPEATS = 3


class Block(torch.nn.Module):
    """A layer of GPT-2 with matrices that tensor parallelism by hand can cut: three for attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.query, self.key, self.value = (torch.nn.Linear(width, width) for _ in range(3))
        self.out, self.up, self.down = torch.nn.Linear(width, width), torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = self.norm_1(x)
        split = [layer(normal) for layer in (self.query, self.key, self.value)]
        width = x.shape[-1] // self.heads
        query, key, value = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in split)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm_2(x))))


class Gpt(torch.nn.Module):
    def __init__(self, layers: int, width: int, vocabulary: int, length: int) -> None:
        super().__init__()
        self.tokens, self.places = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(length, width)
        self.blocks = torch.nn.ModuleList(Block(width, width // 32) for _ in range(layers))
        self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.tokens(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(logits: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())


class Bytes(TorchDispatchMode):
    """Counts what goes into collectives."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        if func.namespace in ("c10d", "_c10d_functional", "c10d_functional") and "wait" not in str(func):
            # Collectives of c10d are given their results; all count by their larger side, which is the whole value.
            tensors = [leaf for leaf in torch.utils._pytree.tree_leaves((args, made)) if torch.is_tensor(leaf)]
            self.count += max((tensor.numel() * tensor.element_size() for tensor in tensors), default=0)
        return made


def fsdp2(model: Gpt, tokens: torch.Tensor, lets_go: bool = True) -> tuple[Callable[[], torch.Tensor], Any]:
    mesh = init_device_mesh("cpu", (WORLD,))
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=lets_go)
    fully_shard(model, mesh=mesh)
    own = tokens.chunk(WORLD)[dist.get_rank()]
    return lambda: loss_of(model(own), own), torch.optim.AdamW(model.parameters(), lr=1e-3)


def fsdp2_keeping(model: Gpt, tokens: torch.Tensor) -> tuple[Callable[[], torch.Tensor], Any]:
    return fsdp2(model, tokens, lets_go=False)


def tensor_parallel(model: Gpt, tokens: torch.Tensor) -> tuple[Callable[[], torch.Tensor], Any]:
    mesh = init_device_mesh("cpu", (WORLD,))
    for block in model.blocks:
        rows = {name: ColwiseParallel() for name in ("query", "key", "value", "up")}
        parallelize_module(block, mesh, rows | {name: RowwiseParallel() for name in ("out", "down")})
        block.heads //= WORLD
    for block in model.blocks:
        block.forward = _local_forward(block)
    return lambda: loss_of(model(tokens), tokens), torch.optim.AdamW(model.parameters(), lr=1e-3)


def _local_forward(block: Block) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(x: torch.Tensor) -> torch.Tensor:
        normal = block.norm_1(x)
        split = [layer(normal) for layer in (block.query, block.key, block.value)]
        width = split[0].shape[-1] // block.heads
        query, key, value = (part.unflatten(-1, (-1, width)).transpose(1, 2) for part in split)
        mixed = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + block.out(mixed.transpose(1, 2).flatten(2))
        return x + block.down(torch.nn.functional.gelu(block.up(block.norm_2(x))))

    return forward


# What was measured so far, by name.
ROWS: dict[str, dict[str, Any]] = {}


def planned(beside: str | None = None, **options: Any) -> Callable[..., tuple[Callable[[], torch.Tensor], Any]]:
    """A plan, within the memory that another way took where that is named."""

    def make(model: Gpt, tokens: torch.Tensor) -> tuple[Callable[[], torch.Tensor], Any]:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        if beside is not None:
            options["memory"] = ROWS[beside]["peak"]
        made, own = mw.torch.parallelize(model, optimizer, tokens, loss_of, microbatches=1, **options)
        return lambda: made(tokens), own

    return make


WAYS = {
    "FSDP2 by hand": fsdp2,
    "FSDP2 that keeps weights": fsdp2_keeping,
    "ZeRO-3 planned": planned(mesh={"data": WORLD}, tactics=[mw.data("data"), mw.zero3("data")]),
    "ZeRO-3 in FSDP2's memory": planned("FSDP2 by hand", mesh={"data": WORLD}, tactics=[mw.data("data"), mw.zero3("data")]),
    "tensor parallel by hand": tensor_parallel,
    "Megatron planned": planned(mesh={"model": WORLD}, tactics=[mw.megatron("model")]),
    "automatic": planned(),
    "automatic in FSDP2's memory": planned("FSDP2 by hand"),
}
# What every way is held beside: by hand with the same choice, whether gathered weights are kept for the backward pass.
BY_HAND = {
    "ZeRO-3 planned": "FSDP2 that keeps weights",
    "ZeRO-3 in FSDP2's memory": "FSDP2 by hand",
    "Megatron planned": "tensor parallel by hand",
    "automatic": "FSDP2 that keeps weights",
    "automatic in FSDP2's memory": "FSDP2 by hand",
}


def measured(make: Callable[..., Any], model: Gpt, tokens: torch.Tensor, steps: int) -> dict[str, Any]:
    loss, optimizer = make(model, tokens)

    def step() -> torch.Tensor:
        made = loss()
        made.backward()
        optimizer.step()
        optimizer.zero_grad()
        return made.detach()

    losses = []
    for _ in range(steps):
        made = step()
        made = made.full_tensor() if isinstance(made, DTensor) else made
        if make in (fsdp2, fsdp2_keeping):
            made = made.clone()
            dist.all_reduce(made, dist.ReduceOp.AVG if dist.get_backend() == "nccl" else dist.ReduceOp.SUM)
            made = made if dist.get_backend() == "nccl" else made / WORLD
        losses.append(float(made))
    times = []
    for _ in range(REPEATS):
        dist.barrier()
        started = time.process_time()
        for _ in range(steps):
            step()
        times.append((time.process_time() - started) / steps)
    with Bytes() as moved:
        step()
    held = {id(tensor): tensor for group in optimizer.param_groups for tensor in group["params"]}
    held |= {id(value): value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)}
    resident = sum(_local(tensor).untyped_storage().nbytes() for tensor in held.values())
    with patient_waits():
        peak = resident + processes.most_allocated(step)
    return {"losses": losses, "seconds": min(times), "moved": moved.count, "resident": resident, "peak": peak}


@contextlib.contextmanager
def patient_waits() -> Iterator[None]:
    """Has those who wait for collectives by hand wait a little longer, until the threads that ran these hold nothing any more:
    what such a thread is the last to free, the profiler does not see, and would count to the end. Plans wait by themselves."""
    wait = dist.Work.wait

    def waited(*args: Any) -> Any:
        made = wait(*args)
        time.sleep(0.003)
        return made

    with mock.patch.object(dist.Work, "wait", waited):
        yield


def _local(tensor: Any) -> torch.Tensor:
    return tensor._local_tensor if isinstance(tensor, DTensor) else tensor


def worker(options: argparse.Namespace, said: str) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    for name, make in WAYS.items():
        torch.manual_seed(0)
        model = Gpt(options.layers, options.width, 512, options.length)
        tokens = torch.randint(0, 512, (options.batch, options.length))
        found = measured(make, model, tokens, options.steps)
        every: list[Any] = [None] * WORLD
        dist.all_gather_object(every, found)
        ROWS[name] = {**found, "seconds": sum(each["seconds"] for each in every), "peak": max(each["peak"] for each in every)}
        if dist.get_rank() == 0:
            Path(said).write_text(json.dumps(ROWS))
    dist.barrier()
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in {"layers": 4, "width": 256, "length": 128, "batch": 8, "steps": 5}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("said", nargs="?")
    options = parser.parse_args()
    if options.said is not None:
        return worker(options, options.said)
    words = [word for name in ("layers", "width", "length", "batch", "steps") for word in (f"--{name}", str(getattr(options, name)))]
    rows = processes.run(WORLD, str(Path(__file__)), *words, seconds=1800)
    print(f"{'':28}{'loss':>9}{'CPU s/step':>12}{'MB moved':>10}{'MB held':>9}{'MB peak':>9}{'CPU':>8}{'moved':>7}{'peak':>7}")
    for name, row in rows.items():
        amounts = "".join(f"{row[key] / 1e6:>{width}.2f}" for key, width in (("moved", 10), ("resident", 9), ("peak", 9)))
        beside = rows[BY_HAND.get(name, name)]
        shares = "".join(f"{row[key] / beside[key]:>{width}.2f}" for key, width in (("seconds", 8), ("moved", 7), ("peak", 7)))
        print(f"{name:28}{row['losses'][-1]:>9.5f}{row['seconds']:>12.3f}{amounts}{shares}")


if __name__ == "__main__":
    main()
