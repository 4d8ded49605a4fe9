"""Steps in stages compute what the original computes, each stage on devices of its own."""

import functools
import os

import jax
import numpy as np
import pytest
from staged_cases import CASES
from ways import collectives

import meshwright as mw

STEPS = 5
# Over the largest number of each leaf.
TOLERANCE = 1e-4
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DATA, MODEL = mw.data("data"), mw.megatron("model")
# The model, the tactics, the mesh of a stage, and the microbatches.
ROWS = [
    ("mlp", [mw.stages(2, "gpipe"), DATA], {"data": 4}, 2),
    ("mlp", [mw.stages(4, "1f1b"), DATA, mw.zero3("data")], {"data": 2}, 8),
    ("mlp", [mw.stages(8, "zero-bubble")], {"data": 1}, 4),
    ("gpt", [mw.stages(2, "1f1b"), DATA, MODEL], {"data": 2, "model": 2}, 4),
    ("gpt", [mw.stages(2, "interleaved", chunks=2), DATA], {"data": 4}, 4),
    ("gpt", [mw.stages(4, "zero-bubble"), DATA, mw.zero1("data")], {"data": 2}, 4),
    ("llama", [mw.stages(2, "zero-bubble"), MODEL], {"model": 4}, 4),
    ("llama", [mw.stages(4, "1f1b"), DATA], {"data": 2}, 8),
    ("moe", [mw.stages(2, "1f1b"), DATA, mw.expert("model")], {"data": 2, "model": 2}, 2),
    ("moe", [mw.stages(4, "gpipe"), DATA], {"data": 2}, 4),
]
# All schedules with all models, for those who have the time.
LONG = [
    (name, [mw.stages(stages, schedule, chunks=2 if schedule == "interleaved" else 1), DATA], {"data": 8 // stages}, 4)
    for name in CASES
    for stages in (2, 4)
    for schedule in ("1f1b", "gpipe", "interleaved", "zero-bubble")
]
# The model, and how many stages are planned for it.
PLANNED = [(name, stages) for name in ("gpt", "moe", "wide_resnet") for stages in (2, 4)]
# Three stages of eight devices have different numbers of them.
PLANNED += [("gpt", 3), ("mlp", 3)]
PLANNED += [(name, stages) for name in ("llama", "mlp") for stages in (2, 4)] if os.environ.get("LONG") else []
ALL = ROWS + (LONG if os.environ.get("LONG") else [])


def parallelized(case, tactics, **options):
    return mw.jax.parallelize(case.step, compiler_options=QUICK, tactics=tactics, **{**case.options, **options})


def run(step, case, steps=STEPS):
    state, losses = case.fresh_state(), []
    for number in range(steps):
        state, loss = step(state, case.batch(number))
        losses.append(float(loss))
    return state, losses


@functools.cache
def expected(name):
    case = CASES[name]()
    return run(jax.jit(case.step, compiler_options=QUICK), case)


def compare(name, state, losses):
    expected_state, expected_losses = expected(name)
    assert jax.tree.structure(state) == jax.tree.structure(expected_state)
    np.testing.assert_allclose(losses, expected_losses, rtol=TOLERANCE)
    for found, one in zip(jax.tree.leaves(state), jax.tree.leaves(expected_state)):
        scale = np.abs(one).max(initial=0) or 1.0
        np.testing.assert_allclose(found / scale, one / scale, rtol=0, atol=TOLERANCE)


def row_name(row):
    name, tactics, mesh, microbatches = row
    words = [*tactics[0].entries.values(), *mesh.items(), microbatches]
    return f"{name}-" + "-".join(str(word) for word in words)


@pytest.mark.parametrize("row", ALL, ids=row_name)
def test_stages_compute_the_same(row):
    name, tactics, mesh, microbatches = row
    case = CASES[name]()
    step = parallelized(case, tactics, mesh=mesh, microbatches=microbatches)
    compare(name, *run(step, case))
    assert step.plan.schedule == tactics[0].entries["schedule"]
    assert step.plan.microbatches == microbatches
    assert np.prod([size for _, size in step.plan.mesh], dtype=int) == np.prod(list(mesh.values()))
    written, compiled = collectives(step)
    assert compiled == written


@pytest.mark.parametrize("name, stages", PLANNED)
def test_planned_stages_compute_the_same(name, stages):
    case = CASES[name]()
    step = mw.jax.parallelize(case.step, compiler_options=QUICK, stages=stages, **case.options)
    compare(name, *run(step, case))
    assert step.plan.stage_count == stages
    sizes = [np.prod([size for _, size in mesh], dtype=int) for mesh in step.plan.meshes]
    assert sum(sizes) == 8 and (len(set(sizes)) > 1 or stages != 3)
    # The plan alone leads to the same stages.
    again = mw.jax.parallelize(case.step, compiler_options=QUICK, plan=step.plan, **case.options)
    again.prepare(*jax.eval_shape(lambda: (case.state, case.batch(0))))
    assert again.plan.text == step.plan.text


def test_stages_are_saved_and_shown(tmp_path):
    case = CASES["mlp"]()
    kinds = jax.eval_shape(lambda: (case.state, case.batch(0)))
    given = parallelized(case, [mw.stages(2), DATA], microbatches=2).prepare(*kinds).plan
    with pytest.raises(mw.Error, match="no plan that a file holds\n\nhint: keep the tactics"):
        given.save(tmp_path / "plan.json")
    assert not list(tmp_path.iterdir())
    planned = mw.jax.parallelize(case.step, stages=2, **case.options).prepare(*kinds).plan
    planned.save(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == planned.json
    for plan in (given, planned):
        plan.report(tmp_path / "plan.html")
        assert plan.cluster in (tmp_path / "plan.html").read_text()


def test_state_lies_on_the_stages_that_own_it():
    case = CASES["gpt"]()
    step = parallelized(case, [mw.stages(2), DATA], microbatches=4)
    state, batch = step.prepare(*jax.eval_shape(lambda: (case.state, case.batch(0)))).shard(case.state, case.batch(0))
    first, second = set(jax.devices()[:4]), set(jax.devices()[4:])
    layers = state["params"]["layers"]
    assert layers[0]["qkv"].devices() == first and layers[-1]["down"].devices() == second
    # Both stages need the embedding and the batch.
    assert state["params"]["embed"].devices() == batch.devices() == first | second
    held = [leaf for leaf in jax.tree.leaves(state)]
    new, loss = step(state, batch)
    assert loss.devices() == second
    assert all(leaf.is_deleted() for leaf in held), "the state was donated"
    assert not batch.is_deleted()
    assert jax.tree.map(lambda leaf: leaf.sharding, new) == step.shardings[0][0]
    # What updates the state gives its memory on.
    updates = [compiled for name, compiled in step.compiled.items() if name.startswith("update")]
    aliased = sum(compiled.memory_analysis().alias_size_in_bytes for compiled in updates)
    bytes_of_state = sum(shard.data.nbytes for leaf in jax.tree.leaves(new) for shard in leaf.addressable_shards) / 4
    assert aliased >= 0.99 * bytes_of_state


def test_arguments_that_are_not_donated_stay():
    case = CASES["mlp"]()
    step = parallelized(case, [mw.stages(2), DATA], microbatches=2, donate_argnums=None)
    state = step.prepare(*jax.eval_shape(lambda: (case.state, case.batch(0)))).shard(case.state)
    first, second = (float(step(state, case.batch(0))[1]) for _ in range(2))
    assert first == second


def test_buffers_are_dropped_when_last_read():
    """In a pipeline of many microbatches, one forward and one backward pass in turn keep activations of a few only."""
    case, live = CASES["mlp"](), {}
    for schedule in ("gpipe", "1f1b"):
        step = parallelized(case, [mw.stages(2, schedule)], mesh={"data": 1}, microbatches=16)
        step.prepare(case.state, case.batch(0))
        program = step._last().program
        most = 0

        def counted(work, memory):
            nonlocal most
            work(memory)
            most = max(most, len(memory))

        program._turns = [functools.partial(counted, work) for work in program._turns]
        step(case.fresh_state(), case.batch(0))
        live[schedule] = most
    assert live["1f1b"] < 0.6 * live["gpipe"]


def test_microbatches_are_chosen_where_none_are_given():
    case = CASES["mlp"]()
    shapes = jax.eval_shape(lambda: (case.state, case.batch(0)))
    plan = mw.jax.plan(case.step, *shapes, cluster="8xh100", tactics=[mw.stages(2), DATA], **case.options)
    others = [
        mw.jax.plan(case.step, *shapes, cluster="8xh100", tactics=[mw.stages(2), DATA], microbatches=count, **case.options)
        for count in (1, 2, 4, 8)
    ]
    assert plan.step_seconds <= min(other.step_seconds for other in others)
    assert str(plan).startswith("Fits: ") and plan.mesh == [("data", 4)]


def test_keys_and_numbers_go_through_stages():
    def train_step(state, batch, rate):
        key, now = jax.random.split(state["key"])

        def loss(params):
            x = batch
            for layer in params:
                x = x + jax.numpy.sin(jax.numpy.tanh(x @ layer) @ layer)
            return (x**2).mean() + 0 * jax.random.normal(now)

        value, gradients = jax.value_and_grad(loss)(state["params"])
        params = jax.tree.map(lambda leaf, gradient: leaf - rate * gradient, state["params"], gradients)
        return {"params": params, "key": key, "count": state["count"] + 1}, {"loss": value}

    params = [np.eye(16, dtype=np.float32) for _ in range(4)]
    state = {"params": params, "key": jax.random.key(3), "count": 0}
    step = mw.jax.parallelize(train_step, tactics=[mw.stages(2), DATA], microbatches=2, compiler_options=QUICK)
    x = np.ones((8, 16), np.float32)
    found, expected = state, state
    for _ in range(2):
        found, told = step(found, x, 0.5)
        expected, right = jax.jit(train_step)(expected, x, 0.5)
        np.testing.assert_allclose(told["loss"], right["loss"], rtol=1e-5)
    assert int(found["count"]) == 2
    assert (jax.random.key_data(found["key"]) == jax.random.key_data(expected["key"])).all()


def scoped_step(params, batch):
    def loss(params):
        x = batch
        for number, layer in enumerate(params):
            with jax.named_scope(f"layers.{number}"):
                x = x + jax.numpy.sin(jax.numpy.tanh(x @ layer) @ layer)
        return (x**2).mean()

    value, gradients = jax.value_and_grad(loss)(params)
    return jax.tree.map(lambda leaf, gradient: leaf - 0.1 * gradient, params, gradients), value


def test_norms_of_gradients_may_be_given_back():
    """What a step tells besides its loss does not hide where the backward pass begins."""

    def told_step(params, batch):
        def loss(params):
            x = batch
            for layer in params:
                x = x + jax.numpy.tanh(x @ layer)
            return (x**2).mean()

        value, gradients = jax.value_and_grad(loss)(params)
        norm = jax.numpy.sqrt(sum((gradient**2).sum() for gradient in gradients))
        params = [leaf - 0.1 * gradient for leaf, gradient in zip(params, gradients)]
        return params, {"loss": value, "norm": norm, "norms": [(leaf**2).sum() for leaf in gradients]}

    step = mw.jax.parallelize(told_step, tactics=[mw.stages(2), DATA], microbatches=2, compiler_options=QUICK)
    assert mw.jax.check(step, [np.eye(16, dtype=np.float32)] * 4, np.ones((8, 16), np.float32))


def test_stages_are_what_scopes_say():
    stages = mw.stages(["layers.0", ["layers.1", "layers.2", "layers.3"]])
    step = mw.jax.parallelize(scoped_step, tactics=[stages, DATA], microbatches=2, compiler_options=QUICK)
    params = [np.eye(16, dtype=np.float32)] * 4
    assert mw.jax.check(step, params, np.ones((8, 16), np.float32))
    first, second = set(jax.devices()[:4]), set(jax.devices()[4:])
    assert [lies.device_set for lies in step.shardings[0][0]] == [first, second, second, second]


def test_stages_come_from_files_too(tmp_path):
    text = '[[tactic]]\nremat = ["layers.*"]\n\n[[tactic]]\nstages = 2\n\n[[tactic]]\naxis = "data"\npreset = "data"\n'
    (tmp_path / "stages.toml").write_text(text)
    plain, again = (
        mw.jax.parallelize(scoped_step, tactics=tactics, microbatches=2, compiler_options=QUICK)
        for tactics in ([mw.stages(2), DATA], tmp_path / "stages.toml")
    )
    params = [np.eye(16, dtype=np.float32)] * 4
    for step in (plain, again):
        assert mw.jax.check(step, params, np.ones((8, 16), np.float32))
    # What is computed again stands behind a barrier.
    texts = ["".join(map(step.plan.piece_stablehlo, range(len(step.plan.pieces)))) for step in (plain, again)]
    assert ["optimization_barrier" in text for text in texts] == [False, True]


REFUSALS = [
    (dict(tactics=[mw.stages(3), DATA]), "8 devices are not 3 stages"),
    (dict(tactics=[mw.stages(2), DATA, MODEL]), "several axes, and there is no mesh"),
    (dict(tactics=[mw.stages(2), DATA], mesh={"data": 8}), "the mesh has 16 devices"),
    (dict(tactics=[mw.stages(2, "interleaved", chunks=2), DATA], microbatches=3), "a multiple of 2 microbatches"),
    (dict(tactics=[mw.stages(2), DATA], memory="10KiB"), "Does not fit: stage"),
    (dict(tactics=[mw.stages(2), DATA], microbatches=7), "micro"),
    (dict(tactics=[mw.stages(2), DATA], mesh="data=4,m=2@time", microbatches=4), "`m` has 2 microbatches already"),
]


@pytest.mark.parametrize("options, reason", REFUSALS, ids=[reason for _, reason in REFUSALS])
def test_what_does_not_go_is_told(options, reason):
    case = CASES["mlp"]()
    with pytest.raises(mw.Error, match=reason):
        parallelized(case, **options).prepare(case.state, case.batch(0))
