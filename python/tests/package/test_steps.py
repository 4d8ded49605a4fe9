"""Planned steps compute what the original computes, with the collectives of their plans."""

import functools

import jax
import numpy as np
import pytest
from cases import CASES
from ways import collectives

import meshwright as mw

STEPS = 5
# Over the largest number of each leaf.
TOLERANCE = 1e-4
# Limits, as shares of the memory that a plan without a limit takes. What others have in memory is mostly state, which
# that plan cuts already.
TIGHT = {"gpt": 0.7, "gpt_mixed": 0.7, "gpt_scan": 0.7, "linen": 0.9, "mlp": 0.8}
# The code may be slow; compiling it takes most of the time.
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
TACTICS = {
    "data": ({"data": 8}, [mw.data("data"), mw.auto(only=[])]),
    "data and zero3": ({"data": 8}, [mw.data("data"), mw.zero3("data"), mw.auto(only=["state"])]),
    "data and megatron": ({"data": 2, "model": 4}, [mw.data("data"), mw.megatron("model"), mw.auto(only=[])]),
    "tiles, then whatever is best": ({"data": 4, "rest": 2}, [mw.tile("data", {"batch.**": 0}), mw.auto()]),
}


def more(case):
    """What is given besides state and batch."""
    return {"train": True} if "static_argnames" in case.options else {}


def run(step, case):
    state, losses = case.fresh_state(), []
    for number in range(STEPS):
        state, loss = step(state, case.batch(number), **more(case))
        losses.append(float(loss))
    return jax.tree.map(plain, state), losses


def plain(leaf):
    return np.asarray(jax.random.key_data(leaf) if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


@functools.cache
def expected(name, width=None):
    case = CASES[name]()
    options = {key: value for key, value in case.options.items() if key.startswith("static")}
    step = case.wide if width == "wide" else case.step
    return run(jax.jit(step, compiler_options=QUICK, **options), case)


def compare(name, step, case):
    (state, losses), (expected_state, expected_losses) = run(step, case), expected(name)
    assert jax.tree.structure(state) == jax.tree.structure(expected_state)
    if case.wide is not None:
        return compare_narrow(name, state, losses)
    np.testing.assert_allclose(losses, expected_losses, rtol=TOLERANCE)
    for found, one in zip(jax.tree.leaves(state), jax.tree.leaves(expected_state)):
        scale = np.abs(one).max(initial=0) or 1.0
        np.testing.assert_allclose(found / scale, one / scale, rtol=0, atol=TOLERANCE)


def compare_narrow(name, state, losses):
    """Narrow numbers are rounded differently in parts, so neither one device nor many are right: what many compute has
    to be about as near to what wide numbers give as what one computes."""
    (narrow, _), (wide, wide_losses) = expected(name), expected(name, "wide")
    np.testing.assert_allclose(losses, wide_losses, rtol=1e-2)
    assert distance(state, wide) <= 1.2 * distance(narrow, wide)


def distance(found, right):
    """Over all leaves, each as a share of its own norm."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(right))
    return np.mean([np.linalg.norm(one - other) / (np.linalg.norm(other) or 1.0) for one, other in pairs])


def compare_collectives(step):
    """What XLA compiled has the collectives that the plan wrote, each of the same kind, groups and bytes."""
    written, compiled = collectives(step)
    assert compiled == written
    return sum(written.values())


@pytest.mark.parametrize("name", CASES)
def test_automatic_plans_compute_the_same(name):
    case = CASES[name]()
    step = mw.jax.parallelize(case.step, compiler_options=QUICK, **case.options)
    compare(name, step, case)
    compare_collectives(step)


@pytest.mark.parametrize("name", TIGHT)
def test_plans_under_a_tight_limit_compute_the_same(name):
    case = CASES[name]()
    shapes = jax.eval_shape(lambda: (case.state, case.batch(0)))
    free = mw.jax.plan(case.step, *shapes, cluster="8xcpu", **case.options, **more(case))
    step = mw.jax.parallelize(case.step, compiler_options=QUICK, memory=int(free.peak_bytes * TIGHT[name]), **case.options)
    compare(name, step, case)
    assert step.plan.peak_bytes <= free.peak_bytes * TIGHT[name]
    assert compare_collectives(step)


@pytest.mark.parametrize("tactics", TACTICS)
@pytest.mark.parametrize("name", ["gpt", "mlp"])
def test_tactics_compute_the_same(name, tactics):
    case = CASES[name]()
    mesh, given = TACTICS[tactics]
    step = mw.jax.parallelize(case.step, compiler_options=QUICK, mesh=mesh, tactics=given, microbatches=1, **case.options)
    compare(name, step, case)
    assert compare_collectives(step)
    assert step.plan.mesh == list(mesh.items())
