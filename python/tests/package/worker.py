"""One of several processes, each with devices of its own; `test_processes.py` starts them and reads what they say."""

import os
import sys
from pathlib import Path

DEVICES = 4
os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={DEVICES}"
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import jax
import numpy as np
import staged_cases

import meshwright as mw

STEPS = 3
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
DATA = mw.data("data")
# The model, the options of a plan, and whether stages are spread over the processes.
CASES = {
    "one mesh": ("mlp", dict(mesh={"data": 8}, tactics=[DATA, mw.zero3("data"), mw.auto(only=["state"])]), False),
    "two stages": ("mlp", dict(tactics=[mw.stages(2), DATA], microbatches=4), False),
    "four stages": ("gpt", dict(tactics=[mw.stages(4), DATA], microbatches=4), False),
    "stages over processes": ("mlp", dict(tactics=[mw.stages(2), DATA], microbatches=2), True),
    "stages of different sizes": ("gpt", dict(stages=3), False),
}


def parallelized(case, is_spread=False, **options):
    devices = np.array(jax.devices())
    devices = devices.reshape(-1, DEVICES).T.ravel() if is_spread else devices
    return mw.jax.parallelize(
        case.step, devices=list(devices), compiler_options=QUICK, **{**case.options, **options}
    )


def prepared(name, **options):
    case = staged_cases.CASES[name]()
    step = parallelized(case, **options)
    return case, step.prepare(*jax.eval_shape(lambda: (case.state, case.batch(0))))


def own_part(step, batch):
    """What a process reads that has files of its own."""
    return jax.tree.map(lambda leaf, part: leaf[part], batch, step.local_slices())


def compute(case, step):
    """Losses of some steps, and the parts of the state that are here."""
    state = step.shard(case.state)
    losses = []
    for number in range(STEPS):
        batch = case.batch(number)
        # Arrays of numpy are whole, in every process.
        state, loss = step(state, batch if number == 1 else step.shard_batch(own_part(step, batch)))
        losses.append(float(loss))
    return state, losses


def compare(name, state, losses):
    """With what this process computes alone."""
    case = staged_cases.CASES[name]()
    right, step = case.fresh_state(), jax.jit(case.step, compiler_options=QUICK)
    for number in range(STEPS):
        right, loss = step(right, case.batch(number))
        np.testing.assert_allclose(losses[number], float(loss), rtol=1e-4)
    compare_parts(state, right)


def compare_parts(state, right):
    seen = 0
    for found, one in zip(jax.tree.leaves(state), jax.tree.leaves(right)):
        scale = np.abs(one).max(initial=0) or 1.0
        for shard in found.addressable_shards:
            np.testing.assert_allclose(shard.data / scale, np.asarray(one)[shard.index] / scale, rtol=0, atol=1e-4)
            seen += 1
    assert seen


def check_case(label):
    name, options, is_spread = CASES[label]
    case, step = prepared(name, is_spread=is_spread, **options)
    compare(name, *compute(case, step))


def check_checkpoints(folder):
    """What one plan saves, on several processes, another restores: from one mesh into stages, and back."""
    name, one_mesh, _ = CASES["one mesh"]
    case, first = prepared(name, **one_mesh)
    _, second = prepared(name, **CASES["two stages"][1])
    state, _ = compute(case, first)
    right = case.fresh_state()
    for number in range(STEPS):
        right, _ = jax.jit(case.step)(right, case.batch(number))
    for number, (step, other) in enumerate([(first, second), (second, first)]):
        step.save(Path(folder) / str(number), state)
        state = other.restore(Path(folder) / str(number))
        assert jax.tree.map(lambda leaf: leaf.sharding, state) == other.shardings[0][0]
        compare_parts(state, right)


def check_init():
    """State is made where it belongs, whatever stage and process that is."""
    case, step = prepared("mlp", **CASES["two stages"][1])
    state = step.init(lambda: jax.tree.map(jax.numpy.asarray, case.state))
    compare_parts(state, case.state)


def check_disagreement():
    """Processes that were given different options are all told."""
    case = staged_cases.CASES["mlp"]()
    axis = "data" if jax.process_index() == 0 else "model"
    step = parallelized(case, mesh={axis: 8}, tactics=[mw.data(axis)], microbatches=1)
    refused = told(lambda: step.prepare(case.state, case.batch(0)))
    assert "processes have different plans" in refused and "process 1" in refused, refused


def check_failure():
    """A process without a plan says why, and the others do not wait for it."""
    case = staged_cases.CASES["mlp"]()
    memory = "1GiB" if jax.process_index() == 0 else "1KiB"
    refused = told(lambda: parallelized(case, memory=memory).prepare(case.state, case.batch(0)))
    assert ("process 1 has no plan" if jax.process_index() == 0 else "Does not fit") in refused, refused


def told(work):
    try:
        work()
    except mw.Error as error:
        return str(error)
    return "nothing"


def main():
    port, process, folder = sys.argv[1:]
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, int(process))
    checks = {label: (check_case, label) for label in CASES}
    checks["checkpoints"] = (check_checkpoints, folder)
    checks.update({"init": (check_init,), "disagreement": (check_disagreement,), "failure": (check_failure,)})
    for label, (check, *given) in checks.items():
        check(*given)
        print("passed", label, flush=True)


if __name__ == "__main__":
    main()
