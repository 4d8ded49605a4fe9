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


assert BATCH % 4 == 0, "microbatches divide it"
CASES = {case.__name__: case for case in (gpt, llama, mlp, moe)}
