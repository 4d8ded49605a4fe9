"""Models of several layers with optimizers, to be cut into stages."""

import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
from cases import BATCH, EPSILON, HEADS, SEQUENCE, VOCABULARY, WIDTH, Case, block, gpt_params, next_token_loss, normed
from cases import numbers, started, tokens, trained

# Compiling takes most of the time.
LAYERS = 4 if os.environ.get("LONG") else 2
EXPERTS = 4


def adamw():
    return optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, eps=EPSILON))


def mlp() -> Case:
    """Eight layers, and momentum."""
    optimizer = optax.sgd(0.05, momentum=0.9)

    def loss(params, batch):
        x = batch["x"]
        for layer in params:
            x = x + jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.mean((x - batch["y"]) ** 2)

    params = [{"w": numbers(number, 64, 64) / 16, "b": np.zeros(64, np.float32)} for number in range(8)]
    batch = lambda seed: {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 64)}
    return Case(trained(loss, optimizer), started(params, optimizer), batch, {"donate_argnums": 0})


def gpt() -> Case:
    """The embedding is the head too, so that two stages hold it and its state; gradients are clipped by their norm."""
    optimizer = adamw()

    def loss(params, batch):
        x = params["embed"][batch] + params["position"]
        for layer in params["layers"]:
            x = block(x, layer)
        return next_token_loss(x @ params["embed"].T, batch)

    params = gpt_params()
    del params["head"]
    params["layers"] = (2 * params["layers"])[:LAYERS]
    return Case(trained(loss, optimizer), started(params, optimizer), tokens, {"donate_argnums": 0})


def rotated(x):
    half = x.shape[-1] // 2
    angles = np.arange(SEQUENCE)[:, None] / 100 ** (np.arange(half) / half)
    sine, cosine = np.float32(np.sin(angles))[:, None], np.float32(np.cos(angles))[:, None]
    first, second = x[..., :half], x[..., half:]
    return jnp.concatenate([first * cosine - second * sine, first * sine + second * cosine], -1)


def llama() -> Case:
    """Rotations for positions, two heads of queries for one of keys, and gates."""
    optimizer, head, groups = adamw(), WIDTH // HEADS, 2

    def rms(x, scale):
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale

    def attended(x, layer):
        query = rotated((x @ layer["q"]).reshape(*x.shape[:-1], HEADS, head))
        key = rotated((x @ layer["k"]).reshape(*x.shape[:-1], HEADS // groups, head))
        value = (x @ layer["v"]).reshape(*x.shape[:-1], HEADS // groups, head)
        query = query.reshape(*x.shape[:-1], HEADS // groups, groups, head)
        scores = jnp.einsum("bqhgd,bkhd->bhgqk", query, key) / head**0.5
        mask = jnp.tril(jnp.ones((SEQUENCE, SEQUENCE), bool))
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
        return jnp.einsum("bhgqk,bkhd->bqhgd", weights, value).reshape(x.shape) @ layer["o"]

    def loss(params, batch):
        x = params["embed"][batch]
        for layer in params["layers"]:
            x = x + attended(rms(x, layer["scale1"]), layer)
            y = rms(x, layer["scale2"])
            x = x + (jax.nn.silu(y @ layer["gate"]) * (y @ layer["up"])) @ layer["down"]
        return next_token_loss(rms(x, params["scale"]) @ params["head"], batch)

    def layer(seed):
        shapes = {"q": WIDTH, "k": WIDTH // groups, "v": WIDTH // groups, "o": WIDTH, "gate": 128, "up": 128}
        made = {name: numbers(seed + place, WIDTH, size) * 0.1 for place, (name, size) in enumerate(shapes.items())}
        scales = {name: np.ones(WIDTH, np.float32) for name in ("scale1", "scale2")}
        return {**made, **scales, "down": numbers(seed + 9, 128, WIDTH) * 0.1}

    params = {
        "embed": numbers(1, VOCABULARY, WIDTH) * 0.1,
        "layers": [layer(10 * number) for number in range(1, LAYERS + 1)],
        "scale": np.ones(WIDTH, np.float32),
        "head": numbers(3, WIDTH, VOCABULARY) * 0.1,
    }
    return Case(trained(loss, optimizer), started(params, optimizer), tokens, {"donate_argnums": 0})


def moe() -> Case:
    """Every token goes to the two experts of four that like it best."""
    optimizer = adamw()

    def mixed(x, layer):
        liked, chosen = jax.lax.top_k(jax.nn.softmax(x @ layer["router"]), 2)
        share = (jax.nn.one_hot(chosen, EXPERTS) * liked[..., None]).sum(-2)
        inner = jax.nn.gelu(jnp.einsum("bsd,edf->besf", x, layer["up"]))
        return jnp.einsum("besf,efd,bse->bsd", inner, layer["down"], share)

    def loss(params, batch):
        x = params["embed"][batch]
        for layer in params["layers"]:
            x = x + mixed(normed(x, layer["scale"]), layer)
        return next_token_loss(x @ params["head"], batch)

    def layer(seed):
        return {
            "router": numbers(seed, WIDTH, EXPERTS) * 0.1,
            "up": numbers(seed + 1, EXPERTS, WIDTH, 2 * WIDTH) * 0.1,
            "down": numbers(seed + 2, EXPERTS, 2 * WIDTH, WIDTH) * 0.1,
            "scale": np.ones(WIDTH, np.float32),
        }

    params = {
        "embed": numbers(1, VOCABULARY, WIDTH) * 0.1,
        "layers": [layer(10 * number) for number in range(1, LAYERS + 1)],
        "head": numbers(3, WIDTH, VOCABULARY) * 0.1,
    }
    return Case(trained(loss, optimizer), started(params, optimizer), tokens, {"donate_argnums": 0})


def wide_resnet() -> Case:
    """Blocks of three convolutions, wide in their middle, of which the first of each group halves the image; norms over
    groups of channels, so that microbatches compute what the batch does."""
    optimizer, groups = optax.sgd(0.01, momentum=0.9), 4

    def convolved(x, kernel, stride=1):
        return jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def grouped(x, scale):
        parts = x.reshape(*x.shape[:-1], groups, -1)
        mean = parts.mean((1, 2, 4), keepdims=True)
        variance = ((parts - mean) ** 2).mean((1, 2, 4), keepdims=True)
        return ((parts - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape) * scale

    def residual(x, layer):
        stride = 2 if "skip" in layer else 1
        y = jax.nn.relu(grouped(convolved(x, layer["in"]), layer["scale1"]))
        y = jax.nn.relu(grouped(convolved(y, layer["middle"], stride), layer["scale2"]))
        y = grouped(convolved(y, layer["out"]), layer["scale3"])
        return jax.nn.relu(y + (convolved(x, layer["skip"], stride) if stride > 1 else x))

    def loss(params, batch):
        x = jax.nn.relu(grouped(convolved(batch["x"], params["stem"]), params["scale"]))
        for layer in params["layers"]:
            x = residual(x, layer)
        logits = x.mean((1, 2)) @ params["head"]
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    def layer(seed, width, out):
        wide = 2 * width
        made = {
            "in": numbers(seed, 1, 1, width, wide) / width**0.5,
            "middle": numbers(seed + 1, 3, 3, wide, wide) / (9 * wide) ** 0.5,
            "out": numbers(seed + 2, 1, 1, wide, out) / wide**0.5,
            "scale1": np.ones(wide, np.float32),
            "scale2": np.ones(wide, np.float32),
            "scale3": np.ones(out, np.float32),
        }
        return made if width == out else {**made, "skip": numbers(seed + 3, 1, 1, width, out) / width**0.5}

    params = {
        "stem": numbers(1, 3, 3, 3, 16) / 5,
        "scale": np.ones(16, np.float32),
        "layers": [layer(10, 16, 16), layer(20, 16, 32), layer(30, 32, 32), layer(40, 32, 64)],
        "head": numbers(3, 64, 16) * 0.1,
    }

    def batch(seed):
        label = np.random.default_rng(seed + 100).integers(0, 16, BATCH).astype(np.int32)
        return {"x": numbers(seed, BATCH, 16, 16, 3), "label": label}

    return Case(trained(loss, optimizer), started(params, optimizer), batch, {"donate_argnums": 0})


assert BATCH % 4 == 0, "microbatches divide it"
CASES = {case.__name__: case for case in (gpt, llama, mlp, moe, wide_resnet)}
