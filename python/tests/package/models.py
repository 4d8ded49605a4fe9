"""Models as people write them with flax and optax, small, each as a step with its first state and its batches."""

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from cases import Case, numbers, started, trained
from flax import nnx

# With the usual one, Adam makes steps of full size where gradients are nothing but rounding.
EPSILON = 1e-3
BATCH, SEQUENCE, VOCABULARY, WIDTH, HEADS, LAYERS = 16, 32, 128, 64, 8, 2


def tokens(seed: int, *shape: int) -> np.ndarray:
    shape = shape or (BATCH, SEQUENCE)
    return np.random.default_rng(seed).integers(0, VOCABULARY, shape).astype(np.int32)


def entropy(logits: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def linen(model: nn.Module, loss: Callable[..., Any], batch: Callable[[int], Any], optimizer: Any = None) -> Case:
    """A step of a linen model; the loss is one of its outputs and the batch."""
    optimizer = optimizer or optax.adam(1e-3, eps=EPSILON)
    params = model.init(jax.random.key(0), batch(0)["x"])["params"]
    step = trained(lambda params, batch: loss(model.apply({"params": params}, batch["x"]), batch), optimizer)
    return Case(step, started(params, optimizer), batch, {"donate_argnums": 0})


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (256, 256, 256):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(32)(x)


def mlp() -> Case:
    def batch(seed):
        return {"x": numbers(seed, 64, 64), "y": numbers(seed + 100, 64, 32)}

    return linen(Perceptron(), lambda y, batch: jnp.mean((y - batch["y"]) ** 2), batch, optax.sgd(0.05, momentum=0.9))


class Block(nn.Module):
    """A block of a transformer with linen's own attention."""

    norm_first: bool = True

    @nn.compact
    def __call__(self, x, mask=None):
        # A bias of keys has no gradient but rounding: softmax does not see it.
        attend = nn.MultiHeadDotProductAttention(HEADS, use_bias=False)
        feed = nn.Sequential([nn.Dense(4 * WIDTH), nn.gelu, nn.Dense(WIDTH)])
        if self.norm_first:
            x = x + attend(nn.LayerNorm()(x), mask=mask)
            return x + feed(nn.LayerNorm()(x))
        x = nn.LayerNorm()(x + attend(x, mask=mask))
        return nn.LayerNorm()(x + feed(x))


class Gpt(nn.Module):
    @nn.compact
    def __call__(self, x):
        embed = nn.Embed(VOCABULARY, WIDTH)
        position = self.param("position", nn.initializers.normal(0.02), (SEQUENCE, WIDTH))
        mask = nn.make_causal_mask(x)
        x = embed(x) + position
        for _ in range(LAYERS):
            x = Block()(x, mask)
        return embed.attend(nn.LayerNorm()(x))


def next_token(logits: Any, batch: Any) -> Any:
    return entropy(logits[:, :-1], batch["x"][:, 1:])


def gpt() -> Case:
    """Tied embeddings, AdamW and gradients that are clipped by their norm."""
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, eps=EPSILON))
    return linen(Gpt(), next_token, lambda seed: {"x": tokens(seed)}, optimizer)


class Bert(nn.Module):
    @nn.compact
    def __call__(self, x):
        position = self.param("position", nn.initializers.normal(0.02), (SEQUENCE, WIDTH))
        x = nn.LayerNorm()(nn.Embed(VOCABULARY, WIDTH)(x) + position)
        for _ in range(LAYERS):
            x = Block(norm_first=False)(x)
        return nn.Dense(VOCABULARY)(nn.LayerNorm()(nn.gelu(nn.Dense(WIDTH)(x))))


def bert() -> Case:
    """Tokens that were hidden are told; the loss is a mean over these alone."""

    def batch(seed):
        label = tokens(seed)
        hidden = np.random.default_rng(seed + 50).random(label.shape) < 0.15
        return {"x": np.where(hidden, 0, label), "label": label, "hidden": hidden}

    def loss(logits, batch):
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"])
        return jnp.sum(losses * batch["hidden"]) / jnp.sum(batch["hidden"])

    return linen(Bert(), loss, batch)


def rotated(x):
    """Rotary positions."""
    half = x.shape[-1] // 2
    angles = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cosine, sine = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    left, right = x[..., :half], x[..., half:]
    return jnp.concatenate([left * cosine - right * sine, left * sine + right * cosine], -1)


# Older versions of flax take lists as they are.
List = getattr(nnx, "List", list)


class LlamaLayer(nnx.Module):
    def __init__(self, rngs):
        head, self.pairs = WIDTH // HEADS, HEADS // 2
        self.norms = List([nnx.RMSNorm(WIDTH, rngs=rngs) for _ in range(2)])
        self.query = nnx.LinearGeneral(WIDTH, (HEADS, head), use_bias=False, rngs=rngs)
        self.key = nnx.LinearGeneral(WIDTH, (self.pairs, head), use_bias=False, rngs=rngs)
        self.value = nnx.LinearGeneral(WIDTH, (self.pairs, head), use_bias=False, rngs=rngs)
        self.out = nnx.LinearGeneral((HEADS, head), WIDTH, axis=(-2, -1), use_bias=False, rngs=rngs)
        self.gate, self.up = (nnx.Linear(WIDTH, 3 * WIDTH, use_bias=False, rngs=rngs) for _ in range(2))
        self.down = nnx.Linear(3 * WIDTH, WIDTH, use_bias=False, rngs=rngs)

    def __call__(self, x):
        y = self.norms[0](x)
        query, key, value = rotated(self.query(y)), rotated(self.key(y)), self.value(y)
        x = x + self.out(jax.nn.dot_product_attention(query, key, value, is_causal=True))
        y = self.norms[1](x)
        return x + self.down(nnx.silu(self.gate(y)) * self.up(y))


class Llama(nnx.Module):
    def __init__(self, rngs):
        self.embed = nnx.Embed(VOCABULARY, WIDTH, rngs=rngs)
        self.layers = List([LlamaLayer(rngs) for _ in range(LAYERS)])
        self.norm = nnx.RMSNorm(WIDTH, rngs=rngs)
        self.head = nnx.Linear(WIDTH, VOCABULARY, use_bias=False, rngs=rngs)

    def __call__(self, x):
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def llama() -> Case:
    """NNX: grouped queries, rotary positions, gates; what is not state is closed over."""
    optimizer = optax.adam(1e-3, eps=EPSILON)
    structure, params = nnx.split(Llama(nnx.Rngs(0)), nnx.Param)

    def loss(params, batch):
        return next_token(nnx.merge(structure, params)(batch["x"]), batch)

    state = started(params, optimizer)
    return Case(trained(loss, optimizer), state, lambda seed: {"x": tokens(seed)}, {"donate_argnums": 0})


class Experts(nn.Module):
    """Two of eight experts for each token, with room for a number of tokens in each."""

    experts: int = 8
    room: int = 32

    @nn.compact
    def __call__(self, x):
        groups, length, width = x.shape
        scores = nn.softmax(nn.Dense(self.experts, use_bias=False)(x))
        weights, chosen = jax.lax.top_k(scores, 2)
        picked = jax.nn.one_hot(chosen, self.experts)
        place = jnp.cumsum(picked.reshape(groups, -1, self.experts), 1).reshape(picked.shape) * picked - 1
        sent = jax.nn.one_hot(place, self.room) * picked[..., None]
        combine = jnp.einsum("gskec,gsk->gsec", sent, weights)
        normal = nn.initializers.lecun_normal()
        up = self.param("up", normal, (self.experts, width, 2 * width))
        down = self.param("down", normal, (self.experts, 2 * width, width))
        inputs = jnp.einsum("gsec,gsm->egcm", sent.sum(2), x)
        return jnp.einsum("gsec,egcm->gsm", combine, jnp.einsum("egch,ehm->egcm", nn.silu(jnp.einsum("egcm,emh->egch", inputs, up)), down))


class Moe(nn.Module):
    @nn.compact
    def __call__(self, x):
        mask = nn.make_causal_mask(x)
        x = nn.Embed(VOCABULARY, WIDTH)(x)
        for _ in range(LAYERS):
            x = x + nn.MultiHeadDotProductAttention(HEADS, use_bias=False)(nn.LayerNorm()(x), mask=mask)
            x = x + Experts()(nn.LayerNorm()(x))
        return nn.Dense(VOCABULARY)(x)


def moe() -> Case:
    """Which expert a token goes to is no smooth function; slow learning keeps choices away from where they change."""
    return linen(Moe(), next_token, lambda seed: {"x": tokens(seed)}, optax.sgd(1e-2, momentum=0.9))


class Residual(nn.Module):
    width: int
    stride: int = 1

    @nn.compact
    def __call__(self, x):
        norm = lambda: nn.GroupNorm(8)
        y = nn.relu(norm()(nn.Conv(self.width, (3, 3), self.stride, use_bias=False)(x)))
        y = norm()(nn.Conv(self.width, (3, 3), use_bias=False)(y))
        if x.shape != y.shape:
            x = nn.Conv(self.width, (1, 1), self.stride, use_bias=False)(x)
        return nn.relu(x + y)


class Resnet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.GroupNorm(8)(nn.Conv(16, (3, 3), use_bias=False)(x)))
        x = nn.max_pool(x, (2, 2), (2, 2))
        for width, stride in ((16, 1), (32, 2), (64, 2)):
            x = Residual(width, stride)(x)
        return nn.Dense(16)(x.mean((1, 2)))


def images(seed: int) -> dict[str, np.ndarray]:
    label = np.random.default_rng(seed + 100).integers(0, 16, BATCH).astype(np.int32)
    return {"x": numbers(seed, BATCH, 16, 16, 3), "label": label}


def resnet() -> Case:
    return linen(Resnet(), lambda logits, batch: entropy(logits, batch["label"]), images, optax.sgd(0.01, momentum=0.9))


class Unet(nn.Module):
    @nn.compact
    def __call__(self, x):
        conv = lambda width, x: nn.silu(nn.GroupNorm(8)(nn.Conv(width, (3, 3))(x)))
        first = conv(16, x)
        second = conv(32, nn.Conv(32, (3, 3), 2)(first))
        rows = second.reshape(*second.shape[:1], -1, 32)
        middle = rows + nn.MultiHeadDotProductAttention(4, use_bias=False)(nn.LayerNorm()(rows))
        middle = middle.reshape(second.shape)
        up = nn.ConvTranspose(16, (2, 2), (2, 2))(jnp.concatenate([middle, second], -1))
        return nn.Conv(3, (3, 3))(conv(16, jnp.concatenate([up, first], -1)))


def unet() -> Case:
    """Noise is told from images: convolutions down and up, with attention between."""

    def batch(seed):
        return {"x": numbers(seed, BATCH, 16, 16, 3), "noise": numbers(seed + 100, BATCH, 16, 16, 3)}

    return linen(Unet(), lambda y, batch: jnp.mean((y - batch["noise"]) ** 2), batch)


class Graph(nn.Module):
    @nn.compact
    def __call__(self, x):
        node, edge, ends = nn.Dense(WIDTH)(x["node"]), nn.Dense(WIDTH)(x["edge"]), x["ends"]
        for _ in range(LAYERS):
            message = jnp.concatenate([node[ends[:, 0]], node[ends[:, 1]], edge], -1)
            edge = edge + nn.Dense(WIDTH)(nn.relu(nn.Dense(2 * WIDTH)(message)))
            heard = jax.ops.segment_sum(edge, ends[:, 1], node.shape[0])
            node = node + nn.Dense(WIDTH)(nn.relu(nn.Dense(2 * WIDTH)(jnp.concatenate([node, heard], -1))))
            node = nn.LayerNorm()(node)
        return nn.Dense(3)(node)


def graph_network() -> Case:
    def batch(seed):
        ends = np.random.default_rng(seed + 50).integers(0, 64, (256, 2)).astype(np.int32)
        x = {"node": numbers(seed, 64, 16), "edge": numbers(seed + 1, 256, 8), "ends": ends}
        return {"x": x, "y": numbers(seed + 2, 64, 3)}

    return linen(Graph(), lambda y, batch: jnp.mean((y - batch["y"]) ** 2), batch)


class Lstm(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.RNN(nn.OptimizedLSTMCell(WIDTH))(nn.Embed(VOCABULARY, WIDTH)(x))
        return nn.Dense(VOCABULARY)(x)


def lstm() -> Case:
    return linen(Lstm(), next_token, lambda seed: {"x": tokens(seed)})


MODELS = {
    model.__name__: model for model in (bert, gpt, graph_network, llama, lstm, mlp, moe, resnet, unet)
}
