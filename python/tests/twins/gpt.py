"""GPT, and the transformer of PartIR's experiments."""

import jax
import jax.numpy as jnp

from .common import attention, cross_entropy, joint_heads, layer_norm, linear, merged

SMALL = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 32, "seq": 8, "vocab": 24, "batch": 2, "dtype": "f32"}
CASES = {
    "gpt": ("gpt2", SMALL),
    "gpt_untied": ("gpt2", SMALL | {"tied": "false"}),
    "gpt_remat": ("gpt2", SMALL | {"remat": "true"}),
    "gpt_clip": ("gpt2", SMALL | {"clip": 0.1}),
    "gpt_smooth": ("gpt2", SMALL | {"label_smoothing": 0.1}),
    "gpt_z_loss": ("gpt2", SMALL | {"z_loss": 0.01}),
    "partir": ("t32", SMALL),
}


def loss(settings, parameters, state, batch):
    x = parameters["embedding"][batch["tokens"]]
    if "positions" in parameters:
        x = x + parameters["positions"]
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        normal = layer_norm(parameters, f"{name}.norm1", x)
        query, key, value = joint_heads(parameters, f"{name}.attn.qkv", normal, settings["heads"])
        x = x + linear(parameters, f"{name}.attn.out", merged(attention(query, key, value, causal=True)))
        normal = layer_norm(parameters, f"{name}.norm2", x)
        up = jax.nn.gelu(linear(parameters, f"{name}.mlp.up", normal), approximate=True)
        x = x + linear(parameters, f"{name}.mlp.down", up)
    x = layer_norm(parameters, "norm", x)
    logits = linear(parameters, "head", x) if "head.weight" in parameters else x @ parameters["embedding"].T
    return cross_entropy(settings, logits, batch["targets"]), state
