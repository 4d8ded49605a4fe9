"""A UNet that predicts the noise in images of a diffusion process."""

import jax
import jax.numpy as jnp

from .common import convolution, distance, generate_filter, linear, self_attention

SMALL = {"layers": 1, "channels": 64, "heads": 4, "image": 8, "batch": 2}
CASES = {
    "unet": ("unet", SMALL),
    "unet_absolute": ("unet", SMALL | {"loss": "absolute-error"}),
    "unet_remat": ("unet", SMALL | {"remat": "true"}),
}


def generate(settings, name, shape, random):
    if name == "batch.times":
        return random.integers(0, 10, shape)
    return generate_filter(name, shape, random)


def group_norm(parameters, name, x):
    grouped = x.reshape(*x.shape[:3], 32, -1)
    mean = grouped.mean(axis=(1, 2, 4), keepdims=True)
    variance = ((grouped - mean) ** 2).mean(axis=(1, 2, 4), keepdims=True)
    normal = ((grouped - mean) / jnp.sqrt(variance + 1e-5)).reshape(x.shape)
    return normal * parameters[f"{name}.scale"] + parameters[f"{name}.bias"]


def embed_times(settings, parameters, times):
    half = settings["channels"] // 2
    angles = times[:, None] * 10_000.0 ** (-jnp.arange(half) / half)
    waves = jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=1)
    return jax.nn.silu(linear(parameters, "time.1", jax.nn.silu(linear(parameters, "time.0", waves))))


def stage(settings, parameters, name, x, time):
    """A residual block and, where it has parameters for it, attention."""
    y = jax.nn.silu(group_norm(parameters, f"{name}.norm1", x))
    y = convolution(parameters, f"{name}.conv1", y) + linear(parameters, f"{name}.time", time)[:, None, None]
    y = jax.nn.silu(group_norm(parameters, f"{name}.norm2", y))
    y = convolution(parameters, f"{name}.conv2", y)
    x = y + (convolution(parameters, f"{name}.shortcut", x) if f"{name}.shortcut.weight" in parameters else x)
    if f"{name}.attn.qkv.weight" not in parameters:
        return x
    flat = group_norm(parameters, f"{name}.attn.norm", x).reshape(x.shape[0], -1, x.shape[3])
    return x + self_attention(parameters, f"{name}.attn", flat, settings["heads"]).reshape(x.shape)


def loss(settings, parameters, state, batch):
    time = embed_times(settings, parameters, batch["times"])
    x = convolution(parameters, "input", batch["images"])
    kept = [x]
    for level in range(4):
        for block in range(settings["layers"]):
            x = stage(settings, parameters, f"down.{level}.{block}", x, time)
            kept.append(x)
        if level < 3:
            x = convolution(parameters, f"down.{level}.halve", x, stride=2)
            kept.append(x)
    for block in range(2):
        x = stage(settings, parameters, f"middle.{block}", x, time)
    for level in reversed(range(4)):
        for block in range(settings["layers"] + 1):
            x = stage(settings, parameters, f"up.{level}.{block}", jnp.concatenate([x, kept.pop()], axis=3), time)
        if level > 0:
            x = convolution(parameters, f"up.{level}.double", x.repeat(2, axis=1).repeat(2, axis=2))
    x = jax.nn.silu(group_norm(parameters, "output.norm", x))
    return distance(settings, convolution(parameters, "output.conv", x), batch["noise"]), state
