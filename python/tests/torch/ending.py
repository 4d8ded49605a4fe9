"""One process ends in the middle of training, and the others write what they are told. Started by `processes.py`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from failing import prepared

import meshwright as mw
from meshwright.torch import watch

# The process that ends.
FIRST = 1
PLANS: dict[str, dict[str, Any]] = {
    "sharded": {"tactics": [mw.data("data"), mw.zero3("data")], "microbatches": 1},
    "staged": {"mesh": {"data": 2}, "tactics": [mw.stages(2), mw.data("data")], "microbatches": 2},
}


def train(model: Any, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        model(torch.randn(8, 8)).backward()
        optimizer.step()
        optimizer.zero_grad()


def killed(*_: Any, **__: Any) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def broken(*_: Any, **__: Any) -> Any:
    raise torch.OutOfMemoryError("no memory is left")


def in_a_pass(model: Any, optimizer: Any, instead: Any) -> None:
    """One process comes to a product that it cannot compute, while others wait in collectives."""
    is_first = dist.get_rank() == FIRST
    with mock.patch.object(torch, "mm", instead) if is_first else contextlib.nullcontext():
        train(model, optimizer, 1000)


def between(model: Any, optimizer: Any) -> None:
    """Code of the user raises in one process, outside of any pass."""
    if dist.get_rank() == FIRST:
        raise ValueError("the loss is no number")
    train(model, optimizer, 1000)


def lives_on(model: Any, optimizer: Any) -> None:
    """One process fails and does not end, so that no connection tells of it."""
    watch.GRACE = 1.0
    try:
        in_a_pass(model, optimizer, broken)
    except torch.OutOfMemoryError:
        time.sleep(1000)


WAYS = {
    "killed": lambda *made: in_a_pass(*made, killed),
    "broken": lambda *made: in_a_pass(*made, broken),
    "between": between,
    "lives_on": lives_on,
}


def main(way: str, plan: str, folder: str) -> None:
    dist.init_process_group("gloo")
    made = prepared(**PLANS[plan])
    train(*made, 3)
    try:
        WAYS[way](*made)
    except mw.Error as error:
        Path(folder, f"{way}.{dist.get_rank()}.json").write_text(json.dumps(f"{type(error).__name__}: {error}"))
        raise


if __name__ == "__main__":
    main(*sys.argv[1:])
