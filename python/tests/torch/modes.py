"""Dropout, evaluation, optimizers and compilation on several processes. Started by `processes.py`."""

from __future__ import annotations

import collections
import contextlib
import copy
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import processes
import torch
import torch.distributed as dist
from optimizers import OPTIMIZERS
from storing import SHARDED, SQUARE, mean, network, prepared, train
from torch.distributed.device_mesh import init_device_mesh
from train import measured

import meshwright as mw
from meshwright.torch import collectives, outbox, stages
from meshwright.torch.check import difference

STAGED = {"mesh": {"data": 2}, "tactics": [mw.stages(2), mw.data("data")], "microbatches": 2}
BATCH = torch.ones(8, 8)


def noisy() -> torch.nn.Sequential:
    """Inner activations weigh more than parameters, so that less memory means to compute some of them again."""
    inner = [layer for _ in range(3) for layer in (torch.nn.Linear(16, 16), torch.nn.Dropout(0.5), torch.nn.Tanh())]
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(0.3), *inner, torch.nn.Linear(16, 8))


def drawn() -> dict[str, Any]:
    """Losses with dropout under plans, and by one and the same batch as often."""
    found: dict[str, Any] = {}
    for name, options in {"sharded": SHARDED, "square": SQUARE, "staged": STAGED}.items():
        torch.manual_seed(0)
        model = noisy()
        made = mw.torch.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1), BATCH, mean, **options)
        found[name] = train(*made, 4)
    with torch.no_grad():
        found["again"] = [float(made[0](BATCH)) for _ in range(3)]
    return found


def share() -> float:
    """The mean of ones after dropout, which is that of ones."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 512), torch.nn.Dropout(0.5))
    with torch.no_grad():
        model[0].weight.zero_()
        model[0].bias.fill_(1.0)
    made, _ = mw.torch.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1), BATCH, lambda output: output.mean(), **SHARDED)
    return float(made(BATCH).detach())


def evaluated() -> dict[str, Any]:
    torch.manual_seed(0)
    model = noisy().eval()
    expected = float(mean(model(BATCH)).detach())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    made, _ = mw.torch.parallelize(model, optimizer, BATCH, mean, **SHARDED)
    with torch.inference_mode():
        found = float(made(BATCH))
    try:
        made.train()(BATCH)
        told = "nothing"
    except mw.Error as error:
        told = str(error)
    plain, _ = prepared(0, SHARDED)
    with torch.no_grad():
        both = [float(plain.train(mode)(BATCH)) for mode in (True, False)]
    return {"expected": expected, "found": found, "told": told, "both": both}


def clipped() -> dict[str, list[float]]:
    """The norms of gradients before they were clipped, and the losses with what came of them."""
    found = {}
    for name, options in {"sharded": SHARDED, "staged": STAGED}.items():
        model, optimizer = prepared(0, options)
        rows = []
        for kind in (2.0, 1.0, float("inf")):
            loss = model(BATCH)
            loss.backward()
            rows += [float(model.clip_grad_norm_(0.01, kind)), float(loss.detach())]
            optimizer.step()
            optimizer.zero_grad()
        found[name] = rows
    torch.manual_seed(0)
    single = network()
    mean(single(BATCH)).backward()
    found["first"] = [float(torch.nn.utils.clip_grad_norm_(single.parameters(), 0.01))]
    return found


def updated() -> dict[str, float]:
    """How far parameters are from those of one process after some steps of each optimizer, with a scheduler. Optimizers that
    divide by how large gradients are make much of roundings, so numbers are of 64 bits."""
    found, batch = {}, BATCH.double()
    for name, make in OPTIMIZERS.items():
        ways = []
        for options in (None, STAGED, SHARDED):
            torch.manual_seed(0)
            model = network().double()
            made = (model, make(model.parameters()))
            if options is not None:
                made = mw.torch.parallelize(*made, batch, mean, **options)
            schedule = torch.optim.lr_scheduler.ExponentialLR(made[1], 0.5)
            for _ in range(3):
                output = made[0](batch)
                (mean(output) if options is None else output).backward()
                made[1].step()
                made[1].zero_grad()
                schedule.step()
            ways.append(dict(made[0].named_parameters()))
        expected = ways[0]
        rows = [(value.full_tensor(), expected[path]) for way in ways[1:] for path, value in way.items()]
        found[name] = max(difference(value.detach(), other.detach()) for value, other in rows)
    return found


def turned() -> float:
    """How far matrices in stages are from those without after some steps of Muon, which updates tall ones turned. It computes in
    16 bits, and not as exactly as PyTorch's own; of numbers of 64 bits it makes the same ones, however sums were added up."""
    whole, ways = {"mesh": {"data": 4}, "tactics": [mw.data("data")], "microbatches": 1}, []
    for options in (whole, STAGED):
        torch.manual_seed(0)
        layers = [module for sizes in ((8, 16), (16, 8)) for module in (torch.nn.Linear(*sizes, bias=False), torch.nn.Tanh())]
        model, batch = torch.nn.Sequential(*layers).double(), torch.randn(8, 8).double()
        made = mw.torch.parallelize(model, torch.optim.Muon(model.parameters(), lr=0.1), batch, mean, **options)
        for _ in range(3):
            made[0](batch).backward()
            made[1].step()
            made[1].zero_grad()
        ways.append({path: value.full_tensor().detach() for path, value in made[0].named_parameters()})
    expected, found = ways
    return max(difference(value, expected[path]) for path, value in found.items())


def averaged() -> dict[str, Any]:
    """How far the average of a model over some steps is from that of one process, and the losses of both."""
    torch.manual_seed(0)
    single = network()
    model, own = copy.deepcopy(single), torch.optim.SGD(single.parameters(), lr=0.1)
    model, optimizer = mw.torch.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1), BATCH, mean, **SHARDED)
    kind = torch.optim.swa_utils.get_ema_multi_avg_fn(0.5)
    average, expected = (torch.optim.swa_utils.AveragedModel(each, multi_avg_fn=kind) for each in (model, single))
    for _ in range(3):
        model(BATCH).backward()
        mean(single(BATCH)).backward()
        for each, kept, now in ((optimizer, average, model), (own, expected, single)):
            each.step()
            each.zero_grad()
            kept.update_parameters(now)
    rows = zip(average.module.parameters(), expected.module.parameters())
    off = max(difference(found.full_tensor().detach(), other.detach()) for found, other in rows)
    return {"off": off, "found": float(average(BATCH).detach()), "expected": float(mean(expected(BATCH)).detach())}


def updating() -> float:
    """The memory of a step in stages, beside what was foretold, whose update takes more of it than its passes."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.Tanh(), torch.nn.Linear(64, 64), torch.nn.Linear(64, 8))
    made, optimizer = mw.torch.parallelize(model, torch.optim.Adamax(model.parameters(), lr=0.1), BATCH, mean, **STAGED)

    def step() -> None:
        made(BATCH).backward()
        optimizer.step()
        optimizer.zero_grad()

    step()
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, measured(made, optimizer, BATCH, step))
    return max(every) / made.plan.peak_bytes


def mapped() -> dict[str, float]:
    """Losses of batches that are mappings of a kind that PyTorch does not know, of which the loss reads an attribute."""

    class Given(collections.UserDict):
        @property
        def label(self) -> torch.Tensor:
            return self.data["inner"]["label"]

    def loss(output: torch.Tensor, batch: Given) -> torch.Tensor:
        return (output - batch.label).square().mean()

    class Inner(torch.nn.Linear):
        def forward(self, input: torch.Tensor, inner: Any) -> torch.Tensor:
            return super().forward(input)

    torch.manual_seed(0)
    model = Inner(8, 4)
    first, second = (Given(input=BATCH * by, inner=collections.UserDict(label=BATCH[:, :4] * by)) for by in (1.0, 3.0))
    expected = float(loss(model(**second), second).detach())
    made, _ = mw.torch.parallelize(model, torch.optim.SGD(model.parameters(), lr=0.1), first, loss, **SHARDED)
    return {"found": float(made(second).detach()), "expected": expected}


def planned_before() -> dict[str, Any]:
    """Losses of plans that were made before, with and without stages, as they are and as files."""
    found = []
    torch.manual_seed(0)
    whole = network()
    for stages, is_file in ((None, False), (None, True), (2, False), (2, True)):
        model = copy.deepcopy(whole)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        plan = mw.torch.plan(model, optimizer, BATCH, mean, cluster="4xcpu", stages=stages, engine="pytorch-cpu", runs=True)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "plan.json")
            plan.save(file)
            made = mw.torch.parallelize(model, optimizer, BATCH, mean, plan=file if is_file else plan)
        found += train(*made, 2)
    return {"found": found, "expected": train(*prepared(0, SHARDED), 2) * 4}


def compiled() -> dict[str, Any]:
    options = {"mesh": {"data": 2}, "tactics": [mw.data("data"), mw.zero3("data")], "microbatches": 1}
    losses = [train(*prepared(0, {**options, "compile": flag}), 3) for flag in (False, True)]
    torch._inductor.config.force_disable_caches = True
    torch._inductor.config.cpp.cxx = ("/nowhere/c++",)
    torch._dynamo.reset()
    try:
        prepared(0, {**options, "compile": True})
        told = "nothing"
    except mw.Error as error:
        told = str(error)
    return {"losses": losses, "told": told}


def freed() -> int:
    """What the profiler takes to be still there, in any of the processes, after collectives of tensors that nobody holds."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    group = collectives.make_groups([[list(range(dist.get_world_size()))]], mesh)[0]

    def work() -> None:
        for _ in range(30):
            collectives.all_to_all(torch.ones(64, 64), 0, 1, group)
            collectives.all_gather(torch.ones(64, 64).mT, 1, group)
            collectives.all_gathers([torch.ones(64, 64).mT, torch.ones(8)], [0, 0], group)
            collectives.reduce_scatter(torch.ones(64, 64), "sum", 1, group)
            collectives.all_reduces([torch.ones(64, 64), torch.ones(8)], "sum", group)

    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, processes.allocated(work)[-1])
    return max(every)


def waited() -> int:
    """How many of a hundred collectives of several tensors wait for as long as they may, at most in a process."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    group = collectives.make_groups([[list(range(dist.get_world_size()))]], mesh)[0]
    sleep, pauses = time.sleep, []
    with mock.patch.object(time, "sleep", lambda seconds: (pauses.append(seconds), sleep(seconds))):
        for _ in range(50):
            collectives.all_gathers([torch.ones(64, 64), torch.ones(8)], [0, 0], group)
            collectives.all_reduces([torch.ones(64, 64), torch.ones(8)], "sum", group)
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, sum(2 * seconds > collectives._MOST_SECONDS for seconds in pauses))
    return max(every)


def told() -> list[float]:
    """What the first of a group tells the others, of every process: groups of two, the later one first."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    pairs = [[first + 1, first] for first in range(0, dist.get_world_size(), 2)]
    group = collectives.make_groups([pairs], mesh)[0]
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, float(collectives.broadcast(torch.tensor(float(dist.get_rank())), group)))
    return every


def by_lanes() -> dict[str, Any]:
    """Losses in stages, and by groups and tags of messages as they are: Gloo as if it were NCCL, which knows no tags, and has
    one queue for both directions between two processes of a group."""
    found: dict[str, Any] = {"gloo": train(*prepared(0, STAGED), 3)}
    ways: set[tuple[Any, int, int]] = set()
    rank, sends, receives = dist.get_rank(), dist.isend, dist.recv

    def send(value: torch.Tensor, receiver: int, group: Any, tag: int) -> Any:
        ways.add((group.group_name, rank, receiver))
        return sends(value, receiver, group=group)

    def receive(value: torch.Tensor, sender: int, group: Any, tag: int) -> Any:
        ways.add((group.group_name, sender, rank))
        return receives(value, sender, group=group)

    with contextlib.ExitStack() as stack:
        for module in (stages, outbox):
            stack.enter_context(mock.patch.object(module, "is_gloo", lambda kind: False))
        stack.enter_context(mock.patch.object(dist, "isend", send))
        stack.enter_context(mock.patch.object(dist, "recv", receive))
        found["lanes"] = train(*prepared(0, STAGED), 3)
    found["ways"] = len(ways)
    found["both"] = [way for way in ways if (way[0], way[2], way[1]) in ways]
    return found


WORK = {
    "waited": waited, "told": told, "by_lanes": by_lanes,
    "drawn": drawn, "share": share, "evaluated": evaluated, "clipped": clipped, "updated": updated, "turned": turned, "freed": freed,
    "averaged": averaged, "updating": updating, "mapped": mapped, "planned_before": planned_before,
    "compiled": compiled,
}  # fmt: skip


def main(names: list[str], said: str) -> None:
    # As users do, who leave it to PyTorch what carries collectives.
    dist.init_process_group()
    torch.set_num_threads(1)
    found = {name: WORK[name]() for name in names}
    processes.say(found, said)


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2])
