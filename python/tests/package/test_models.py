"""Models of flax on eight devices compute what they compute on one, within the memory that plans say.

A row is a model and a way to plan it: without a limit, under two limits that make it smaller, or by presets. With
`LONG=1` all models are planned in all ways.
"""

import functools
import os
import re

import devices
import jax
import numpy as np
import optax
import pytest
from hlo import matrix_flops
from jax.interpreters import mlir
from jaxlib.mlir import ir
from models import MODELS

import meshwright as mw

STEPS = 5
# Of losses; of gradients and parameters over the largest number of each leaf.
TOLERANCE = 1e-4
# The code may be slow; compiling it takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

# Limits as shares of what a plan without a limit takes, or a little more than the least there is.
LIMITS = {"no limit": None, "less": 0.8, "little": 0.5}
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
# What models have nothing for: no tokens, no experts.
WITHOUT = {
    "bert": {"expert"},
    "gpt": {"expert"},
    "graph_network": {"vocab", "expert"},
    "llama": {"expert"},
    "lstm": {"expert"},
    "mlp": {"vocab", "expert"},
    "moe": set(),
    "resnet": {"vocab", "expert"},
    "unet": {"vocab", "expert"},
}
# What is not compared: how many of a convolution's products are with padding is not counted from the text of XLA.
CONVOLUTIONS = {"resnet", "unet"}
WAYS = [*LIMITS, *PRESETS]
# Every model without a limit, some with little memory, and every preset on some model.
SHORT = [(model, "no limit") for model in MODELS]
SHORT += [
    ("mlp", "little"),
    ("gpt", "little"),
    ("llama", "little"),
    ("mlp", "data"),
    ("gpt", "zero1"),
    ("llama", "zero2"),
    ("bert", "megatron"),
    ("gpt", "megatron and zero3"),
    ("resnet", "zero3"),
    ("gpt", "sequence"),
    ("llama", "vocab"),
    ("moe", "expert"),
]
LONG = [(model, way) for model in MODELS for way in WAYS if way not in WITHOUT[model]]
CASES = LONG if os.environ.get("LONG") else SHORT


@functools.cache
def shapes(name):
    case = MODELS[name]()
    return jax.eval_shape(lambda: (case.state, case.batch(0)))


@functools.cache
def free_bytes(name):
    return planned(name).peak_bytes


def planned(name, **options):
    case = MODELS[name]()
    return mw.jax.plan(case.step, *shapes(name), cluster="8xcpu", **case.options, **options)


@functools.cache
def limit_bytes(name, share):
    """A share of what a plan without a limit takes, or where that does not fit, two percent more than the least."""
    limit = int(free_bytes(name) * share)
    try:
        planned(name, memory=limit)
    except mw.DoesNotFit as error:
        number, unit = re.search(r"the smallest plan found takes ([\d.]+) (\w+)", str(error)).groups()
        limit = int(float(number) * {"B": 1, "KiB": 2**10, "MiB": 2**20}[unit] * 1.02)
        assert limit <= free_bytes(name), "the smallest plan takes more than one without a limit"
    return limit


@functools.cache
def prepared(name, way):
    if way in LIMITS:
        share = LIMITS[way]
        options = {} if share is None else {"memory": limit_bytes(name, share)}
    else:
        mesh, tactics = PRESETS[way]
        rest = mw.auto(only=["state"] if "zero" in way else [])
        options = {"mesh": mesh, "tactics": [*tactics, rest], "microbatches": 1}
    case = MODELS[name]()
    step = mw.jax.parallelize(case.step, compiler_options=QUICK, **case.options, **options)
    return step.prepare(*shapes(name))


def states(step, case):
    """State and loss after each step, as numbers."""
    state, found = case.fresh_state(), []
    for number in range(STEPS):
        state, loss = step(state, case.batch(number))
        found.append(jax.tree.map(np.asarray, (state, loss)))
    return found


@functools.cache
def expected(name):
    case = MODELS[name]()
    return states(jax.jit(case.step, compiler_options=QUICK), case)


def moments(state):
    """What an optimizer adds gradients to, and how: the last, times so much, and so much of the gradient."""
    kinds = (optax.TraceState, optax.ScaleByAdamState)
    nodes = jax.tree.leaves(state["opt"], is_leaf=lambda node: isinstance(node, kinds))
    (node,) = (node for node in nodes if isinstance(node, kinds))
    return (node.trace, 0.9, 1.0) if isinstance(node, optax.TraceState) else (node.mu, 0.9, 0.1)


def gradients(before, after):
    """The gradient of a step, by what the optimizer made of it."""
    (old, decay, share), (new, _, _) = moments(before), moments(after)
    return jax.tree.map(lambda old, new: (new - decay * old) / share, old, new)


def compare_leaves(found, expected):
    pairs = list(zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True))
    largest = max(np.abs(one).max(initial=0) for _, one in pairs)
    for found_leaf, one in pairs:
        # Gradients that are nothing but rounding are compared with the others.
        scale = max(np.abs(one).max(initial=0), 1e-5 * largest)
        np.testing.assert_allclose(found_leaf / scale, one / scale, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name, way", CASES)
def test_losses_gradients_and_parameters_are_those_of_one_device(name, way):
    case = MODELS[name]()
    found, right = states(prepared(name, way), case), expected(name)
    if "zero" in way:
        stored = jax.tree.leaves(prepared(name, way).shardings[0][0])
        assert any(any(lies.spec) for lies in stored), "nothing is cut"
    before = (case.state, None)
    for (state, loss), (right_state, right_loss), (last, _), (right_last, _) in zip(
        found, right, [before, *found], [before, *right]
    ):
        np.testing.assert_allclose(loss, right_loss, rtol=TOLERANCE)
        compare_leaves(gradients(last, state), gradients(right_last, right_state))
        compare_leaves(state["params"], right_state["params"])


@pytest.mark.parametrize("name, way", CASES)
def test_collectives_and_products_are_those_of_the_plan(name, way):
    step = prepared(name, way)
    text = step.compiled.as_text()
    with mlir.make_ir_context():
        written = devices.written_collectives(ir.Module.parse(step.plan.stablehlo))
    assert devices.compiled_collectives(text) == written
    if name not in CONVOLUTIONS:
        np.testing.assert_allclose(matrix_flops(text), step.plan.matrix_flops, rtol=0.03)


@pytest.mark.parametrize("name, way", CASES)
def test_memory_is_what_the_plan_says(name, way):
    step = prepared(name, way)
    assert step.plan.peak_bytes <= step.plan.memory_limit
    assert 0.9 <= step.plan.peak_bytes / xla_bytes(step) <= 1.1
    if LIMITS.get(way):
        # What is asked for is what XLA then allocates, as near as plans know it.
        assert xla_bytes(step) <= 1.1 * limit_bytes(name, LIMITS[way])
        assert xla_bytes(step) < xla_bytes(prepared(name, "no limit"))


def xla_bytes(step):
    found = step.compiled.memory_analysis()
    outer = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return outer + found.temp_size_in_bytes


@pytest.mark.parametrize("name", MODELS)
def test_presets_that_find_nothing_say_so(name):
    for way in WITHOUT[name]:
        with pytest.raises(mw.Error) as caught:
            prepared(name, way)
        assert re.match("no (pair|input|table|product)", str(caught.value))
