"""Ways to plan a model for eight devices, and how what then runs is measured against one device and against its plan."""

import collections
import dataclasses
import functools
import re

import devices
import jax
import numpy as np
import optax
from hlo import matrix_flops
from jax.interpreters import mlir
from jaxlib.mlir import ir
from models import MODELS

import meshwright as mw
from meshwright.jax.run import program_bytes
from meshwright.jax.stage_memory import stage_bytes

STEPS = 5
# The code may be slow; compiling it takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

# Limits as shares of what a plan without a limit takes, or a little more than the least there is.
LIMITS = {"no limit": None, "much": 0.8, "less": 0.65, "little": 0.5}
# How far above the least a limit is, so that a plan can be found whose memory XLA takes a little more than foretold.
ROOM = 1.1
DATA, BOTH = {"data": 8}, {"data": 2, "model": 4}
PRESETS = {
    "data": (DATA, [mw.data("data")]),
    "zero1": (DATA, [mw.data("data"), mw.zero1("data")]),
    "zero2": (DATA, [mw.data("data"), mw.zero2("data")]),
    "zero3": (DATA, [mw.data("data"), mw.zero3("data")]),
    "megatron": (BOTH, [mw.data("data"), mw.megatron("model")]),
    "megatron and zero3": (BOTH, [mw.data("data"), mw.megatron("model"), mw.zero3("data")]),
    "sequence": (BOTH, [mw.data("data"), mw.sequence("model")]),
    "vocab": (BOTH, [mw.data("data"), mw.vocab("model")]),
    "expert": (BOTH, [mw.data("data"), mw.expert("model")]),
}
STAGES = {"2 stages": 2, "4 stages": 4}
WAYS = [*LIMITS, *PRESETS, *STAGES]
# Every node of a graph may hear of every other, so that its batch is not cut in time.
MICROBATCHES = {"graph_network": 1}
# What models have nothing for: no tokens, no experts, no pairs of products.
WITHOUT = {
    "bert": {"expert"},
    "gpt": {"expert"},
    "graph_network": {"vocab", "expert"},
    "llama": {"expert"},
    "lstm": {"expert", "megatron", "megatron and zero3"},
    "mlp": {"vocab", "expert"},
    "moe": set(),
    "resnet": {"vocab", "expert"},
    "unet": {"vocab", "expert"},
}
ALL = [(model, way) for model in MODELS for way in WAYS if way not in WITHOUT[model]]


@functools.cache
def case_of(name):
    """The model, made once: flax compiles for every operation of it."""
    return MODELS[name]()


@functools.cache
def shapes(name):
    case = case_of(name)
    return jax.eval_shape(lambda: (case.state, case.batch(0)))


@functools.cache
def free_bytes(name):
    return planned(name).peak_bytes


def planned(name, **options):
    case = case_of(name)
    return mw.jax.plan(case.step, *shapes(name), cluster="8xcpu", **case.options, **options)


@functools.cache
def limit_bytes(name, share):
    """A share of what a plan without a limit takes, or where that does not fit, a little more than the least."""
    limit = int(free_bytes(name) * share)
    try:
        planned(name, memory=int(limit / ROOM))
    except mw.DoesNotFit as error:
        number, unit = re.search(r"the smallest plan found takes ([\d.]+) (\w+)", str(error)).groups()
        least = float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit]
        assert least <= free_bytes(name), "the smallest plan takes more than one without a limit"
        limit = int(least * ROOM)
    return limit


@functools.cache
def prepared(name, way):
    if way in LIMITS:
        share = LIMITS[way]
        options = {} if share is None else {"memory": limit_bytes(name, share)}
    elif way in STAGES:
        options = {"tactics": [mw.stages(STAGES[way]), mw.data("data")], "microbatches": MICROBATCHES.get(name, 2)}
    else:
        mesh, tactics = PRESETS[way]
        options = {"mesh": mesh, "tactics": [*tactics, mw.auto(only=[])], "microbatches": 1}
    case = case_of(name)
    step = mw.jax.parallelize(case.step, compiler_options=QUICK, **case.options, **options)
    return step.prepare(*shapes(name))


@dataclasses.dataclass(frozen=True)
class Differences:
    """From one device, the largest over all steps: of losses as a share of each, of gradients and parameters as a share
    of the largest number of their leaf."""

    loss: float
    gradient: float
    parameter: float


def differences(name, way):
    first = (case_of(name).state, None)
    found, right = states(prepared(name, way), case_of(name)), expected(name)
    rows = []
    for (state, loss), (right_state, right_loss), (last, _), (right_last, _) in zip(
        found, right, [first, *found], [first, *right]
    ):
        rows.append(
            (
                abs(loss - right_loss) / abs(right_loss),
                leaf_difference(gradients(last, state), gradients(right_last, right_state)),
                leaf_difference(state["params"], right_state["params"]),
            )
        )
    return Differences(*(float(max(column)) for column in zip(*rows)))


def states(step, case):
    """State and loss after each step, as numbers."""
    state, found = case.fresh_state(), []
    for number in range(STEPS):
        state, loss = step(state, case.batch(number))
        found.append(jax.tree.map(np.asarray, (state, loss)))
    return found


@functools.cache
def expected(name):
    case = case_of(name)
    return states(jax.jit(case.step, compiler_options=QUICK), case)


def gradients(before, after):
    """The gradient of a step, by what the optimizer made of it."""
    (old, decay, share), (new, _, _) = moments(before), moments(after)
    return jax.tree.map(lambda old, new: (new - decay * old) / share, old, new)


def moments(state):
    """What an optimizer adds gradients to, and how: the last, times so much, and so much of the gradient."""
    kinds = (optax.TraceState, optax.ScaleByAdamState)
    nodes = jax.tree.leaves(state["opt"], is_leaf=lambda node: isinstance(node, kinds))
    (node,) = (node for node in nodes if isinstance(node, kinds))
    return (node.trace, 0.9, 1.0) if isinstance(node, optax.TraceState) else (node.mu, 0.9, 0.1)


def leaf_difference(found, expected):
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    largest = max(np.abs(one).max(initial=0) for _, one in pairs)
    # Gradients that are nothing but rounding are compared with the others.
    scales = (max(np.abs(one).max(initial=0), 1e-5 * largest) for _, one in pairs)
    return max(np.abs(leaf - one).max(initial=0) / scale for (leaf, one), scale in zip(pairs, scales))


def collectives(step):
    """Those that the plan wrote, and those that XLA compiled: of each its kind, groups and bytes, and how often."""
    written, compiled = collections.Counter(), collections.Counter()
    for text, program in modules(step):
        with mlir.make_ir_context():
            written += devices.written_collectives(ir.Module.parse(text))
        compiled += devices.compiled_collectives(program.as_text())
    return written, compiled


def modules(step):
    """What the plan wrote and what was compiled of it: one for all devices, or the pieces of stages."""
    if not isinstance(step.plan, mw.Pipeline):
        return [(step.plan.stablehlo, step.compiled)]
    numbers = {row[0]: number for number, row in enumerate(step.plan.pieces)}
    return [(step.plan.piece_stablehlo(numbers[name]), compiled) for name, compiled in step.compiled.items()]


def flops_share(step):
    """Operations in products that the plan foretells, over those that were compiled; of stages, where that is farthest
    from one."""
    if isinstance(step.plan, mw.Pipeline):
        of_pieces = {name: matrix_flops(compiled.as_text()) for name, compiled in step.compiled.items()}
        names = [row[0] for row in step.plan.pieces]
        lists = ([of_pieces.get(names[row[1]], 0) for row in rows if row[0] == "run"] for rows in step.plan.instructions)
        pairs = zip(step.plan.matrix_flops, map(sum, lists))
    else:
        pairs = [(step.plan.matrix_flops, matrix_flops(step.compiled.as_text()))]
    return max((foretold / compiled if compiled else 1.0 for foretold, compiled in pairs), key=lambda share: abs(share - 1))


def xla_bytes(step):
    """What a device has in memory, as XLA says; of stages, that of the fullest."""
    return stage_bytes(step.plan, step.compiled) if isinstance(step.plan, mw.Pipeline) else program_bytes(step.compiled)
