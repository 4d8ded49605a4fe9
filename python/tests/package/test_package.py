"""What the package promises besides the right numbers."""

import ast
import dataclasses
import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint
import pytest
from cases import CASES, gpt, mlp, numbers

import meshwright as mw
from meshwright import _core
from meshwright.jax.capture import capture, function
from meshwright.jax.cluster import cluster_of

QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
COMMAND = [sys.executable, "-c", "import sys; from meshwright._command import main; sys.exit(main())"]


def shapes(case):
    return jax.eval_shape(lambda: (case.state, case.batch(0)))


def parallelized(case, **options):
    return mw.jax.parallelize(case.step, compiler_options=QUICK, **{**case.options, **options})


def test_plans_come_from_shapes_alone():
    case = mlp()
    plan = mw.jax.plan(case.step, *shapes(case), cluster="4x8xh100", memory="40GiB", **case.options)
    assert plan.cluster == "4x8xh100" and np.prod([size for _, size in plan.mesh]) == 32
    assert plan.memory_limit == 40 << 30 and 0 < plan.peak_bytes < plan.memory_limit
    assert plan.step_seconds > 0
    assert str(plan).startswith("Fits: ")


def test_the_same_plan_as_that_of_the_command(tmp_path):
    case = mlp()
    plan = mw.jax.plan(case.step, *shapes(case), cluster="8xcpu", memory="1MiB", **case.options)
    lowered = jax.jit(case.step, keep_unused=True, **case.options).lower(*shapes(case))
    text = lowered.compiler_ir("stablehlo").operation.get_asm(print_generic_op_form=True, enable_debug_info=True)
    (tmp_path / "train_step").write_text(text)
    words = ["plan", "train_step", "--cluster", "8xcpu", "--memory", "1MiB", "--engine", "xla-cpu", "-o", "plan.json"]
    done = subprocess.run([*COMMAND, *words], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "plan.json").read_text() == plan.json

    def without_times(text):
        return [line for line in text.splitlines() if not line.startswith("Planned in")]

    assert without_times(done.stdout) == without_times(str(plan))


def test_the_command_is_installed():
    done = subprocess.run([*COMMAND, "plan", "nothing"], capture_output=True, text=True)
    assert done.returncode == 2 and "--cluster" in done.stderr
    assert subprocess.run([*COMMAND, "--version"], capture_output=True, text=True).stdout.split()[1] == mw.__version__


def test_saved_plans_are_used_again(tmp_path):
    case = mlp()
    plan = parallelized(case, memory="1MiB").prepare(*shapes(case)).plan
    plan.save(tmp_path / "plan.json")
    assert (tmp_path / "plan.json").read_text() == plan.json
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    for given in (plan, tmp_path / "plan.json", str(tmp_path / "plan.json")):
        again = parallelized(case, plan=given).prepare(*shapes(case)).plan
        assert (again.json, again.stablehlo, again.mesh) == (plan.json, plan.stablehlo, plan.mesh)
        assert (again.step_seconds, again.peak_bytes) == (plan.step_seconds, plan.peak_bytes)


def test_arguments_lie_as_the_plan_says():
    case = mlp()
    step = parallelized(case, mesh={"data": 8}, tactics=[mw.zero3("data"), mw.auto(only=["state"])], microbatches=1)
    step.prepare(*shapes(case))
    state, batch = step.shard(case.state, case.batch(0))
    weights = state["params"]["layer1"]["w"]
    assert {shard.data.size for shard in weights.addressable_shards} == {weights.size // 8}
    found = [leaf.sharding for leaf in jax.tree.leaves((state, batch))]
    assert found == jax.tree.leaves(step.shardings)
    assert jax.tree.structure(step.shard(case.state)) == jax.tree.structure(case.state)
    # State that is made in parts is never whole anywhere.
    made = jax.jit(lambda: jax.tree.map(jnp.zeros_like, case.state), out_shardings=step.shardings[0][0])()
    assert made["params"]["layer1"]["w"].sharding == weights.sharding
    state, _ = step(made, batch)
    assert state["params"]["layer1"]["w"].sharding == weights.sharding


def test_checkpoints_are_restored_into_other_plans(tmp_path):
    case = mlp()
    first = parallelized(case, mesh={"data": 8}, tactics=[mw.zero3("data")])
    second = parallelized(case, devices=jax.devices()[:2], mesh={"data": 2}, tactics=[mw.data("data")])
    state, _ = first(case.fresh_state(), case.batch(0))
    second.prepare(*shapes(case))

    def wanted(leaf, lies):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=lies)

    with orbax.checkpoint.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "state", state)
        checkpointer.wait_until_finished()
        target = jax.tree.map(wanted, shapes(case)[0], second.shardings[0][0])
        restored = checkpointer.restore(tmp_path / "state", target)
    assert len(restored["params"]["layer0"]["w"].sharding.device_set) == 2
    jax.tree.map(np.testing.assert_array_equal, restored, state)
    np.testing.assert_allclose(second(restored, case.batch(1))[1], first(state, case.batch(1))[1], rtol=1e-5)


def test_donated_arguments_are_overwritten():
    case = mlp()
    step = parallelized(case)
    state = step.prepare(*shapes(case)).shard(case.state)
    held = jax.tree.leaves(state)
    bytes_of_state = sum(leaf.addressable_shards[0].data.nbytes for leaf in held)
    step(state, case.batch(0))
    assert all(leaf.is_deleted() for leaf in held)
    assert step.compiled.memory_analysis().alias_size_in_bytes == bytes_of_state
    assert len(step.plan.aliases) == len(held)


def test_arguments_that_are_not_donated_stay():
    case = mlp()
    step = parallelized(case, donate_argnums=None)
    state = step.prepare(*shapes(case)).shard(case.state)
    first, second = (step(state, case.batch(0)) for _ in range(2))
    assert float(first[1]) == float(second[1])
    assert step.compiled.memory_analysis().alias_size_in_bytes == 0


def test_steps_without_state_are_planned_too():
    weights = {"w1": numbers(1, 64, 256), "w2": numbers(2, 256, 32)}

    def evaluate(params, batch, *, scale):
        logits = jnp.tanh(batch["x"] @ params["w1"]) @ params["w2"] * scale
        return {"right": (logits.argmax(-1) == batch["label"]).sum(), "largest": logits.max()}

    batch = {"x": numbers(3, 64, 64), "label": np.arange(64, dtype=np.int32) % 32}
    step = mw.jax.parallelize(evaluate, mesh={"data": 8}, tactics=[mw.tile("data", {"batch.**": 0})])
    found = step(weights, batch, scale=2.0)
    expected = jax.jit(evaluate)(weights, batch, scale=2.0)
    assert int(found["right"]) == int(expected["right"])
    np.testing.assert_allclose(found["largest"], expected["largest"], rtol=1e-5)
    assert step.plan.collectives["all_reduce"] >= 1


def test_other_shapes_are_planned_apart():
    step = mw.jax.parallelize(lambda w, x: (x @ w).sum(), compiler_options=QUICK)
    weights = numbers(1, 64, 64)
    for rows in (64, 24, 64):
        rest = numbers(rows, rows, 64)
        np.testing.assert_allclose(step(weights, rest), (rest @ weights).sum(), rtol=1e-4)
    assert len(step._prepared) == 2


def test_numbers_become_arrays_and_arrays_go_on_to_other_steps():
    def train(state, x):
        return {"count": state["count"] + 1, "w": state["w"] - 0.1 * x}, 3.0

    train = mw.jax.parallelize(train, mesh={"data": 8}, tactics=[mw.tile("data", {"state.w": 0})])
    evaluate = mw.jax.parallelize(lambda state: state["w"].sum() * state["count"])
    x = numbers(1, 8, 8)
    state, _ = train({"count": 0, "w": x}, x)
    state, three = train(state, x)
    assert int(state["count"]) == 2 and float(three) == 3.0 and len(train._prepared) == 1
    np.testing.assert_allclose(state["w"], 0.8 * x, rtol=1e-5)
    assert len(state["w"].sharding.device_set) == 8
    np.testing.assert_allclose(evaluate(state), 1.6 * x.sum(), rtol=1e-5)


def test_arrays_that_are_closed_over_are_constants():
    weights = jnp.asarray(numbers(1, 64, 64))
    step = mw.jax.parallelize(lambda x: (x @ weights).sum(0))
    assert mw.jax.check(step, numbers(2, 64, 64))


def test_every_call_runs_what_was_compiled_once():
    case, compiled = mlp(), []
    jax.monitoring.register_event_duration_secs_listener(lambda name, *_, **__: compiled.append(name))
    step = parallelized(case)
    state, _ = step(case.fresh_state(), case.batch(0))
    jax.block_until_ready(state)
    compiled.clear()
    for number in range(3):
        state, _ = step(state, case.batch(number))
    assert not [name for name in compiled if "compile" in name]


def test_one_device_runs_the_whole_step():
    case = mlp()
    step = parallelized(case, devices=jax.devices()[:1])
    assert mw.jax.check(step, case.state, case.batch(0))
    assert step.plan.cluster == "1xcpu"


def test_static_arguments_are_by_number_or_name():
    def power(x, exponent, shift=0):
        return sum([x] * exponent) + shift

    x = numbers(1, 8)
    step = mw.jax.parallelize(power, static_argnums=1, static_argnames="shift")
    np.testing.assert_allclose(step(x, 3), 3 * x, rtol=1e-6)
    np.testing.assert_allclose(step(x, exponent=2, shift=1), 2 * x + 1, rtol=1e-6)
    np.testing.assert_allclose(step(x, 2, 1), 2 * x + 1, rtol=1e-6)


def test_check_tells_the_same_from_something_else():
    case = mlp()
    step = parallelized(case, mesh={"data": 8}, tactics=[mw.data("data")], microbatches=1)
    held = jax.tree.map(jnp.asarray, case.state)
    same = mw.jax.check(step, held, case.batch(0))
    assert same and len(same.differences) == len(jax.tree.leaves(held)) + 1
    assert not any(leaf.is_deleted() for leaf in jax.tree.leaves(held))
    assert any(difference > 0 for _, difference in same.differences), "sums in parts are rounded differently"

    def other(state, batch):
        state, loss = case.step(state, batch)
        return state, loss * 1.001

    step.function = dataclasses.replace(step.function, call=other)
    different = mw.jax.check(step, held, case.batch(0))
    assert not different and str(different).splitlines()[1].endswith("result.1")


def planning_thread(stop, ticks):
    while not stop.is_set():
        time.sleep(0.001)
        ticks.append(None)


def captured_gpt():
    case = gpt()
    return capture(function(case.step, None, None, 0, None), shapes(case), {}, "cpu").program


def test_other_threads_run_while_planning():
    program, stop, ticks = captured_gpt(), threading.Event(), []
    thread = threading.Thread(target=planning_thread, args=(stop, ticks))
    thread.start()
    started = time.monotonic()
    program.plan("8xcpu", engine="xla-cpu")
    seconds = time.monotonic() - started
    stop.set()
    thread.join()
    # Busy machines wake threads late, but never only when planning is over.
    assert len(ticks) > seconds / 0.1


def test_planning_can_be_interrupted():
    program = captured_gpt()
    # Shells start what runs in the background with Ctrl-C ignored.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            program.plan("8x8xh100", memory="4GiB")
    finally:
        timer.join()
        signal.signal(signal.SIGINT, before)


@dataclasses.dataclass(frozen=True)
class Device:
    device_kind: str
    process_index: int = 0


@pytest.mark.parametrize(
    "devices, cluster",
    [
        ([Device("cpu")] * 8, "8xcpu"),
        ([Device("NVIDIA H100 80GB HBM3", number // 8) for number in range(16)], "2x8xh100"),
        ([Device("TPU v4")] * 4, "4xtpu-v4"),
    ],
)
def test_devices_are_found_in_the_catalog(devices, cluster):
    assert cluster_of(devices) == cluster


def test_plans_are_json():
    case = mlp()
    plan = mw.jax.plan(case.step, *shapes(case), cluster="8xcpu", **case.options)
    assert json.loads(plan.json)["results"]["peak_bytes"] == plan.peak_bytes


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", CASES)
def test_steps_are_planned_for_devices_that_are_not_here(name):
    case = CASES[name]()
    static = {"train": True} if "static_argnames" in case.options else {}
    for cluster in ("8xh100", "8xtpu-v4"):
        plan = mw.jax.plan(case.step, *shapes(case), cluster=cluster, **case.options, **static)
        assert plan.engine == "xla"


def test_stubs_tell_what_there_is():
    stub = ast.parse(Path(mw.__file__).with_name("_core.pyi").read_text())
    told = {node.name: node for node in stub.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
    there = {name for name in vars(_core) if not name.startswith("__")}
    assert set(told) == there
    for name in ("Pipeline", "Plan", "Program"):
        members = {node.name for node in told[name].body if isinstance(node, ast.FunctionDef)}
        own = {member for member in vars(getattr(_core, name)) if not member.startswith("__")}
        assert members - {"__new__"} == own
