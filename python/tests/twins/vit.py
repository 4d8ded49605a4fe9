"""Vision transformers."""

import functools

import jax
import jax.numpy as jnp

from .common import convolution, cross_entropy, generate_filter, layer_norm, linear, self_attention

SMALL = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 32, "image": 8, "patch": 4, "classes": 10, "batch": 3}
CASES = {
    "vit": ("vit-l16", SMALL),
    "vit_smooth": ("vit-l16", SMALL | {"label_smoothing": 0.2, "z_loss": 0.01}),
    "vit_remat": ("vit-l16", SMALL | {"remat": "true"}),
}

# As torchvision's are.
norm = functools.partial(layer_norm, epsilon=1e-6)
gelu = functools.partial(jax.nn.gelu, approximate=False)


def generate(settings, name, shape, random):
    if name == "batch.labels":
        return random.integers(0, settings["classes"], shape)
    return generate_filter(name, shape, random)


def loss(settings, parameters, state, batch):
    patches = convolution(parameters, "patch", batch["images"], stride=settings["patch"], padding=0)
    patches = patches.reshape(settings["batch"], -1, settings["hidden"])
    token = jnp.broadcast_to(parameters["class"], (settings["batch"], 1, settings["hidden"]))
    x = jnp.concatenate([token, patches], axis=1) + parameters["positions"]
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        normal = norm(parameters, f"{name}.norm1", x)
        x = x + self_attention(parameters, f"{name}.attn", normal, settings["heads"])
        normal = norm(parameters, f"{name}.norm2", x)
        up = gelu(linear(parameters, f"{name}.mlp.up", normal))
        x = x + linear(parameters, f"{name}.mlp.down", up)
    x = norm(parameters, "norm", x)[:, 0]
    return cross_entropy(settings, linear(parameters, "head", x), batch["labels"]), state
