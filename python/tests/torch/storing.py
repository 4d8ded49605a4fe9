"""Saves under one plan and goes on under another, initialises models that lie nowhere, and loads whole tensors. Started by
`processes.py`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import models
import processes
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import meshwright as mw

SHARDED = {"mesh": {"data": 4}, "tactics": [mw.data("data"), mw.zero3("data")], "microbatches": 1}
SQUARE = {"mesh": {"data": 2, "model": 2}, "tactics": [mw.data("data"), mw.megatron("model")], "microbatches": 1}


def mean(output: torch.Tensor) -> torch.Tensor:
    return output.square().mean()


def network() -> torch.nn.Sequential:
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8), torch.nn.LayerNorm(8))


def prepared(seed: int, options: dict[str, Any], device: str = "cpu") -> Any:
    torch.manual_seed(seed)
    with torch.device(device):
        model = network()
    batch = torch.ones(8, 8)
    return mw.torch.parallelize(model, torch.optim.AdamW(model.parameters(), lr=0.1), batch, mean, **options)


def train(model: Any, optimizer: Any, steps: int) -> list[float]:
    generator = torch.Generator().manual_seed(7)
    losses = []
    for _ in range(steps):
        loss = model(torch.randn(8, 8, generator=generator))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(float(loss))
    return losses


def checkpoint(folder: str) -> dict[str, Any]:
    model, optimizer = prepared(0, SHARDED)
    train(model, optimizer, 3)
    of_model, of_optimizer = get_state_dict(model, optimizer)
    dcp.save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder)
    expected = train(model, optimizer, 3)
    other, other_optimizer = prepared(1, SQUARE)
    before = train(other, other_optimizer, 1)
    of_model, of_optimizer = get_state_dict(other, other_optimizer)
    state = {"model": of_model, "optimizer": of_optimizer}
    dcp.load(state, checkpoint_id=folder)
    set_state_dict(other, other_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    return {"expected": expected, "before": before, "found": train(other, other_optimizer, 3)}


def unmade() -> dict[str, Any]:
    """A model on `meta` begins as one that was made whole in the first process; each process has its parts."""
    model, _ = prepared(3 + dist.get_rank(), SHARDED, "meta")
    torch.manual_seed(3)
    whole = dict(network().named_parameters())
    off = max(float((parameter.full_tensor() - whole[path]).abs().max()) for path, parameter in model.named_parameters())
    parts = {path: list(parameter._local_tensor.shape) for path, parameter in model.named_parameters()}
    # A bias of eight is in no parts where several processes hold the same.
    held = [parameter.full_tensor() for parameter in prepared(3 + dist.get_rank(), SQUARE, "meta")[0].parameters()]
    everywhere: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everywhere, [tensor.detach() for tensor in held])
    alike = all(torch.equal(*pair) for other in everywhere for pair in zip(held, other))
    return {"off": off, "parts": parts, "alike": alike}


def loaded() -> dict[str, Any]:
    torch.manual_seed(5)
    whole = network().state_dict()
    model, _ = prepared(6, SQUARE)
    model.load_state_dict(whole)
    off = max(float((parameter.full_tensor() - whole[path]).abs().max()) for path, parameter in model.named_parameters())
    try:
        model.load_state_dict({**whole, "other": torch.zeros(1)})
        told = "nothing"
    except mw.Error as error:
        told = str(error)
    return {"off": off, "told": told}


def loaded_in_stages() -> dict[str, float]:
    """A file that has a tied tensor once, loaded by every stage as it is: the loss, and that of one process."""
    torch.manual_seed(8)
    case, other = (models.shared(8) for _ in range(2))
    whole = case.model.state_dict()
    del whole["head.weight"]
    options = {"mesh": {"data": 2}, "tactics": [mw.stages(2), mw.data("data")], "microbatches": 2}
    model, _ = mw.torch.parallelize(other.model, torch.optim.AdamW(other.model.parameters()), case.batch, **options)
    before = float(model(case.batch).detach())
    model.load_state_dict(whole)
    return {"before": before, "found": float(model(case.batch).detach()), "expected": float(case.model(case.batch).detach())}


def main(said: str) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    folder = [tempfile.mkdtemp(dir=Path(said).parent) if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(folder)
    found = {"checkpoint": checkpoint(folder[0]), "unmade": unmade(), "loaded": loaded()}
    found["loaded_in_stages"] = loaded_in_stages()
    processes.say(found, said)


if __name__ == "__main__":
    main(sys.argv[1])
