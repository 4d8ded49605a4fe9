"""T5, version 1.0."""

import math

import jax
import jax.numpy as jnp

from .common import attention, cross_entropy, heads, linear, merged, rms_norm

EPSILON = 1e-6
# Long enough that some distances share a bucket in both stacks.
SMALL = {
    "layers": 2,
    "decoder_layers": 2,
    "hidden": 12,
    "heads": 2,
    "head_width": 8,
    "ffn": 16,
    "seq": 24,
    "target_seq": 20,
    "vocab": 24,
    "batch": 2,
    "dtype": "f32",
}
CASES = {
    "t5": ("t5-large", SMALL),
    "t5_remat": ("t5-large", SMALL | {"remat": "true"}),
    "t5_untied": ("t5-large", SMALL | {"tied": "false"}),
}


def buckets(size, both_ways, count=32, largest=128):
    """As Hugging Face's `_relative_position_bucket`."""
    relative = jnp.arange(size)[None, :] - jnp.arange(size)[:, None]
    first = 0
    if both_ways:
        count //= 2
        first = (relative > 0) * count
        distance = jnp.abs(relative)
    else:
        distance = -jnp.minimum(relative, 0)
    near = count // 2
    share = jnp.log(jnp.maximum(distance, 1) / near) / math.log(largest / near)
    far = jnp.minimum(near + (share * (count - near)).astype(int), count - 1)
    return first + jnp.where(distance < near, distance, far)


def attend(settings, parameters, name, x, source, **options):
    query, key, value = (
        heads(linear(parameters, f"{name}.{part}", of), settings["heads"])
        for part, of in (("query", x), ("key", source), ("value", source))
    )
    return linear(parameters, f"{name}.out", merged(attention(query, key, value, scale=1.0, **options)))


def stack(settings, parameters, name, layers, tokens, encoded=None):
    x = parameters["embedding"][tokens]
    bias = parameters[f"{name}.position_bias"][buckets(tokens.shape[1], encoded is None)].transpose(2, 0, 1)
    for layer in range(layers):
        inner = f"{name}.layers.{layer}"
        normal = rms_norm(parameters, f"{inner}.norm1", x, EPSILON)
        causal = encoded is not None
        x = x + attend(settings, parameters, f"{inner}.attn", normal, normal, bias=bias, causal=causal)
        if encoded is not None:
            normal = rms_norm(parameters, f"{inner}.norm2", x, EPSILON)
            x = x + attend(settings, parameters, f"{inner}.cross", normal, encoded)
        normal = rms_norm(parameters, f"{inner}.norm3", x, EPSILON)
        x = x + linear(parameters, f"{inner}.mlp.down", jax.nn.relu(linear(parameters, f"{inner}.mlp.up", normal)))
    return rms_norm(parameters, f"{name}.norm", x, EPSILON)


def loss(settings, parameters, state, batch):
    encoded = stack(settings, parameters, "encoder", settings["layers"], batch["tokens"])
    x = stack(settings, parameters, "decoder", settings["decoder_layers"], batch["decoder_tokens"], encoded)
    if "head.weight" in parameters:
        logits = linear(parameters, "head", x)
    else:
        logits = x * settings["hidden"] ** -0.5 @ parameters["embedding"].T
    return cross_entropy(settings, logits, batch["targets"]), state
