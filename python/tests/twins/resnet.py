"""Wide-ResNet with bottleneck blocks."""

import jax
import jax.numpy as jnp

from .common import convolution, cross_entropy, generate_filter, linear

SMALL = {"layers": 1, "channels": 4, "width": 2, "image": 64, "classes": 10, "batch": 8}
CASES = {
    "resnet": ("wresnet-250m", SMALL),
    # In f32, rounding decides on which side of zero some activations of a deeper network fall.
    "resnet_deep": ("wresnet-250m", SMALL | {"layers": 2, "dtype": "f64"}),
    "resnet_remat": ("wresnet-250m", SMALL | {"remat": "true"}),
}


def generate(settings, name, shape, random):
    if name == "batch.labels":
        return random.integers(0, settings["classes"], shape)
    return generate_filter(name, shape, random)


class Norms:
    """Batch norms, and their running averages after this batch."""

    def __init__(self, parameters, state):
        self.parameters, self.state, self.next = parameters, state, {}

    def __call__(self, name, x):
        mean = x.mean(axis=(0, 1, 2))
        variance = ((x - mean) ** 2).mean(axis=(0, 1, 2))
        for kind, value in {"mean": mean, "variance": variance}.items():
            self.next[f"{name}.{kind}"] = 0.9 * self.state[f"{name}.{kind}"] + 0.1 * value
        normal = (x - mean) / jnp.sqrt(variance + 1e-5)
        return normal * self.parameters[f"{name}.scale"] + self.parameters[f"{name}.bias"]


def loss(settings, parameters, state, batch):
    norm = Norms(parameters, state)
    x = convolution(parameters, "stem.conv", batch["images"], stride=2)
    x = jax.nn.relu(norm("stem.norm", x))
    padding = [(0, 0), (1, 1), (1, 1), (0, 0)]
    x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), padding)
    for group in range(4):
        for block in range(settings["layers"]):
            name = f"groups.{group}.{block}"
            stride = 2 if group > 0 and block == 0 else 1
            y = jax.nn.relu(norm(f"{name}.norm0", convolution(parameters, f"{name}.conv0", x)))
            y = jax.nn.relu(norm(f"{name}.norm1", convolution(parameters, f"{name}.conv1", y, stride)))
            y = norm(f"{name}.norm2", convolution(parameters, f"{name}.conv2", y))
            if f"{name}.shortcut.conv.weight" in parameters:
                x = convolution(parameters, f"{name}.shortcut.conv", x, stride)
                x = norm(f"{name}.shortcut.norm", x)
            x = jax.nn.relu(x + y)
    logits = linear(parameters, "head", x.mean(axis=(1, 2)))
    return cross_entropy(settings, logits, batch["labels"]), norm.next
