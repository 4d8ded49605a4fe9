"""Llama."""

import jax
import jax.numpy as jnp

from .common import attention, cross_entropy, heads, linear, merged, rms_norm

EPSILON = 1e-5
SMALL = {
    "layers": 2,
    "hidden": 16,
    "heads": 4,
    "kv_heads": 2,
    "ffn": 24,
    "seq": 8,
    "vocab": 24,
    "batch": 2,
    "dtype": "f32",
    "rope_theta": 100,
}
CASES = {
    "llama": ("llama3-8b", SMALL),
    "llama_all_heads": ("llama2-7b", SMALL | {"kv_heads": 4}),
    "llama_remat": ("llama3-8b", SMALL | {"remat": "true"}),
    "llama_tied": ("llama3-8b", SMALL | {"tied": "true"}),
    "llama_wide_heads": ("llama3-8b", SMALL | {"head_width": 6}),
}


def rotated(x, theta):
    """As Hugging Face's `apply_rotary_pos_emb`, of (batch, seq, heads, width)."""
    width = x.shape[-1]
    frequencies = 1 / theta ** (jnp.arange(0, width, 2, dtype=x.dtype) / width)
    angles = jnp.outer(jnp.arange(x.shape[1], dtype=x.dtype), frequencies)
    angles = jnp.concatenate([angles, angles], axis=-1)[:, None, :]
    first, second = jnp.split(x, 2, axis=-1)
    return x * jnp.cos(angles) + jnp.concatenate([-second, first], axis=-1) * jnp.sin(angles)


def loss(settings, parameters, state, batch):
    x = parameters["embedding"][batch["tokens"]]
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        normal = rms_norm(parameters, f"{name}.norm1", x, EPSILON)
        query = heads(linear(parameters, f"{name}.attn.query", normal), settings["heads"])
        key = heads(linear(parameters, f"{name}.attn.key", normal), settings["kv_heads"])
        value = heads(linear(parameters, f"{name}.attn.value", normal), settings["kv_heads"])
        query, key = (rotated(part, settings["rope_theta"]) for part in (query, key))
        x = x + linear(parameters, f"{name}.attn.out", merged(attention(query, key, value, causal=True)))
        normal = rms_norm(parameters, f"{name}.norm2", x, EPSILON)
        gate = jax.nn.silu(linear(parameters, f"{name}.mlp.gate", normal))
        x = x + linear(parameters, f"{name}.mlp.down", gate * linear(parameters, f"{name}.mlp.up", normal))
    x = rms_norm(parameters, "norm", x, EPSILON)
    logits = linear(parameters, "head", x) if "head.weight" in parameters else x @ parameters["embedding"].T
    return cross_entropy(settings, logits, batch["targets"]), state
