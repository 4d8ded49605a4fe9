"""A stack of dense layers."""

import jax

from .common import distance, linear

SMALL = {"layers": 3, "hidden": 8, "batch": 4}
CASES = {
    "mlp": ("mlp", SMALL),
    "mlp_absolute": ("mlp", SMALL | {"loss": "absolute-error"}),
    "mlp_huber": ("mlp", SMALL | {"loss": "huber"}),
}


def generate(settings, name, shape, random):
    """Targets of which some are nearer than 1 and some are not, where Huber's loss bends."""
    return 1.5 * random.normal(size=shape) if name == "batch.targets" else None


def loss(settings, parameters, state, batch):
    x = batch["inputs"]
    for layer in range(settings["layers"]):
        x = linear(parameters, f"layers.{layer}", x)
        if layer + 1 < settings["layers"]:
            x = jax.nn.relu(x)
    return distance(settings, x, batch["targets"]), state
