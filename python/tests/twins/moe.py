"""GShard: a GPT with experts in every second layer."""

import jax
import jax.numpy as jnp

from .common import attention, cross_entropy, joint_heads, layer_norm, linear, merged
from .experts import generate as generate
from .experts import mixture

SMALL = {
    "layers": 2,
    "hidden": 16,
    "heads": 4,
    "ffn": 32,
    "experts": 4,
    "expert_group": 8,
    "capacity_factor": 2.0,
    "seq": 8,
    "vocab": 24,
    "batch": 3,
    "dtype": "f32",
}
CASES = {
    "moe": ("moe-380m", SMALL),
    "moe_full": ("moe-380m", SMALL | {"capacity_factor": 0.9}),
    "moe_roomy": ("moe-380m", SMALL | {"capacity_factor": 4.0}),
    "moe_single": ("moe-380m", SMALL | {"experts_per_token": 1, "capacity_factor": 1.0}),
    "moe_remat": ("moe-380m", SMALL | {"expert_group": 12, "remat": "true"}),
}


def loss(settings, parameters, state, batch):
    x = parameters["embedding"][batch["tokens"]] + parameters["positions"]
    balances = 0.0
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        normal = layer_norm(parameters, f"{name}.norm1", x)
        query, key, value = joint_heads(parameters, f"{name}.attn.qkv", normal, settings["heads"])
        x = x + linear(parameters, f"{name}.attn.out", merged(attention(query, key, value, causal=True)))
        normal = layer_norm(parameters, f"{name}.norm2", x)
        if layer % 2 == 0:
            up = jax.nn.gelu(linear(parameters, f"{name}.mlp.up", normal), approximate=True)
            x = x + linear(parameters, f"{name}.mlp.down", up)
            continue

        def expert(tokens, number, name=name):
            up = jax.nn.gelu(tokens @ parameters[f"{name}.moe.up.weight"][number], approximate=True)
            return up @ parameters[f"{name}.moe.down.weight"][number]

        made, balance = mixture(settings, parameters, f"{name}.moe", normal, expert)
        x = x + made
        balances = balances + balance
    x = layer_norm(parameters, "norm", x)
    return cross_entropy(settings, x @ parameters["embedding"].T, batch["targets"]) + 0.01 * balances, state
