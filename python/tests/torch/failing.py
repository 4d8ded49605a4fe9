"""Does what is wrong, in all processes or in one, and writes what each of them is told. Started by `processes.py`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import meshwright as mw


def mean(output: torch.Tensor) -> torch.Tensor:
    return output.square().mean()


def prepared(**options: Any) -> Any:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
    optimizer = torch.optim.AdamW(model.parameters())
    options = {"mesh": {"data": dist.get_world_size()}, "tactics": [mw.data("data")], **options}
    return mw.torch.parallelize(model, optimizer, torch.randn(8, 8), mean, **options)


def other_cluster() -> None:
    prepared(cluster="8xcpu")


def other_shape() -> None:
    """Only one process is given another batch."""
    model, _ = prepared()
    model(torch.randn(8, 8))
    model(torch.randn(4 if dist.get_rank() == 1 else 8, 8))


def other_type() -> None:
    model, _ = prepared()
    model(torch.randn(8, 8).double())


def other_model() -> None:
    model = torch.nn.Linear(8, 4 + dist.get_rank() % 2)
    mw.torch.parallelize(model, torch.optim.SGD(model.parameters(), 0.1), torch.randn(8, 8), mean)


def too_large() -> None:
    prepared(memory="100B", tactics=None, mesh=None)


def other_numbers() -> None:
    model, optimizer = prepared()
    model(torch.randn(8, 8)).backward()
    optimizer.param_groups[0]["betas"] = (0.5, 0.9)
    optimizer.step()


def one_of_other_numbers() -> None:
    """Only one process is about to update with other numbers."""
    model, optimizer = prepared()
    model(torch.randn(8, 8)).backward()
    optimizer.param_groups[0]["eps"] = 1e-3 if dist.get_rank() == 2 else 1e-8
    optimizer.step()


def other_rates() -> None:
    """Only one process has another learning rate."""
    model, optimizer = prepared()
    model(torch.randn(8, 8)).backward()
    optimizer.param_groups[0]["lr"] = 0.5 if dist.get_rank() == 1 else 0.1
    optimizer.step()


def other_batches() -> None:
    """Each process is given samples of its own."""
    model, _ = prepared()
    model(torch.full((8, 8), float(dist.get_rank())))


def frozen_later() -> None:
    model, optimizer = prepared()
    model(torch.zeros(8, 8)).backward()
    model.get_parameter("0.bias").requires_grad_(False)
    optimizer.step()


def cast_later() -> None:
    model, _ = prepared()
    model.float().to("cpu")
    model.bfloat16()


def autocast_later() -> None:
    model, _ = prepared()
    with torch.autocast("cpu", torch.bfloat16):
        model(torch.zeros(8, 8))


def inner_module() -> None:
    model, _ = prepared()
    model.get_submodule("0")(torch.randn(8, 8))


def plan_that_does_not_run() -> None:
    model = torch.nn.Linear(8, 4)
    optimizer, batch = torch.optim.SGD(model.parameters(), 0.1), torch.randn(8, 8)
    plan = mw.torch.plan(model, optimizer, batch, mean, cluster="4xcpu")
    mw.torch.parallelize(model, optimizer, batch, mean, plan=plan)


def backward_twice() -> None:
    model, _ = prepared()
    loss = model(torch.randn(8, 8))
    loss.backward(retain_graph=True)
    loss.backward()


def early_scheduler() -> None:
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    torch.optim.lr_scheduler.StepLR(optimizer, 2)
    mw.torch.parallelize(model, optimizer, torch.randn(8, 8), mean)


def other_first_step() -> None:
    model = torch.nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, dampening=0.5)
    mw.torch.parallelize(model, optimizer, torch.randn(8, 8), mean)


CASES = {each.__name__: each for each in (
    other_cluster, other_shape, other_type, other_model, too_large, other_numbers, backward_twice,
    one_of_other_numbers, early_scheduler, other_first_step, other_rates, other_batches, frozen_later, cast_later, autocast_later, inner_module, plan_that_does_not_run,
)}  # fmt: skip


def main(cases: list[str], folder: str) -> None:
    dist.init_process_group("gloo")
    for case in cases:
        try:
            CASES[case]()
            said = "nothing"
        except mw.Error as error:
            said = f"{type(error).__name__}: {error}"
        Path(folder, f"{case}.{dist.get_rank()}.json").write_text(json.dumps(said))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2])
