"""BERT, trained to fill in masked tokens."""

import functools

import jax

from .common import attention, heads, label_losses, layer_norm, linear, merged

SMALL = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 32, "seq": 8, "vocab": 24, "batch": 2, "dtype": "f32"}
CASES = {
    "bert": ("bert-base", SMALL),
    "bert_smooth": ("bert-base", SMALL | {"label_smoothing": 0.1, "z_loss": 0.01}),
    "bert_remat": ("bert-large", SMALL | {"remat": "true"}),
}

norm = functools.partial(layer_norm, epsilon=1e-12)
gelu = functools.partial(jax.nn.gelu, approximate=False)


def generate(settings, name, shape, random):
    if name in ("batch.segments", "batch.mask"):
        return random.integers(0, 2, shape)
    return None


def loss(settings, parameters, state, batch):
    x = parameters["embedding"][batch["tokens"]] + parameters["positions"] + parameters["segments"][batch["segments"]]
    x = norm(parameters, "norm", x)
    for layer in range(settings["layers"]):
        name = f"layers.{layer}"
        query, key, value = (
            heads(linear(parameters, f"{name}.attn.{part}", x), settings["heads"]) for part in ("query", "key", "value")
        )
        out = linear(parameters, f"{name}.attn.out", merged(attention(query, key, value)))
        x = norm(parameters, f"{name}.norm1", x + out)
        down = linear(parameters, f"{name}.mlp.down", gelu(linear(parameters, f"{name}.mlp.up", x)))
        x = norm(parameters, f"{name}.norm2", x + down)
    x = norm(parameters, "head.norm", gelu(linear(parameters, "head.transform", x)))
    logits = x @ parameters["embedding"].T + parameters["head.bias"]
    losses = label_losses(settings, logits, batch["targets"])
    return (losses * batch["mask"]).sum() / batch["mask"].sum(), state
