"""The command beside JAX: what it evaluates and what it prints."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.interpreters import mlir
from jaxlib.mlir import ir
from safetensors.numpy import load_file, save_file


def step(parameters, batch):
    def loss(parameters):
        hidden = jnp.tanh(batch @ parameters["first"])
        return jnp.mean((hidden @ parameters["second"]) ** 2)

    value, gradients = jax.value_and_grad(loss)(parameters)
    return jax.tree.map(lambda old, gradient: old - 0.1 * gradient, parameters, gradients), value


def arguments():
    random = np.random.default_rng(0)
    first, second, batch = (random.normal(size=size).astype(np.float32) for size in [(8, 16), (16, 4), (32, 8)])
    return {"first": first, "second": second}, batch


def test_run_computes_what_jax_computes(meshwright, tmp_path):
    model, inputs, outputs = (tmp_path / name for name in ["step.mlir", "in.safetensors", "out.safetensors"])
    model.write_text(jax.jit(step).lower(*arguments()).as_text())
    leaves = jax.tree.leaves(arguments())
    save_file({f"argument.{index}": leaf for index, leaf in enumerate(leaves)}, inputs)

    report = json.loads(meshwright("run", model, "--inputs", inputs, "--outputs", outputs, "--json"))
    found = load_file(outputs)
    expected = jax.tree.leaves(jax.jit(step)(*arguments()))
    assert len(report["results"]) == len(expected)
    for result, value in zip(report["results"], expected):
        np.testing.assert_allclose(found[result["name"]], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["gpt", "gpt_flax", "gpt_scan", "llama_bf16", "unet"])
def test_print_is_text_that_jaxlib_reads(meshwright, samples, name):
    text = meshwright("print", samples / f"{name}.mlir.gz")
    assert ir.Module.parse(text, mlir.make_ir_context()).operation.verify()


def test_profile_counts_what_jax_counts(meshwright, tmp_path):
    model = tmp_path / "step.mlir"
    lowered = jax.jit(step).lower(*arguments())
    model.write_text(lowered.as_text())

    found = json.loads(meshwright("profile", model, "--json"))
    leaves = jax.tree.leaves(arguments())
    results = jax.tree.leaves(jax.eval_shape(step, *arguments()))
    assert found["argument_bytes"] == sum(leaf.nbytes for leaf in leaves)
    assert found["output_bytes"] == sum(result.size * result.dtype.itemsize for result in results)
    assert found["parameter_bytes"] == sum(leaf.nbytes for leaf in leaves[:2])
    assert found["peak_bytes"] >= found["argument_bytes"] + found["temp_bytes"]
    assert found["flops"] == pytest.approx(lowered.compile().cost_analysis()["flops"], rel=0.02)
