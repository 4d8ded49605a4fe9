"""Steps as people write them, small: each with its first state and its batches."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx

# With the usual one, Adam makes steps of full size where gradients are nothing but rounding.
EPSILON = 1e-5
BATCH, SEQUENCE, WIDTH, HEADS, VOCABULARY, LAYERS = 16, 32, 64, 4, 128, 2


@dataclasses.dataclass(frozen=True)
class Case:
    step: Callable[..., Any]
    state: Any
    # Of a step's number.
    batch: Callable[[int], Any]
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # The same step with wider numbers, where its own are narrow.
    wide: Callable[..., Any] | None = None

    def fresh_state(self) -> Any:
        """A state that may be donated."""
        return jax.tree.map(jnp.copy, self.state)


def numbers(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def tokens(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, VOCABULARY, (BATCH, SEQUENCE)).astype(np.int32)


def trained(loss: Callable[..., Any], optimizer: optax.GradientTransformation) -> Callable[..., Any]:
    def train_step(state, batch):
        loss_value, gradients = jax.value_and_grad(loss)(state["params"], batch)
        updates, optimizer_state = optimizer.update(gradients, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": optimizer_state}, loss_value

    return train_step


def started(params: Any, optimizer: optax.GradientTransformation) -> dict[str, Any]:
    return {"params": params, "opt": optimizer.init(params)}


def mlp() -> Case:
    """Plain dictionaries, and momentum; what is donated is the state."""
    sizes = [64, 256, 256, 32]
    optimizer = optax.sgd(0.05, momentum=0.9)

    def loss(params, batch):
        x = batch["x"]
        for number in range(len(sizes) - 1):
            layer = params[f"layer{number}"]
            x = x @ layer["w"] + layer["b"]
            x = jax.nn.relu(x) if number < len(sizes) - 2 else x
        return jnp.mean((x - batch["y"]) ** 2)

    params = {
        f"layer{number}": {"w": numbers(number, inner, outer) / inner**0.5, "b": np.zeros(outer, np.float32)}
        for number, (inner, outer) in enumerate(zip(sizes, sizes[1:]))
    }
    batch = lambda seed: {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 32)}
    return Case(trained(loss, optimizer), started(params, optimizer), batch, {"donate_argnums": 0})


def normed(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def attended(x, layer):
    head = WIDTH // HEADS
    query, key, value = jnp.moveaxis((x @ layer["qkv"]).reshape(*x.shape[:-1], 3, HEADS, head), -3, 0)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / head**0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape) @ layer["out"]


def block(x, layer):
    x = x + attended(normed(x, layer["scale1"]), layer)
    return x + jax.nn.gelu(normed(x, layer["scale2"]) @ layer["up"]) @ layer["down"]


def gpt_params() -> dict[str, Any]:
    def layer(seed: int) -> dict[str, Any]:
        return {
            "qkv": numbers(seed, WIDTH, 3 * WIDTH) * 0.1,
            "out": numbers(seed + 1, WIDTH, WIDTH) * 0.1,
            "up": numbers(seed + 2, WIDTH, 4 * WIDTH) * 0.1,
            "down": numbers(seed + 3, 4 * WIDTH, WIDTH) * 0.1,
            "scale1": np.ones(WIDTH, np.float32),
            "scale2": np.ones(WIDTH, np.float32),
        }

    return {
        "embed": numbers(1, VOCABULARY, WIDTH) * 0.1,
        "position": numbers(2, SEQUENCE, WIDTH) * 0.1,
        "layers": [layer(10 * number) for number in range(1, LAYERS + 1)],
        "head": numbers(3, WIDTH, VOCABULARY) * 0.1,
    }


def next_token_loss(logits, batch):
    losses = optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1].astype(jnp.float32), batch[:, 1:])
    return losses.mean()


def gpt() -> Case:
    """A GPT from scratch, with AdamW and gradients that are clipped by their norm."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, eps=EPSILON))

    def loss(params, batch):
        x = params["embed"][batch] + params["position"]
        for layer in params["layers"]:
            x = block(x, layer)
        return next_token_loss(x @ params["head"], batch)

    return Case(trained(loss, optimizer), started(gpt_params(), optimizer), tokens, {"donate_argnums": 0})


def gpt_scan() -> Case:
    """The same with its layers stacked, run by a scan and computed again for the backward pass."""
    optimizer = optax.adam(1e-3, eps=EPSILON)

    def loss(params, batch):
        x = params["embed"][batch] + params["position"]
        x, _ = jax.lax.scan(jax.checkpoint(lambda x, layer: (block(x, layer), None)), x, params["layers"])
        return next_token_loss(x @ params["head"], batch)

    params = gpt_params()
    params["layers"] = jax.tree.map(lambda *leaves: np.stack(leaves), *params["layers"])
    return Case(trained(loss, optimizer), started(params, optimizer), tokens)


def gpt_mixed() -> Case:
    """Parameters in f32 and most of the computation in bfloat16."""
    optimizer = optax.adam(1e-3, eps=EPSILON)

    def loss(dtype, params, batch):
        narrow = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
        x = narrow["embed"][batch] + narrow["position"]
        for layer in narrow["layers"]:
            x = block(x, layer)
        return next_token_loss(x @ narrow["head"], batch)

    step, wide = (trained(functools.partial(loss, dtype), optimizer) for dtype in (jnp.bfloat16, jnp.float32))
    return Case(step, started(gpt_params(), optimizer), tokens, {"donate_argnums": 0}, wide)


def mlp_dropout() -> Case:
    """Dropout with a key that is split in every step, and whether to train as a static argument."""
    optimizer = optax.adam(1e-3, eps=EPSILON)

    def loss(params, batch, key, train):
        x = jnp.tanh(batch["x"] @ params["w1"])
        if train:
            x = jnp.where(jax.random.bernoulli(key, 0.8, x.shape), x / 0.8, 0.0)
        return jnp.mean((x @ params["w2"] - batch["y"]) ** 2)

    def train_step(state, batch, train):
        key, now = jax.random.split(state["key"])
        loss_value, gradients = jax.value_and_grad(loss)(state["params"], batch, now, train)
        updates, optimizer_state = optimizer.update(gradients, state["opt"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt": optimizer_state, "key": key}, loss_value

    params = {"w1": numbers(1, 64, 256) / 8, "w2": numbers(2, 256, 32) / 16}
    state = {**started(params, optimizer), "key": jax.random.key(7)}
    batch = lambda seed: {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 32)}
    return Case(train_step, state, batch, {"static_argnames": "train"})


def mlp_accumulated() -> Case:
    """Gradients are added up over two steps, and the update is in a branch."""
    optimizer = optax.MultiSteps(optax.adam(1e-3, eps=EPSILON), every_k_schedule=2)

    def loss(params, batch):
        return jnp.mean((jnp.tanh(batch["x"] @ params["w1"]) @ params["w2"] - batch["y"]) ** 2)

    params = {"w1": numbers(1, 64, 256) / 8, "w2": numbers(2, 256, 32) / 16}
    batch = lambda seed: {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 32)}
    return Case(trained(loss, optimizer), started(params, optimizer), batch, {"donate_argnums": 0})


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.LayerNorm()(nn.Dense(256)(x)))
        return nn.Dense(32)(x)


def linen() -> Case:
    """A model of flax linen."""
    model, optimizer = Perceptron(), optax.adamw(1e-3, eps=EPSILON)

    def loss(params, batch):
        return jnp.mean((model.apply({"params": params}, batch["x"]) - batch["y"]) ** 2)

    params = model.init(jax.random.key(0), numbers(0, 1, 64))["params"]
    batch = lambda seed: {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 32)}
    return Case(trained(loss, optimizer), started(params, optimizer), batch, {"donate_argnums": 0})


# Older versions of flax copy without being asked.
COPIED = {"copy": True} if "copy" in inspect.signature(nnx.merge).parameters else {}


class Network(nnx.Module):
    def __init__(self, rngs):
        # A bias before the norm would have no gradient but rounding.
        self.first = nnx.Linear(64, 256, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(256, rngs=rngs)
        self.second = nnx.Linear(256, 32, rngs=rngs)

    def __call__(self, x):
        return self.second(nnx.relu(self.norm(self.first(x))))


def network() -> Case:
    """A model of flax NNX with batch statistics, as its state; its structure is closed over."""
    optimizer = optax.adam(1e-3, eps=EPSILON)
    structure, params, rest = nnx.split(Network(nnx.Rngs(0)), nnx.Param, ...)

    def loss(params, rest, batch):
        model = nnx.merge(structure, params, rest, **COPIED)
        value = jnp.mean((model(batch["x"]) - batch["y"]) ** 2)
        return value, nnx.split(model, nnx.Param, ...)[2]

    def train_step(state, batch):
        value_and_grad = jax.value_and_grad(loss, has_aux=True)
        (loss_value, rest), gradients = value_and_grad(state["params"], state["rest"], batch)
        updates, optimizer_state = optimizer.update(gradients, state["opt"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "rest": rest, "opt": optimizer_state}, loss_value

    state = {"params": params, "rest": rest, "opt": optimizer.init(params)}
    batch = lambda seed: {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 32)}
    return Case(train_step, state, batch, {"donate_argnums": 0})


STEPS = (gpt, gpt_mixed, gpt_scan, linen, mlp, mlp_accumulated, mlp_dropout, network)
CASES = {case.__name__: case for case in STEPS}
