"""Trains models for some steps on all processes, and compares with one. Started by `processes.py`."""

from __future__ import annotations

import copy
import functools
import itertools
import json
import re
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import models
import processes
import torch
import torch.distributed as dist

import meshwright as mw
from meshwright.torch.capture import arguments_of, capture, loss_of
from meshwright.torch.check import LEAST, difference
from meshwright.torch.place import local
from meshwright.torch.plan import make_plan
from meshwright.torch.rounding import rounding_alone

STEPS = 5
Optimizer = Callable[[Any], torch.optim.Optimizer]

# What plans are asked for, by name: all of four processes.
PLANS: dict[str, dict[str, Any]] = {
    "auto": {},
    "data": {"mesh": {"data": 4}, "tactics": [mw.data("data")], "microbatches": 1},
    "zero1": {"mesh": {"data": 4}, "tactics": [mw.data("data"), mw.zero1("data")], "microbatches": 1},
    "zero2": {"mesh": {"data": 4}, "tactics": [mw.data("data"), mw.zero2("data")], "microbatches": 1},
    "zero3": {"mesh": {"data": 4}, "tactics": [mw.data("data"), mw.zero3("data")], "microbatches": 1},
    "megatron": {"mesh": {"data": 2, "model": 2}, "tactics": [mw.data("data"), mw.megatron("model")], "microbatches": 1},
    "2d": {"mesh": {"data": 2, "model": 2}, "tactics": [mw.data("data"), mw.megatron("model"), mw.zero3("data")], "microbatches": 1},
    "micro": {"mesh": {"data": 2, "model": 2}, "tactics": [mw.data("data"), mw.zero2("data")], "microbatches": 2},
    "stages2": {"mesh": {"data": 2}, "tactics": [mw.stages(2), mw.data("data")], "microbatches": 4},
    "stages4": {"mesh": {"data": 1}, "tactics": [mw.stages(4)], "microbatches": 4},
    # Of which one has two processes.
    "stages3": {"stages": 3},
    # Under limits, which are shares of what the same takes without one.
    "much": {"share": 0.8},
    "less": {"share": 0.65},
    "little": {"share": 0.5},
    "remat": {"mesh": {"data": 4}, "tactics": [mw.data("data"), mw.auto(only=["remat"])], "microbatches": 1, "share": 0.9},
    # As ZeRO-3, with so many ops in slices.
    "split": {"mesh": {"data": 4}, "tactics": [mw.data("data"), mw.zero3("data")], "microbatches": 1, "slices": 3},
}
MODELS = ("gpt2", "bert", "llama", "mixtral", "t5", "vit", "resnet")
# What depends on all of a batch at once, as the norms of batches do, has no microbatches.
WHOLE = {"resnet50", "resnet", "unet"}
# Losses that depend on the loads of experts need those of a whole batch before any gradient, and do so in stages too.
WHOLE_IN_STAGES = {"mixtral"}
# Models by name and plans, which is all that is compared.
ALL = [f"{model}:{plan}" for model in MODELS for plan in PLANS if plan != "micro" or model not in WHOLE]
ALL += ["deep:remat", "unet:stages3"]
# One that is as large as people have it, of which a row takes a minute.
ALL += [f"resnet50:{plan}" for plan in ("2d", "stages2")]
# What puts sequences before batches, or channels last, on its way, what has samples along the second dimension, attends to
# another sequence, has layers at several places, products of `einsum`, or bags of embeddings.
ALL += [f"{model}:{plan}" for model in ("encoder", "lstm", "second", "convnext", "translator", "shared", "einsum", "bags") for plan in ("auto", "zero3", "micro", "stages2", "stages4")]
# Experts, and what compares samples, which has no microbatches.
ALL += [f"{model}:{plan}" for model in ("qwen_moe", "gpt_oss", "fnet") for plan in ("auto", "zero3", "micro", "stages2", "stages4")]
ALL += [f"spectrum:{plan}" for plan in ("zero3", "micro")]
ALL += [f"remembers:{plan}" for plan in ("auto", "data", "zero3")]
# Whose first stage has no backward pass, and could run ahead of the second.
ALL += [f"frozen:{plan}" for plan in ("auto", "stages2")]
ALL += [f"clip:{plan}" for plan in ("auto", "zero3", "megatron")]
# How far above the least a limit is where its share does not fit.
ROOM = 1.02


def limited(model: torch.nn.Module, batch: Any, loss_fn: Any, make: Optimizer, options: dict[str, Any]) -> dict[str, Any]:
    """Options with a limit of memory in place of the share of what a plan without one takes. The first process plans."""
    share, told = options["share"], [None]
    if dist.get_rank() == 0:
        program = capture(model, batch, loss_fn, make(model.parameters()), runs=True, batch_dim=None).program
        asked = {"memory": None, "stages": None, "tactics": None, "mesh": None, "microbatches": None, **without_share(options)}
        told = [int(make_plan(program, "4xcpu", engine="pytorch-cpu", **asked).peak_bytes * share)]
    dist.broadcast_object_list(told)
    return {**options, "memory": told[0]}


def without_share(options: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in options.items() if key != "share"}


def parallelized(model: torch.nn.Module, batch: Any, loss_fn: Any, make: Optimizer, options: dict[str, Any]) -> Any:
    """The model and optimizer of all processes, and the limit that they keep: where a share does not fit, little more than
    the least that does."""
    asked = without_share(options)
    try:
        made = mw.torch.parallelize(model, make(model.parameters()), batch, loss_fn, **asked)
    except mw.DoesNotFit as error:
        if "share" not in options:
            raise
        number, unit = re.search(r"the smallest plan found takes ([\d.]+) (\w+)", str(error)).groups()
        asked["memory"] = int(float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit] * ROOM)
        made = mw.torch.parallelize(model, make(model.parameters()), batch, loss_fn, **asked)
    return *made, asked.get("memory")


def sliced(model: torch.nn.Module, batch: Any, loss_fn: Any, make: Optimizer, options: dict[str, Any]) -> dict[str, Any]:
    """A plan in which some ops, each with the one after it, run in slices: the first that can."""
    count = options.pop("slices")
    if dist.get_rank() != 0:
        return {}
    captured = capture(model, batch, loss_fn, make(model.parameters()), runs=True, batch_dim=None)
    asked = {"memory": None, "stages": None, **options}
    plan = make_plan(captured.program, "4xcpu", engine="pytorch-cpu", **asked)
    data, splits = json.loads(plan.json), []
    for number, letter in itertools.product(range(data["model"]["ops"]), "ij"):
        part = {"slices": 2, "factors": {letter: f"{number}-{number + 1}"}}
        try:
            tried = captured.program.load(json.dumps({**data, "splits": [*splits, part]}), "plan.json")
            loops = tried.torch_source().count(" in range(")
        except mw.Error:
            continue
        if loops > len(splits):
            plan, splits = tried, [*splits, part]
        if len(splits) == count:
            break
    return {"plan": plan}


def measured(model: Any, optimizer: Any, batch: Any, step: Callable[[], Any]) -> int:
    """The most bytes of tensors in this process at a time during a step: what it holds anyway, and what PyTorch's
    allocator tells of the rest."""
    most = processes.most_allocated(step)
    held = [*model.parts().values(), *optimizer.rates]
    held += [local(value) for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value)]
    # Of a batch that every process is given whole, its part counts.
    inputs = model._inputs(model._checked(batch)).values()
    stored = {tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes() for tensor in held}
    return most + sum(stored.values()) + sum(value.numel() * value.element_size() for value in inputs)


def compare(model: torch.nn.Module, batch: Any, loss_fn: Any, make: Optimizer, options: dict[str, Any]) -> dict[str, Any]:
    """How far losses and gradients are from those of one process, at most in some steps, and parameters after these."""
    single = copy.deepcopy(model)
    own = make(single.parameters())
    for key, change in (("share", limited), ("slices", sliced)):
        if key in options:
            options = change(model, batch, loss_fn, make, options)
    started = time.monotonic()
    model, optimizer, limit = parallelized(model, batch, loss_fn, make, options)
    planned = time.monotonic() - started
    schedules = [torch.optim.lr_scheduler.StepLR(each, 2, 0.5) for each in (own, optimizer)]
    args, kwargs = arguments_of(batch)
    worst: dict[str, tuple[float, str]] = {"loss": (0.0, ""), "grads": (0.0, ""), "params": (0.0, "")}
    # Of parameters that had no gradient but roundings in every step so far, the most that the optimizer may have moved them.
    unmoved = {path: 0.0 for path, _ in single.named_parameters()}
    for step in range(STEPS):
        expected = loss_of(single(*args, **kwargs), batch, loss_fn)
        expected.backward()
        loss = model(batch)
        loss.backward()
        rows = [("loss", f"{step}", loss, expected)]
        ours = dict(model.named_parameters())
        for path, parameter in single.named_parameters():
            # In stages, a process has some of the parameters, and of one that several have the gradient is in one.
            if parameter.grad is not None and path in ours and ours[path].grad is not None:
                rows.append(("grads", f"{step}.{path}", ours[path].grad.full_tensor(), parameter.grad))
        seen: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(seen, [name for kind, name, *_ in rows if kind == "grads"])
        wanted = {f"{step}.{path}" for path, parameter in single.named_parameters() if parameter.grad is not None}
        assert wanted == set(itertools.chain(*seen)), wanted - set(itertools.chain(*seen))
        gradients = {path: parameter.grad for path, parameter in single.named_parameters() if parameter.grad is not None}
        least = rounding_alone(single, batch, loss_fn, gradients)
        unmoved = {path: most + own.param_groups[0]["lr"] for path, most in unmoved.items() if path in least}
        for each in (own, optimizer, *schedules):
            each.step()
        own.zero_grad()
        optimizer.zero_grad()
        if step == STEPS - 1:
            expected_parameters = dict(single.named_parameters())
            rows += [("params", path, ours[path].full_tensor(), expected_parameters[path]) for path in ours]
        least = unmoved | {f"{step}.{path}": largest for path, largest in least.items()}
        for kind, name, found, expected_value in rows:
            # What is no number is not near to any, and has to be told.
            assert bool(found.isfinite().all()) and bool(expected_value.isfinite().all()), (kind, name)
            worst[kind] = max(worst[kind], (difference(found.detach(), expected_value.detach(), least.get(name, LEAST)), name))

    def step() -> None:
        model(batch).backward()
        optimizer.step()
        optimizer.zero_grad()

    told = json.loads(model.plan.json or "{}")
    return {
        "worst": worst, "plan": repr(model.plan), "planned": planned, "predicted": model.plan.peak_bytes,
        "limit": limit, "recomputed": len(told.get("recomputed", [])), "slices": len(told.get("splits", [])),
        "measured": measured(model, optimizer, batch, step),
    }  # fmt: skip


def main(cases: list[str], said: str) -> None:
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for case in cases:
        name, plan, *more = case.split(":")
        torch.manual_seed(0)
        made = models.MODELS[name](8)
        options = dict(PLANS[plan])
        is_staged = plan.startswith("stages")
        if "microbatches" in options and (name in WHOLE or name in WHOLE_IN_STAGES and is_staged):
            options["microbatches"] = 1
        if more:
            options["memory"] = more[0]
        started = time.monotonic()
        try:
            # What has no gradient but roundings, such as biases of keys, an Adam with less epsilon moves anywhere.
            make = functools.partial(torch.optim.AdamW, lr=made.rate, weight_decay=0.1, eps=1e-3)
            found[case] = compare(made.model, made.batch, made.loss_fn, make, options)
        except Exception:  # noqa: BLE001
            found[case] = {"error": traceback.format_exc()}
            traceback.print_exc()
        found[case]["seconds"] = time.monotonic() - started
        every: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(every, found[case])
        if "worst" in found[case]:
            found[case]["worst"] = {kind: max(each["worst"][kind] for each in every) for kind in found[case]["worst"]}
            found[case]["measured"] = [each["measured"] for each in every]
        if dist.get_rank() == 0:
            print(case, json.dumps(found[case])[:400] if "error" not in found[case] else found[case]["error"], flush=True)
    processes.say(found, said)


if __name__ == "__main__":
    main(sys.argv[1].split(","), sys.argv[2])
