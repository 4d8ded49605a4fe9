"""A stack of dense layers with a squared error."""

import jax

from .common import linear

CASES = {"mlp": ("mlp", {"layers": 3, "hidden": 8, "batch": 4})}


def loss(settings, parameters, state, batch):
    x = batch["inputs"]
    for layer in range(settings["layers"]):
        x = linear(parameters, f"layers.{layer}", x)
        if layer + 1 < settings["layers"]:
            x = jax.nn.relu(x)
    return ((x - batch["targets"]) ** 2).mean(), state
