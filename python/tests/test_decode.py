"""Decoding with caches beside plain JAX that computes every prefix from its start."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_models import BuiltIn, assert_close, generate, part
from twins.common import attention, joint_heads, layer_norm, linear, merged

SETTINGS = {
    "layers": 2,
    "hidden": 16,
    "heads": 4,
    "ffn": 32,
    "seq": 9,
    "steps": 7,
    "vocab": 24,
    "batch": 3,
    "dtype": "f32",
}


def logits_and_caches(settings, parameters, tokens):
    """Of (batch, seq) tokens: the logits of the last, and keys and values of all by layer."""
    x = parameters["embedding"][tokens]
    caches = {}
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        normal = layer_norm(parameters, f"{name}.norm1", x)
        query, key, value = joint_heads(parameters, f"{name}.attn.qkv", normal, settings["heads"])
        caches[f"{name}.key"], caches[f"{name}.value"] = key, value
        x = x + linear(parameters, f"{name}.attn.out", merged(attention(query, key, value, causal=True)))
        up = linear(parameters, f"{name}.mlp.up", layer_norm(parameters, f"{name}.norm2", x))
        x = x + linear(parameters, f"{name}.mlp.down", jax.nn.gelu(up, approximate=True))
    x = layer_norm(parameters, "norm", x)[:, -1]
    return (linear(parameters, "head", x) if "head.weight" in parameters else x @ parameters["embedding"].T), caches


@pytest.mark.parametrize("tied", ["false", "true"])
def test_tokens_and_caches_are_those_of_jax(meshwright, tmp_path, tied):
    settings = SETTINGS | {"tied": tied}
    built_in = BuiltIn(meshwright, tmp_path, "it32", settings)
    values = generate(built_in, None, settings)
    found = built_in.run(values)
    with jax.enable_x64(True):
        parameters = {name: value.astype(np.float64) for name, value in part(values, "params.").items()}
        tokens = values["batch.tokens"]
        for _ in range(settings["steps"]):
            logits, caches = logits_and_caches(settings, parameters, tokens)
            best = np.sort(logits, axis=-1)
            assert (best[:, -1] - best[:, -2]).min() > 1e-4, "the largest logit is not clear"
            tokens = np.concatenate([tokens, logits.argmax(axis=-1)[:, None]], axis=1)
    made = tokens[:, 1:]
    assert len(np.unique(made)) > 1
    np.testing.assert_array_equal(found["tokens"], made)
    assert {name for name in found if name != "tokens"} == {f"cache.{name}" for name in caches}
    for name, cache in caches.items():
        room = ((0, 0), (0, 0), (0, settings["seq"] - settings["steps"]), (0, 0))
        assert_close(found[f"cache.{name}"], np.pad(cache.transpose(0, 2, 1, 3), room), name)


def test_the_number_of_steps_is_known(meshwright):
    summary = json.loads(meshwright("inspect", "it32", "--json"))
    assert [loop["trips"] for loop in summary["loops"]] == [1536]
