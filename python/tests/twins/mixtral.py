"""Mixtral: a decoder like Llama's with gated experts in every layer."""

import jax
import jax.numpy as jnp

from .common import attention, cross_entropy, heads, linear, merged, rms_norm
from .experts import generate as generate
from .experts import mixture

SMALL = {
    "layers": 2,
    "hidden": 16,
    "heads": 4,
    "kv_heads": 2,
    "ffn": 24,
    "experts": 4,
    "expert_group": 8,
    "capacity_factor": 2.5,
    "seq": 8,
    "vocab": 24,
    "batch": 2,
    "dtype": "f32",
}
CASES = {
    "mixtral": ("mixtral-8x7b", SMALL),
    # Room for all: the published model.
    "mixtral_whole": ("mixtral-8x7b", SMALL | {"capacity_factor": 4.0, "expert_group": 16}),
    "mixtral_remat": ("mixtral-8x7b", SMALL | {"capacity_factor": 1.0, "remat": "true", "tied": "true"}),
}


def rotated(x):
    """Of (batch, seq, heads, width)."""
    width = x.shape[-1]
    speeds = 1e6 ** (-jnp.arange(0, width, 2) / width)
    turns = jnp.exp(1j * jnp.arange(x.shape[1])[:, None] * speeds)[:, None]
    turned = (x[..., : width // 2] + 1j * x[..., width // 2 :]) * turns
    return jnp.concatenate([turned.real, turned.imag], axis=-1)


def loss(settings, parameters, state, batch):
    x = parameters["embedding"][batch["tokens"]]
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        normal = rms_norm(parameters, f"{name}.norm1", x, 1e-5)
        query = rotated(heads(linear(parameters, f"{name}.attn.query", normal), settings["heads"]))
        key = rotated(heads(linear(parameters, f"{name}.attn.key", normal), settings["kv_heads"]))
        value = heads(linear(parameters, f"{name}.attn.value", normal), settings["kv_heads"])
        x = x + linear(parameters, f"{name}.attn.out", merged(attention(query, key, value, causal=True)))
        normal = rms_norm(parameters, f"{name}.norm2", x, 1e-5)

        def expert(tokens, number, name=name):
            gate = jax.nn.silu(tokens @ parameters[f"{name}.moe.gate.weight"][number])
            up = tokens @ parameters[f"{name}.moe.up.weight"][number]
            return (gate * up) @ parameters[f"{name}.moe.down.weight"][number]

        x = x + mixture(settings, parameters, f"{name}.moe", normal, expert)[0]
    x = rms_norm(parameters, "norm", x, 1e-5)
    logits = linear(parameters, "head", x) if "head.weight" in parameters else x @ parameters["embedding"].T
    return cross_entropy(settings, logits, batch["targets"]), state
