"""Attention as people write it in JAX: recognized as one op, computing the same."""

import json
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

BATCH, QUERIES, KEYS, HEADS, GROUPS, WIDTH, DEPTH = 2, 6, 8, 4, 2, 5, 3


def tensors(*shapes):
    random = np.random.default_rng(0)
    return [random.normal(size=shape).astype(np.float32) for shape in shapes]


def keep(*shape):
    # Every query keeps its first key, so that no row is masked out entirely.
    mask = np.random.default_rng(1).random(shape) < 0.6
    mask[..., 0] = True
    return mask


def softmax_einsum(query, key, value):
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(WIDTH)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value)


def heads_first(query, key, value):
    scores = jnp.einsum("bhqd,bhkd->bhqk", query * 0.3, key)
    return jax.nn.softmax(scores, axis=-1) @ value


def causal_tril(query, key, value):
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * 0.2
    mask = jnp.tril(jnp.ones((KEYS, KEYS), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e30), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def causal_iota(query, key, value):
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key)
    rows = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 2)
    columns = jax.lax.broadcasted_iota(jnp.int32, scores.shape, 3)
    weights = jax.nn.softmax(jnp.where(columns <= rows, scores, -jnp.inf), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value)


def plain_exponentials(query, key, value):
    scores = jnp.einsum("qd,kd->qk", query, key)
    weights = jnp.exp(scores - scores.max(axis=-1, keepdims=True))
    return (weights / weights.sum(axis=-1, keepdims=True)) @ value


def added_bias(query, key, value, bias):
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * 0.5 + bias
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value)


def library(**options):
    return lambda query, key, value, **more: jax.nn.dot_product_attention(query, key, value, **options, **more)


def masked_library(query, key, value, mask):
    return jax.nn.dot_product_attention(query, key, value, mask=mask)


def biased_library(query, key, value, bias):
    return jax.nn.dot_product_attention(query, key, value, bias=bias, is_causal=True)


WIDE = [(BATCH, QUERIES, HEADS, WIDTH), (BATCH, KEYS, HEADS, WIDTH), (BATCH, KEYS, HEADS, DEPTH)]
SQUARE = [(BATCH, KEYS, HEADS, WIDTH), (BATCH, KEYS, HEADS, WIDTH), (BATCH, KEYS, HEADS, DEPTH)]
SAME = [(BATCH, KEYS, HEADS, WIDTH)] * 3
GROUPED = [(BATCH, KEYS, HEADS, WIDTH), (BATCH, KEYS, GROUPS, WIDTH), (BATCH, KEYS, GROUPS, WIDTH)]
HEADS_FIRST = [(BATCH, HEADS, QUERIES, WIDTH), (BATCH, HEADS, KEYS, WIDTH), (BATCH, HEADS, KEYS, DEPTH)]
FLAT = [(QUERIES, WIDTH), (KEYS, WIDTH), (KEYS, DEPTH)]

CASES = {
    "softmax_einsum": (softmax_einsum, tensors(*WIDE)),
    "heads_first": (heads_first, tensors(*HEADS_FIRST)),
    "causal_tril": (causal_tril, tensors(*SQUARE)),
    "causal_iota": (causal_iota, tensors(*SQUARE)),
    "plain_exponentials": (plain_exponentials, tensors(*FLAT)),
    "added_bias": (added_bias, tensors(*WIDE, (HEADS, QUERIES, KEYS))),
    "library": (library(), tensors(*SAME)),
    "library_causal": (library(is_causal=True), tensors(*SAME)),
    "library_grouped": (library(), tensors(*GROUPED)),
    "library_grouped_causal": (library(is_causal=True), tensors(*GROUPED)),
    "library_masked": (masked_library, [*tensors(*SAME), keep(BATCH, 1, KEYS, KEYS)]),
    "library_biased": (biased_library, tensors(*SAME, (1, HEADS, KEYS, KEYS))),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_is_recognized_and_computes_the_same(meshwright, tmp_path, name):
    function, arguments = CASES[name]
    model, inputs, outputs = (tmp_path / file for file in ["model.mlir", "in.safetensors", "out.safetensors"])
    model.write_text(jax.jit(function).lower(*arguments).as_text())
    save_file({f"argument.{index}": argument for index, argument in enumerate(arguments)}, inputs)

    summary = json.loads(meshwright("inspect", model, "--json"))
    assert summary["operations"]["by_name"].get("meshwright.attention") == 1
    assert "stablehlo.exponential" not in summary["operations"]["by_name"]

    meshwright("run", model, "--inputs", inputs, "--outputs", outputs)
    expected = np.asarray(function(*arguments))
    np.testing.assert_allclose(load_file(outputs)["result.0"], expected, rtol=2e-5, atol=2e-6)


def test_probabilities_that_are_returned_keep_attention_expanded(meshwright, tmp_path):
    def function(query, key, value):
        weights = jax.nn.softmax(query @ key.T, axis=-1)
        return weights @ value, weights

    model = tmp_path / "model.mlir"
    model.write_text(jax.jit(function).lower(*tensors(*FLAT)).as_text())
    summary = json.loads(meshwright("inspect", model, "--json"))
    assert "meshwright.attention" not in summary["operations"]["by_name"]
