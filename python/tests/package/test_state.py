"""State lies in parts from the start, and goes from one plan to another by checkpoints."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from staged_cases import CASES

import meshwright as mw
from meshwright.jax.state import lower_init

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DATA = mw.data("data")
PLANS = {
    "in parts": dict(mesh={"data": 8}, tactics=[DATA, mw.zero3("data"), mw.auto(only=["state"])], microbatches=1),
    "on two devices": dict(mesh={"data": 2}, tactics=[DATA], microbatches=1),
    "two stages": dict(tactics=[mw.stages(2), DATA, mw.zero3("data")], microbatches=2),
    "four stages": dict(tactics=[mw.stages(4, "gpipe"), DATA], microbatches=2),
}


@functools.cache
def prepared(plan):
    case = CASES["mlp"]()
    devices = jax.devices()[:2] if plan == "on two devices" else jax.devices()
    step = mw.jax.parallelize(case.step, devices=devices, compiler_options=QUICK, **case.options, **PLANS[plan])
    return case, step.prepare(*jax.eval_shape(lambda: (case.state, case.batch(0))))


def random_state(key):
    """Like the first state of the case, from random numbers that devices make themselves."""
    leaves, tree = jax.tree.flatten(jax.eval_shape(lambda: CASES["mlp"]().state))
    keys = jax.random.split(key, len(leaves))
    return tree.unflatten([jax.random.normal(now, leaf.shape, leaf.dtype) for now, leaf in zip(keys, leaves)])


@pytest.mark.parametrize("plan", PLANS)
def test_state_is_made_where_it_lies(plan):
    _, step = prepared(plan)
    key = jax.random.key(1)
    state = step.init(random_state, key)
    assert jax.tree.map(lambda leaf: leaf.sharding, state) == step.shardings[0][0]
    jax.tree.map(lambda *pair: np.testing.assert_allclose(*pair, rtol=1e-6, atol=1e-6), state, random_state(key))
    state, loss = step(state, CASES["mlp"]().batch(0))
    assert np.isfinite(float(loss))


def test_no_device_ever_has_the_whole_state():
    """By what XLA says of the programs that make it: what comes out and what they have meanwhile."""
    _, step = prepared("in parts")
    key = jax.random.key(1)
    whole = sum(leaf.nbytes for leaf in jax.tree.leaves(random_state(key)))
    (numbers, lowered), = lower_init(random_state, [key], step.shardings[0][0])
    needs = lowered.compile().memory_analysis()
    stored = sum(
        int(np.prod(lies.shard_shape(leaf.shape))) * leaf.dtype.itemsize
        for leaf, lies in zip(jax.tree.leaves(jax.eval_shape(random_state, key)), jax.tree.leaves(step.shardings[0][0]))
    )
    assert len(numbers) == len(jax.tree.leaves(step.shardings[0][0]))
    # Beside the numbers there is a pointer to each.
    assert stored <= needs.output_size_in_bytes <= stored + 64 * len(numbers)
    assert stored < 0.2 * whole and needs.output_size_in_bytes + needs.temp_size_in_bytes < 0.5 * whole


def test_what_is_made_has_to_be_the_argument():
    _, step = prepared("in parts")
    with pytest.raises(mw.Error, match="and the step takes"):
        step.init(lambda: {"params": jnp.zeros(3)})
    with pytest.raises(mw.Error, match="none is number 5"):
        step.init(lambda: 0, argument=5)


@pytest.mark.parametrize(
    "saved, restored",
    [("in parts", "two stages"), ("two stages", "on two devices"), ("two stages", "four stages"), ("four stages", "in parts")],
)
def test_checkpoints_go_into_other_plans(tmp_path, saved, restored):
    case, first = prepared(saved)
    _, second = prepared(restored)
    state, _ = first(case.fresh_state(), case.batch(0))
    first.save(tmp_path / "state", state)
    found = second.restore(tmp_path / "state")
    assert jax.tree.map(lambda leaf: leaf.sharding, found) == second.shardings[0][0]
    jax.tree.map(np.testing.assert_array_equal, found, state)
    losses = [float(step(given, case.batch(1))[1]) for step, given in ((first, state), (second, found))]
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_keys_and_numbers_are_saved_too(tmp_path):
    def train_step(state, x):
        key, now = jax.random.split(state["key"])
        return {"w": state["w"] + jax.random.normal(now, x.shape) * x, "key": key, "count": state["count"] + 1}

    state = {"w": np.zeros(8, np.float32), "key": jax.random.key(5), "count": 3}
    step = mw.jax.parallelize(train_step, mesh={"data": 8}, tactics=[mw.tile("data", {"state.w": 0})])
    x = np.ones(8, np.float32)
    for number, given in enumerate((state, step(state, x))):
        step.prepare(state, x).save(tmp_path / str(number), given)
        found = step.restore(tmp_path / str(number))
        assert jax.tree.map(lambda leaf: leaf.sharding, found) == step.shardings[0][0]
        assert (jax.random.key_data(found["key"]) == jax.random.key_data(given["key"])).all()
        assert int(found["count"]) == int(given["count"])
        np.testing.assert_array_equal(found["w"], given["w"])
        step(found, x)


def test_batches_are_whole_or_parts():
    case, step = prepared("two stages")
    batch = case.batch(0)
    # There is one process, whose part is everything.
    assert jax.tree.map(lambda leaf, part: leaf[part].shape, batch, step.local_slices()) == jax.tree.map(np.shape, batch)
    placed = step.shard_batch(batch)
    assert jax.tree.map(lambda leaf: leaf.sharding, placed) == step.shardings[0][1]
    with pytest.raises(mw.Error, match="the part of this process"):
        step.shard_batch({name: leaf[:3] for name, leaf in batch.items()})
