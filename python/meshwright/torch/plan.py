"""What is called first: `profile` for what a step costs, `plan` for how to run it on a cluster."""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from meshwright import _core
from meshwright.tactics import Tactic, to_toml
from meshwright.torch.allocate import no_new_arenas
from meshwright.torch.capture import capture
from meshwright.torch.inputs import (
    NO_TRAINED,
    BatchDim,
    Path_,
    check_model,
    check_optimizer,
    memory_text,
    read_cluster,
    read_text,
)


@dataclasses.dataclass(frozen=True)
class Profile:
    """What a step costs on one device. It prints as `meshwright profile` does."""

    text: str
    # The same as `meshwright profile --json` gives it. Its `flops` are those that are computed.
    data: dict[str, Any]
    # What PyTorch's counter counts besides.
    ungrouped_flops: int = 0

    def __str__(self) -> str:
        return self.text

    @property
    def flops(self) -> int:
        """Operations in products of matrices and convolutions, as `FlopCounterMode` counts them.

        That is what is computed, but for convolutions in groups: the counter takes the gradients of their kernels as if
        there were no groups. `data["flops"]` has what is computed.
        """
        return round(self.data["flops"]) + self.ungrouped_flops

    @property
    def saved_activation_bytes(self) -> int:
        """What the forward pass keeps for the backward pass."""
        return self.data["saved_activation_bytes"]

    @property
    def forward_backward_peak_bytes(self) -> int:
        """The most that there is at a time besides parameters, state and batch until the backward pass is over."""
        return self.data["forward_backward_peak_bytes"]

    @property
    def peak_bytes(self) -> int:
        """The most that there is at a time, with everything."""
        return self.data["peak_bytes"]


def profile(
    model: torch.nn.Module,
    batch: Any,
    loss_fn: Callable[..., Any] | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> Profile:
    """What a step costs when PyTorch runs it op by op on one device; nothing is run, and shapes are all that matters.

    Args:
      model: a module, which may lie on the device `meta`.
      batch: what it is called with: a mapping of keywords, a list of positions, or one tensor.
      loss_fn: makes the loss of the model's output, and of the batch where it takes two arguments; else the output is
        the loss, or has one.
      optimizer: made from the parameters of the model; without one, the plainest that keeps nothing is taken.
    """
    check_model(model)
    if optimizer is None:
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not trained:
            raise _core.Error(NO_TRAINED)
        optimizer = torch.optim.SGD(trained, lr=1.0)
    captured = capture(model, batch, loss_fn, optimizer, own_kernels=True)
    text, data = captured.program.profile("eager")
    return Profile(text, json.loads(data), captured.ungrouped_flops)


def plan(
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: Any,
    loss_fn: Callable[..., Any] | None = None,
    *,
    cluster: Path_,
    memory: str | int | None = None,
    mesh: str | Mapping[str, int] | None = None,
    tactics: Path_ | Iterable[Tactic] | None = None,
    microbatches: int | None = None,
    stages: int | str | None = None,
    engine: str = "pytorch",
    batch_dim: BatchDim = None,
    runs: bool = False,
) -> _core.Plan | _core.Pipeline:
    """Plans a training step for a cluster, which need not be here. Model and batch may lie on the device `meta`.

    Args:
      model, optimizer, batch, loss_fn: as `profile` takes them.
      cluster: a name such as `8x8xh100`, or a TOML file.
      memory: what a device may use, as `"70GiB"` or a number of bytes; all that it has if not given.
      mesh: axes of devices and their sizes, as `{"data": 2, "model": 4}`; searched if not given.
      tactics: what is decided already, as a list of tactics or a tactics file; the rest is planned.
      microbatches: in how many microbatches a step runs; searched if not given.
      stages: how many stages the model is cut into, or `"auto"` for as many as are fastest; one if not given.
      engine: what runs it, as `meshwright plan --engine` takes it.
      batch_dim: the dimension of inputs that samples lie along, as `1`, or by name where they differ, as `{"src": 1}`;
        found out if not given.
      runs: whether the plan is for `parallelize`, which gives gradients back and is told learning rates in every step.
    """
    described = read_cluster(cluster)
    check_optimizer(optimizer)
    dim = wanted_dim(batch_dim, tactics)
    program = capture(model, batch, loss_fn, optimizer, runs=runs, batch_dim=dim).program
    asked = {"memory": memory, "mesh": mesh, "tactics": tactics, "microbatches": microbatches, "stages": stages}
    return make_plan(program, described, engine=engine, **asked)


def make_plan(
    program: _core.Program,
    cluster: str,
    *,
    memory: str | int | None,
    mesh: str | Mapping[str, int] | None,
    tactics: Path_ | Iterable[Tactic] | None,
    microbatches: int | None,
    engine: str,
    stages: int | str | None = None,
) -> _core.Plan | _core.Pipeline:
    """A plan for a program, in the words of `plan`."""
    axes = ",".join(f"{name}={size}" for name, size in mesh.items()) if isinstance(mesh, Mapping) else mesh
    told = _tactics(tactics)
    has_stages = told is not None and _core.stage_count(told) is not None
    asked = {"memory": memory_text(memory), "mesh": axes, "tactics": told, "microbatches": microbatches, "engine": engine}
    with no_new_arenas():
        if has_stages:
            return program.pipeline(cluster, **asked)
        return program.plan(cluster, stages=None if stages is None else str(stages), **asked)


def wanted_dim(batch_dim: BatchDim, tactics: Path_ | Iterable[Tactic] | None) -> BatchDim:
    """Whoever tiles by himself counts the dimensions of inputs as they are, and none of them is moved unless he says so."""
    is_tiled = re.search(r"^\s*tile\s*=", _tactics(tactics) or "", re.MULTILINE) is not None
    return 0 if batch_dim is None and is_tiled else batch_dim


def _tactics(tactics: Path_ | Iterable[Tactic] | None) -> str | None:
    if tactics is None:
        return None
    return read_text(tactics) if isinstance(tactics, (str, os.PathLike)) else to_toml(tactics)

