"""What is refused, with a reason and a way out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import mlp, numbers
from test_package import Device, parallelized, shapes

import meshwright as mw
from meshwright.jax.cluster import cluster_of


def refused(call, *words, kind=mw.Error):
    with pytest.raises(kind) as caught:
        call()
    for word in words:
        assert word in str(caught.value)


def square(w, x):
    return ((x @ w) ** 2).sum()


def test_too_little_memory_tells_how_much_is_missing():
    case = mlp()
    step = parallelized(case, memory="20KiB")
    refused(lambda: step.prepare(*shapes(case)), "Does not fit: ", "state.params", "hint: allow more", kind=mw.DoesNotFit)


def test_plans_for_other_programs_and_devices():
    case = mlp()
    plan = parallelized(case).prepare(*shapes(case)).plan
    state, batch = shapes(case)
    smaller = {name: jax.ShapeDtypeStruct((32, *leaf.shape[1:]), leaf.dtype) for name, leaf in batch.items()}
    step = parallelized(case, plan=plan)
    refused(lambda: step.prepare(state, smaller), "is a plan for another program", "`batch.x` is `tensor<32x64xf32>`")
    step = parallelized(case, plan=plan, devices=jax.devices()[:4])
    refused(lambda: step.prepare(state, batch), "1x8xcpu, not 1x4xcpu", "hint: plan again")


def test_files_that_are_no_plans(tmp_path):
    (tmp_path / "plan.json").write_text("{}")
    step = parallelized(mlp(), plan=tmp_path / "plan.json")
    refused(lambda: step.prepare(*shapes(mlp())), "plan.json", "so it is no plan", "hint: ")


def test_jitted_steps():
    refused(lambda: mw.jax.parallelize(jax.jit(square)), "`square` is jitted already", "hint: give the plain function")


def test_steps_that_do_more_than_compute():
    def printing(w, x):
        jax.debug.print("{}", x.sum())
        return square(w, x)

    step = mw.jax.parallelize(printing)
    refused(lambda: step(numbers(1, 8, 8), numbers(2, 8, 8)), "`printing` does more than compute", "hint: leave")


def test_devices_that_nobody_knows():
    refused(lambda: cluster_of([Device("Fancy 9000")]), "nothing is known of devices `Fancy 9000`", "`cluster=`")
    refused(lambda: cluster_of([Device("cpu"), Device("TPU v4")]), "of several kinds: `TPU v4`, `cpu`")


def test_clusters_of_other_sizes_or_names():
    refused(lambda: mw.jax.parallelize(square, cluster="4xh100"), "has 4 devices `h100`, and there are 8")
    refused(lambda: mw.jax.parallelize(square, cluster="8xh101"), "there is no device `h101`", "hint: ")


def test_tactics_that_make_no_sense():
    def prepared(*tactics, **options):
        step = mw.jax.parallelize(square, tactics=list(tactics), **options)
        return lambda: step.prepare(numbers(1, 8, 8), numbers(2, 8, 8))

    refused(prepared(mw.tile("data", {"nothing.**": 0}), mesh={"data": 8}), "no argument or result is named `nothing.**`")
    refused(prepared(mw.tile("data", {"x": "last"}), mesh={"data": 8}), "tactics:3:8", "is no dimension of `x`", "hint: ")
    refused(prepared(mw.auto(), mw.data("data"), mesh={"data": 8}), "tactic 2", "nothing comes after `auto`")
    refused(prepared(mesh={"data": 0}), "mesh")


def test_tiles_that_do_not_divide():
    def prepared(pattern, size, mesh=None):
        step = mw.jax.parallelize(square, tactics=[mw.tile("data", {pattern: 0})], mesh=mesh)
        return lambda: step.prepare(numbers(1, 8, 8), numbers(2, size, 8))

    for pattern, size in (("x", 12), ("x", 4), ("*", 12)):
        words = ("tactic 1: dimension 0 of `x` is not cut", f"its size of {size} into 8 equal parts", "hint: name only")
        refused(prepared(pattern, size, {"data": 8}), *words)
    assert prepared("*", 16, {"data": 8})().plan.mesh == [("data", 8)]
    # Where the mesh is searched for, one is found that divides, if only into one part.
    assert dict(prepared("x", 12)().plan.mesh).get("data", 1) in (1, 2, 4)


def test_memory_that_is_no_size():
    step = mw.jax.parallelize(square, memory="lots")
    refused(lambda: step.prepare(numbers(1, 8, 8), numbers(2, 8, 8)), "memory: ", "hint: ")


def test_arrays_that_lie_elsewhere():
    step = mw.jax.parallelize(square)
    w, x = numbers(1, 8, 8), numbers(2, 8, 8)
    expected = float(step(w, x))
    elsewhere = jax.device_put(w, jax.devices()[3])
    refused(lambda: step(elsewhere, x), "`w` lies as ", "hint: `step.shard`")
    assert float(step(step.shard(elsewhere), x)) == expected
    # Where nobody asked for a device, arrays are put where they belong.
    assert float(step(jnp.asarray(w), np.asarray(x))) == expected


def test_a_step_without_a_plan_says_what_to_do():
    step = mw.jax.parallelize(square)
    refused(lambda: step.plan, "no plan yet", "hint: call it")
