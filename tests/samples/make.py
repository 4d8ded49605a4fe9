"""Writes the sample programs: whole steps exported from JAX, with inputs and expected results.

    python make.py              makes every sample
    python make.py gpt resnet   makes the named ones

README.md says what the files hold. Needs jax, flax, optax and safetensors.
"""

import os

# One thread, so that sums are always taken in the same order.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
os.environ["JAX_PLATFORMS"] = "cpu"

import dataclasses
import functools
import gzip
import io
import math
import pathlib
import sys
import typing

import jax
import jax.numpy as jnp
import numpy
import optax
import safetensors.numpy
from flax import nnx
from jax import lax

# Locations keep the bare name of a source file: directories belong to one machine.
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")


@dataclasses.dataclass
class Sample:
    """A step, what it is called with, and which arguments it may overwrite."""

    step: typing.Callable
    arguments: tuple
    donated: tuple = ()


@dataclasses.dataclass
class Transformer:
    """Sizes of a transformer."""

    layers: int = 2
    hidden: int = 16
    heads: int = 4
    sequence: int = 16
    vocabulary: int = 64
    batch: int = 4


# ---------------------------------------------------------------------------
# Inputs. A model first states its parameters as a tree of shapes; `fill` gives
# them values. A large model stays a tree of shapes, and nothing is allocated.
# ---------------------------------------------------------------------------


def shape(*sizes, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(sizes, dtype)


def seeded(seed=0):
    return numpy.random.default_rng(seed)


def short(values):
    """Float32 values of five significant bits: they compress well and are exact in bfloat16."""
    fraction, exponent = numpy.frexp(numpy.asarray(values))
    return numpy.ldexp(numpy.round(fraction * 32) / 32, exponent).astype(numpy.float32)


def fill(random, shapes):
    """Parameters as at the start of training, but without exact zeros and ones."""

    def value(path, leaf):
        name = path[-1].key
        noise = random.standard_normal(leaf.shape)
        if name == "gain":
            return short(1 + 0.1 * noise)
        if name == "bias":
            return short(0.1 * noise)
        if name in ("embedding", "position", "class_token"):
            return short(noise / math.sqrt(leaf.shape[-1]))
        convolution = len(leaf.shape) == 4
        inputs = math.prod(leaf.shape[:-1]) if convolution else leaf.shape[-2]
        return short(noise / math.sqrt(inputs))

    return jax.tree_util.tree_map_with_path(value, shapes)


def fill_state(random, optimizer, parameters):
    """Optimizer state as after many steps.

    With the zeros of the first step Adam moves by the bare sign of a gradient,
    and then a rounding error in a gradient near zero would decide the result.
    """

    def value(path, leaf):
        if jnp.issubdtype(leaf.dtype, jnp.integer):
            return numpy.full(leaf.shape, 1000, leaf.dtype)
        names = [getattr(key, "name", None) for key in path]
        if "mu" in names or "trace" in names:
            values = 0.02 * random.standard_normal(leaf.shape)
        else:
            values = random.uniform(0.001, 0.002, leaf.shape)
        return short(values).astype(leaf.dtype)

    return jax.tree_util.tree_map_with_path(value, jax.eval_shape(optimizer.init, parameters))


def integers(random, limit, *sizes):
    return random.integers(0, limit, sizes).astype(numpy.int32)


def normal(random, *sizes):
    return short(random.standard_normal(sizes))


# ---------------------------------------------------------------------------
# Parts that several samples share.
# ---------------------------------------------------------------------------


def linear_shapes(inputs, outputs):
    return {"weight": shape(inputs, outputs), "bias": shape(outputs)}


def linear(parameters, inputs):
    return inputs @ parameters["weight"] + parameters["bias"]


def norm_shapes(width):
    return {"gain": shape(width), "bias": shape(width)}


def layer_norm(parameters, inputs):
    mean = jnp.mean(inputs, axis=-1, keepdims=True)
    variance = jnp.var(inputs, axis=-1, keepdims=True)
    return (inputs - mean) * lax.rsqrt(variance + 1e-5) * parameters["gain"] + parameters["bias"]


def attention_shapes(width):
    return {name: linear_shapes(width, width) for name in ("query", "key", "value", "output")}


def split_heads(inputs, heads):
    batch, length, width = inputs.shape
    return inputs.reshape(batch, length, heads, width // heads)


def attend(query, key, value, mask):
    """Softmax attention over [batch, length, heads, width] values."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = jnp.where(mask, scores, jnp.finfo(scores.dtype).min)
    weights = jax.nn.softmax(scores, axis=-1)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    return mixed.reshape(mixed.shape[0], mixed.shape[1], -1)


def attention(parameters, inputs, heads, mask=None):
    query, key, value = (
        split_heads(linear(parameters[name], inputs), heads) for name in ("query", "key", "value")
    )
    return linear(parameters["output"], attend(query, key, value, mask))


def causal(length):
    return jnp.tril(jnp.ones((length, length), bool))


def feed_forward_shapes(width, factor=4):
    inner = factor * width
    return {"up": linear_shapes(width, inner), "down": linear_shapes(inner, width)}


def feed_forward(parameters, inputs, approximate=True):
    return linear(parameters["down"], jax.nn.gelu(linear(parameters["up"], inputs), approximate))


def token_loss(logits, targets):
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(logits, targets))


def training(loss_function, optimizer):
    """The usual step: parameters, state and batch in; parameters, state and loss out."""

    def step(parameters, state, batch):
        loss, gradients = jax.value_and_grad(loss_function)(parameters, batch)
        with jax.named_scope("update"):
            changes, state = optimizer.update(gradients, state, parameters)
            parameters = optax.apply_updates(parameters, changes)
        return parameters, state, loss

    return step


def training_sample(random, loss_function, optimizer, parameters, batch):
    state = fill_state(random, optimizer, parameters)
    step = training(loss_function, optimizer)
    return Sample(step, (parameters, state, batch), donated=(0, 1))


# ---------------------------------------------------------------------------
# GPT and its variants.
# ---------------------------------------------------------------------------


def gpt_layer_shapes(sizes):
    return {
        "attn_norm": norm_shapes(sizes.hidden),
        "attn": attention_shapes(sizes.hidden),
        "mlp_norm": norm_shapes(sizes.hidden),
        "mlp": feed_forward_shapes(sizes.hidden),
    }


def gpt_shapes(sizes, layer_shapes=gpt_layer_shapes):
    return {
        "embedding": shape(sizes.vocabulary, sizes.hidden),
        "position": shape(sizes.sequence, sizes.hidden),
        "layers": [layer_shapes(sizes) for _ in range(sizes.layers)],
        "norm": norm_shapes(sizes.hidden),
    }


def gpt_layer(parameters, hidden, heads):
    with jax.named_scope("attn"):
        normed = layer_norm(parameters["attn_norm"], hidden)
        hidden = hidden + attention(parameters["attn"], normed, heads, causal(hidden.shape[1]))
    with jax.named_scope("mlp"):
        normed = layer_norm(parameters["mlp_norm"], hidden)
        return hidden + feed_forward(parameters["mlp"], normed)


def fused_layer_shapes(sizes):
    """Query, key and value in one matrix without a bias."""
    fused = {
        "all": {"weight": shape(sizes.hidden, 3 * sizes.hidden)},
        "output": linear_shapes(sizes.hidden, sizes.hidden),
    }
    return {**gpt_layer_shapes(sizes), "attn": fused}


def fused_layer(parameters, hidden, heads):
    with jax.named_scope("attn"):
        normed = layer_norm(parameters["attn_norm"], hidden)
        parts = jnp.split(normed @ parameters["attn"]["all"]["weight"], 3, axis=-1)
        query, key, value = (split_heads(part, heads) for part in parts)
        mixed = attend(query, key, value, causal(hidden.shape[1]))
        hidden = hidden + linear(parameters["attn"]["output"], mixed)
    with jax.named_scope("mlp"):
        normed = layer_norm(parameters["mlp_norm"], hidden)
        return hidden + feed_forward(parameters["mlp"], normed)


def gpt_embed(parameters, tokens):
    with jax.named_scope("embed"):
        return parameters["embedding"][tokens] + parameters["position"][: tokens.shape[1]]


def gpt_logits(parameters, hidden):
    """The embedding is also the output matrix."""
    with jax.named_scope("head"):
        return layer_norm(parameters["norm"], hidden) @ parameters["embedding"].T


def unrolled_layers(parameters, hidden, layer):
    for index, layer_parameters in enumerate(parameters["layers"]):
        with jax.named_scope(f"layer{index}"):
            hidden = layer(layer_parameters, hidden)
    return hidden


def scanned_layers(parameters, hidden, layer):
    def body(hidden, layer_parameters):
        with jax.named_scope("layer"):
            return layer(layer_parameters, hidden), None

    return lax.scan(body, hidden, parameters["layers"])[0]


def stack_layers(parameters):
    """One stacked array for each parameter of a layer, as a scan wants them."""
    stacked = jax.tree.map(lambda *leaves: numpy.stack(leaves), *parameters["layers"])
    return {**parameters, "layers": stacked}


def gpt_loss(sizes, layers=unrolled_layers, layer=gpt_layer):
    def loss_function(parameters, batch):
        hidden = gpt_embed(parameters, batch["tokens"])
        hidden = layers(parameters, hidden, functools.partial(layer, heads=sizes.heads))
        logits = gpt_logits(parameters, hidden)
        with jax.named_scope("loss"):
            return token_loss(logits, batch["targets"])

    return loss_function


def text_batch(random, sizes):
    tokens = integers(random, sizes.vocabulary, sizes.batch, sizes.sequence + 1)
    return {"tokens": tokens[:, :-1].copy(), "targets": tokens[:, 1:].copy()}


def adamw():
    return optax.adamw(3e-3, weight_decay=0.1)


def gpt():
    """Unrolled layers, learned positions, tied embedding, AdamW."""
    random, sizes = seeded(), Transformer()
    parameters = fill(random, gpt_shapes(sizes))
    return training_sample(random, gpt_loss(sizes), adamw(), parameters, text_batch(random, sizes))


def rematerialised_layer(parameters, hidden, heads):
    return jax.checkpoint(functools.partial(gpt_layer, heads=heads))(parameters, hidden)


def gpt_scan():
    """The layers as a scan over stacked parameters."""
    random, sizes = seeded(), Transformer(layers=3)
    parameters = stack_layers(fill(random, gpt_shapes(sizes)))
    loss_function = gpt_loss(sizes, layers=scanned_layers)
    return training_sample(random, loss_function, adamw(), parameters, text_batch(random, sizes))


def gpt_remat():
    """Every layer recomputed in the backward pass."""
    random, sizes = seeded(), Transformer()
    parameters = fill(random, gpt_shapes(sizes))
    loss_function = gpt_loss(sizes, layer=rematerialised_layer)
    return training_sample(random, loss_function, adamw(), parameters, text_batch(random, sizes))


def gpt_scan_remat():
    """A scan whose body is recomputed in the backward pass."""
    random, sizes = seeded(), Transformer(layers=3)
    parameters = stack_layers(fill(random, gpt_shapes(sizes)))
    loss_function = gpt_loss(sizes, layers=scanned_layers, layer=rematerialised_layer)
    return training_sample(random, loss_function, adamw(), parameters, text_batch(random, sizes))


def gpt_clip():
    """Fused attention, clipping by global norm, factored Adafactor, cosine schedule."""
    random, sizes = seeded(), Transformer()
    schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, warmup_steps=100, decay_steps=10_000)
    # The gradient's norm is above the limit, so that clipping has an effect.
    optimizer = optax.chain(
        optax.clip_by_global_norm(0.5),
        optax.adafactor(schedule, min_dim_size_to_factor=16),
    )
    parameters = fill(random, gpt_shapes(sizes, fused_layer_shapes))
    loss_function = gpt_loss(sizes, layer=fused_layer)
    return training_sample(random, loss_function, optimizer, parameters, text_batch(random, sizes))


def drop(key, inputs, rate):
    kept = jax.random.bernoulli(key, 1 - rate, inputs.shape)
    return jnp.where(kept, inputs / (1 - rate), 0)


def dropout_layer(parameters, hidden, heads, key, rate=0.1):
    attention_key, feed_forward_key = jax.random.split(key)
    with jax.named_scope("attn"):
        normed = layer_norm(parameters["attn_norm"], hidden)
        mixed = attention(parameters["attn"], normed, heads, causal(hidden.shape[1]))
        hidden = hidden + drop(attention_key, mixed, rate)
    with jax.named_scope("mlp"):
        normed = layer_norm(parameters["mlp_norm"], hidden)
        return hidden + drop(feed_forward_key, feed_forward(parameters["mlp"], normed), rate)


def dropout_sample(key):
    random, sizes = seeded(), Transformer()
    optimizer = optax.sgd(0.01, momentum=0.9)

    def loss_function(parameters, batch, key):
        hidden = gpt_embed(parameters, batch["tokens"])
        keys = jax.random.split(key, sizes.layers)
        for index, layer_parameters in enumerate(parameters["layers"]):
            with jax.named_scope(f"layer{index}"):
                hidden = dropout_layer(layer_parameters, hidden, sizes.heads, keys[index])
        return token_loss(gpt_logits(parameters, hidden), batch["targets"])

    def step(parameters, state, batch, key):
        key, dropout_key = jax.random.split(key)
        loss, gradients = jax.value_and_grad(loss_function)(parameters, batch, dropout_key)
        changes, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, changes), state, key, loss

    parameters = fill(random, gpt_shapes(sizes))
    state = fill_state(random, optimizer, parameters)
    return Sample(step, (parameters, state, text_batch(random, sizes), key), donated=(0, 1, 3))


def gpt_dropout():
    """Dropout whose key is passed as raw integers."""
    return dropout_sample(jax.random.PRNGKey(7))


def gpt_dropout_typed():
    """Dropout whose key has JAX's key type; the text shows its integers."""
    return dropout_sample(jax.random.key(7))


def gpt32():
    """A large GPT for timing the import: shapes only."""
    sizes = Transformer(
        layers=32, hidden=2560, heads=32, sequence=1024, vocabulary=51200, batch=8
    )
    optimizer = optax.adamw(1e-4, b2=0.95, weight_decay=0.1)
    parameters = gpt_shapes(sizes, fused_layer_shapes)
    tokens = shape(sizes.batch, sizes.sequence, dtype=jnp.int32)
    batch = {"tokens": tokens, "targets": tokens}
    state = jax.eval_shape(optimizer.init, parameters)
    step = training(gpt_loss(sizes, layer=fused_layer), optimizer)
    return Sample(step, (parameters, state, batch), donated=(0, 1))


class FlaxLayer(nnx.Module):
    def __init__(self, sizes, rngs):
        self.attention_norm = nnx.LayerNorm(sizes.hidden, rngs=rngs)
        self.attention = nnx.MultiHeadAttention(
            num_heads=sizes.heads, in_features=sizes.hidden, decode=False, rngs=rngs
        )
        self.mlp_norm = nnx.LayerNorm(sizes.hidden, rngs=rngs)
        self.up = nnx.Linear(sizes.hidden, 4 * sizes.hidden, rngs=rngs)
        self.down = nnx.Linear(4 * sizes.hidden, sizes.hidden, rngs=rngs)

    def __call__(self, hidden, mask):
        hidden = hidden + self.attention(self.attention_norm(hidden), mask=mask)
        return hidden + self.down(nnx.gelu(self.up(self.mlp_norm(hidden))))


class FlaxGpt(nnx.Module):
    def __init__(self, sizes, rngs):
        self.embedding = nnx.Embed(sizes.vocabulary, sizes.hidden, rngs=rngs)
        self.position = nnx.Embed(sizes.sequence, sizes.hidden, rngs=rngs)
        self.layers = nnx.List([FlaxLayer(sizes, rngs) for _ in range(sizes.layers)])
        self.norm = nnx.LayerNorm(sizes.hidden, rngs=rngs)

    def __call__(self, tokens):
        hidden = self.embedding(tokens) + self.position(jnp.arange(tokens.shape[1]))
        mask = nnx.make_causal_mask(tokens)
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return self.embedding.attend(self.norm(hidden))


def gpt_flax():
    """A model of Flax modules, split into its structure and its parameters."""
    random, sizes = seeded(), Transformer()
    structure, parameters = nnx.split(FlaxGpt(sizes, nnx.Rngs(0)), nnx.Param)
    parameters = jax.tree.map(short, parameters)

    def loss_function(parameters, batch):
        model = nnx.merge(structure, parameters)
        return token_loss(model(batch["tokens"]), batch["targets"])

    return training_sample(random, loss_function, adamw(), parameters, text_batch(random, sizes))


# ---------------------------------------------------------------------------
# Mixtures of experts: every second layer is one.
# ---------------------------------------------------------------------------

EXPERTS = 4


def mixture_shapes(sizes):
    def layer_shapes(index):
        layer = {
            "attn_norm": norm_shapes(sizes.hidden),
            "attn": attention_shapes(sizes.hidden),
            "mlp_norm": norm_shapes(sizes.hidden),
        }
        if index % 2 == 0:
            return {**layer, "mlp": feed_forward_shapes(sizes.hidden, factor=2)}
        experts = {
            "router": shape(sizes.hidden, EXPERTS),
            "up": shape(EXPERTS, sizes.hidden, sizes.hidden),
            "down": shape(EXPERTS, sizes.hidden, sizes.hidden),
        }
        return {**layer, "experts": experts}

    layers = [layer_shapes(index) for index in range(sizes.layers)]
    return {**gpt_shapes(sizes), "layers": layers}


def mixture_loss(sizes, mixture, capacity):
    """`mixture` gives the output of the experts and the loss that balances them."""

    def loss_function(parameters, batch):
        hidden = gpt_embed(parameters, batch["tokens"])
        auxiliary = 0.0
        for index, layer in enumerate(parameters["layers"]):
            with jax.named_scope(f"layer{index}"):
                with jax.named_scope("attn"):
                    normed = layer_norm(layer["attn_norm"], hidden)
                    mask = causal(hidden.shape[1])
                    hidden = hidden + attention(layer["attn"], normed, sizes.heads, mask)
                normed = layer_norm(layer["mlp_norm"], hidden)
                if "mlp" in layer:
                    with jax.named_scope("mlp"):
                        hidden = hidden + feed_forward(layer["mlp"], normed)
                else:
                    with jax.named_scope("experts"):
                        output, balance = mixture(layer["experts"], normed, capacity)
                        hidden = hidden + output
                        auxiliary = auxiliary + balance
        logits = gpt_logits(parameters, hidden)
        return token_loss(logits, batch["targets"]) + 0.01 * auxiliary

    return loss_function


def balance_loss(gates, first):
    """Small when the experts get equally many tokens."""
    fraction = jnp.mean(first.reshape(-1, EXPERTS), axis=0)
    probability = jnp.mean(gates.reshape(-1, EXPERTS), axis=0)
    return EXPERTS * jnp.sum(fraction * probability)


def einsum_mixture(parameters, hidden, capacity):
    """Dispatch as GShard does it: top 2, one-hot masks, einsum."""
    gates = jax.nn.softmax(jnp.einsum("gsm,me->gse", hidden, parameters["router"]), axis=-1)
    first = jax.nn.one_hot(jnp.argmax(gates, axis=-1), EXPERTS)
    second = jax.nn.one_hot(jnp.argmax(gates * (1 - first), axis=-1), EXPERTS)
    auxiliary = balance_loss(gates, first)

    # A token's place in the queue of its expert; second choices queue last.
    first_place = (jnp.cumsum(first, axis=1) - first) * first
    first = first * (first_place < capacity)
    taken = jnp.sum(first, axis=1, keepdims=True)
    second_place = (jnp.cumsum(second, axis=1) - second + taken) * second
    second = second * (second_place < capacity)

    first_gate = jnp.sum(gates * first, axis=-1)
    second_gate = jnp.sum(gates * second, axis=-1)
    total = jnp.maximum(first_gate + second_gate, 1e-9)

    def combine_weights(gate, chosen, place):
        place = jnp.sum(place, axis=-1).astype(jnp.int32)
        weighted = (gate / total)[..., None] * chosen
        return jnp.einsum("gse,gsc->gsec", weighted, jax.nn.one_hot(place, capacity))

    combine = combine_weights(first_gate, first, first_place)
    combine = combine + combine_weights(second_gate, second, second_place)
    dispatch = (combine > 0).astype(hidden.dtype)

    inputs = jnp.einsum("gsec,gsm->egcm", dispatch, hidden)
    inner = jax.nn.relu(jnp.einsum("egcm,emf->egcf", inputs, parameters["up"]))
    outputs = jnp.einsum("egcf,efm->egcm", inner, parameters["down"])
    return jnp.einsum("gsec,egcm->gsm", combine, outputs), auxiliary


def moe_einsum():
    """Experts reached by einsum with one-hot masks."""
    random, sizes = seeded(), Transformer(layers=4)
    parameters = fill(random, mixture_shapes(sizes))
    # Eight places for each expert would be just enough on average: some tokens are dropped.
    loss_function = mixture_loss(sizes, einsum_mixture, capacity=8)
    return training_sample(random, loss_function, adamw(), parameters, text_batch(random, sizes))


def sorted_mixture(parameters, hidden, capacity):
    """Dispatch by sorting the (token, choice) pairs by expert."""
    choices = 2
    tokens = hidden.reshape(-1, hidden.shape[-1])
    gates = jax.nn.softmax(tokens @ parameters["router"], axis=-1)
    chosen_gates, chosen = lax.top_k(gates, choices)
    chosen_gates = chosen_gates / jnp.sum(chosen_gates, axis=-1, keepdims=True)
    auxiliary = balance_loss(gates, jax.nn.one_hot(chosen[:, 0], EXPERTS))

    pair_experts = chosen.reshape(-1)
    order = jnp.argsort(pair_experts)
    experts = pair_experts[order]
    sources = order // choices
    counts = jnp.bincount(pair_experts, length=EXPERTS)
    starts = jnp.cumsum(counts) - counts
    places = jnp.arange(len(order)) - starts[experts]

    # Pairs past the capacity fall outside of the buffer and are dropped.
    buffer = jnp.zeros((EXPERTS, capacity, tokens.shape[-1]), tokens.dtype)
    inputs = buffer.at[experts, places].set(tokens[sources], mode="drop")
    inner = jax.nn.silu(jnp.einsum("ecm,emf->ecf", inputs, parameters["up"]))
    outputs = jnp.einsum("ecf,efm->ecm", inner, parameters["down"])
    pairs = outputs.at[experts, places].get(mode="fill", fill_value=0)
    weighted = pairs * chosen_gates.reshape(-1)[order][:, None]
    mixed = jnp.zeros_like(tokens).at[sources].add(weighted)
    return mixed.reshape(hidden.shape), auxiliary


def moe_sort():
    """Experts reached by top_k, sort, gather and scatter."""
    random, sizes = seeded(), Transformer(layers=4)
    parameters = fill(random, mixture_shapes(sizes))
    loss_function = mixture_loss(sizes, sorted_mixture, capacity=32)
    return training_sample(random, loss_function, adamw(), parameters, text_batch(random, sizes))


# ---------------------------------------------------------------------------
# Llama in mixed precision.
# ---------------------------------------------------------------------------


def llama_shapes(sizes, groups):
    head = sizes.hidden // sizes.heads
    layer = {
        "attn_norm": {"gain": shape(sizes.hidden)},
        "query": shape(sizes.hidden, sizes.heads * head),
        "key": shape(sizes.hidden, groups * head),
        "value": shape(sizes.hidden, groups * head),
        "output": shape(sizes.heads * head, sizes.hidden),
        "mlp_norm": {"gain": shape(sizes.hidden)},
        "gate": shape(sizes.hidden, 3 * sizes.hidden),
        "up": shape(sizes.hidden, 3 * sizes.hidden),
        "down": shape(3 * sizes.hidden, sizes.hidden),
    }
    return {
        "embedding": shape(sizes.vocabulary, sizes.hidden),
        "layers": [layer for _ in range(sizes.layers)],
        "norm": {"gain": shape(sizes.hidden)},
        "head": shape(sizes.hidden, sizes.vocabulary),
    }


def root_mean_square_norm(parameters, inputs):
    wide = inputs.astype(jnp.float32)
    wide = wide * lax.rsqrt(jnp.mean(jnp.square(wide), axis=-1, keepdims=True) + 1e-5)
    # In float32, so that the gain's gradient is not a long sum in bfloat16.
    return (wide * parameters["gain"].astype(jnp.float32)).astype(inputs.dtype)


def rotate(inputs):
    """Rotary positions, applied to [batch, length, heads, width]."""
    half = inputs.shape[-1] // 2
    frequencies = 10000.0 ** (-jnp.arange(half) / half)
    angles = jnp.arange(inputs.shape[1])[:, None] * frequencies
    cosine, sine = jnp.cos(angles)[:, None, :], jnp.sin(angles)[:, None, :]
    low, high = jnp.split(inputs.astype(jnp.float32), 2, axis=-1)
    rotated = jnp.concatenate([low * cosine - high * sine, high * cosine + low * sine], axis=-1)
    return rotated.astype(inputs.dtype)


def llama_layer(parameters, hidden, heads, groups):
    with jax.named_scope("attn"):
        normed = root_mean_square_norm(parameters["attn_norm"], hidden)
        query = rotate(split_heads(normed @ parameters["query"], heads))
        key = rotate(split_heads(normed @ parameters["key"], groups))
        value = split_heads(normed @ parameters["value"], groups)
        batch, length, _, width = query.shape
        query = query.reshape(batch, length, groups, heads // groups, width)
        scores = jnp.einsum("bqghd,bkgd->bghqk", query, key) / math.sqrt(width)
        scores = jnp.where(causal(length), scores.astype(jnp.float32), -jnp.inf)
        weights = jax.nn.softmax(scores, axis=-1).astype(hidden.dtype)
        mixed = jnp.einsum("bghqk,bkgd->bqghd", weights, value).reshape(hidden.shape)
        hidden = hidden + mixed @ parameters["output"]
    with jax.named_scope("mlp"):
        normed = root_mean_square_norm(parameters["mlp_norm"], hidden)
        inner = jax.nn.silu(normed @ parameters["gate"]) * (normed @ parameters["up"])
        return hidden + inner @ parameters["down"]


def llama_bf16():
    """Bfloat16 compute from a working copy; float32 masters and Adam state."""
    random, sizes, groups = seeded(), Transformer(), 2
    optimizer = optax.adam(3e-3)

    def working_copy(parameters):
        return jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), parameters)

    def loss_function(working, batch):
        hidden = working["embedding"][batch["tokens"]]
        for index, layer in enumerate(working["layers"]):
            with jax.named_scope(f"layer{index}"):
                hidden = llama_layer(layer, hidden, sizes.heads, groups)
        logits = root_mean_square_norm(working["norm"], hidden) @ working["head"]
        return token_loss(logits.astype(jnp.float32), batch["targets"])

    def step(working, masters, state, batch):
        loss, gradients = jax.value_and_grad(loss_function)(working, batch)
        gradients = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), gradients)
        changes, state = optimizer.update(gradients, state, masters)
        masters = optax.apply_updates(masters, changes)
        return working_copy(masters), masters, state, loss

    masters = fill(random, llama_shapes(sizes, groups))
    state = fill_state(random, optimizer, masters)
    batch = text_batch(random, sizes)
    return Sample(step, (working_copy(masters), masters, state, batch), donated=(0, 1, 2))


# ---------------------------------------------------------------------------
# Images.
# ---------------------------------------------------------------------------


def convolution_shapes(inputs, outputs, width=3):
    return {"weight": shape(width, width, inputs, outputs), "bias": shape(outputs)}


def convolution(parameters, inputs, stride=1, padding="SAME"):
    weight = parameters["weight"]
    layout = ("NHWC", "HWIO", "NHWC")
    output = lax.conv_general_dilated(
        inputs, weight, (stride, stride), padding, dimension_numbers=layout
    )
    return output + parameters["bias"] if "bias" in parameters else output


def group_norm(parameters, inputs, groups=2):
    batch, height, width, channels = inputs.shape
    grouped = inputs.reshape(batch, height, width, groups, channels // groups)
    mean = jnp.mean(grouped, axis=(1, 2, 4), keepdims=True)
    variance = jnp.var(grouped, axis=(1, 2, 4), keepdims=True)
    normed = ((grouped - mean) * lax.rsqrt(variance + 1e-5)).reshape(inputs.shape)
    return normed * parameters["gain"] + parameters["bias"]


def residual_shapes(inputs, outputs, time):
    shapes = {
        "norm1": norm_shapes(inputs),
        "conv1": convolution_shapes(inputs, outputs),
        "time": linear_shapes(time, outputs),
        "norm2": norm_shapes(outputs),
        "conv2": convolution_shapes(outputs, outputs),
    }
    if inputs != outputs:
        shapes["skip"] = convolution_shapes(inputs, outputs, width=1)
    return shapes


def residual(parameters, inputs, time):
    hidden = jax.nn.silu(group_norm(parameters["norm1"], inputs))
    hidden = convolution(parameters["conv1"], hidden)
    hidden = hidden + linear(parameters["time"], time)[:, None, None, :]
    hidden = jax.nn.silu(group_norm(parameters["norm2"], hidden))
    hidden = convolution(parameters["conv2"], hidden)
    return hidden + (convolution(parameters["skip"], inputs) if "skip" in parameters else inputs)


def image_attention(parameters, inputs, heads=2):
    batch, height, width, channels = inputs.shape
    normed = group_norm(parameters["norm"], inputs).reshape(batch, height * width, channels)
    return inputs + attention(parameters["attention"], normed, heads).reshape(inputs.shape)


def time_embedding(time, width):
    frequencies = jnp.exp(-math.log(10000.0) * jnp.arange(width // 2) / (width // 2))
    angles = time[:, None] * frequencies
    return jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], axis=-1)


def unet():
    """A denoising UNet of three resolutions with attention at the lowest."""
    random, time_width, (small, large) = seeded(), 16, (4, 8)
    shapes = {
        "time": linear_shapes(time_width, time_width),
        "input": convolution_shapes(3, small),
        "down1": residual_shapes(small, small, time_width),
        "shrink1": convolution_shapes(small, large),
        "down2": residual_shapes(large, large, time_width),
        "shrink2": convolution_shapes(large, large),
        "middle": residual_shapes(large, large, time_width),
        "attention": {"norm": norm_shapes(large), "attention": attention_shapes(large)},
        "grow2": convolution_shapes(large, large),
        "up2": residual_shapes(2 * large, large, time_width),
        "grow1": convolution_shapes(large, small, width=4),
        "up1": residual_shapes(2 * small, small, time_width),
        "norm": norm_shapes(small),
        "output": convolution_shapes(small, 3),
    }

    def predict(parameters, images, time):
        time = jax.nn.silu(linear(parameters["time"], time_embedding(time, time_width)))
        with jax.named_scope("down1"):
            hidden = convolution(parameters["input"], images)
            high = residual(parameters["down1"], hidden, time)
        with jax.named_scope("down2"):
            hidden = convolution(parameters["shrink1"], high, stride=2)
            middle = residual(parameters["down2"], hidden, time)
        with jax.named_scope("middle"):
            hidden = convolution(parameters["shrink2"], middle, stride=2)
            hidden = residual(parameters["middle"], hidden, time)
            hidden = image_attention(parameters["attention"], hidden)
        with jax.named_scope("up2"):
            # Nearest neighbour: every pixel becomes two by two.
            hidden = jnp.repeat(jnp.repeat(hidden, 2, axis=1), 2, axis=2)
            hidden = convolution(parameters["grow2"], hidden)
            hidden = residual(
                parameters["up2"], jnp.concatenate([hidden, middle], axis=-1), time
            )
        with jax.named_scope("up1"):
            grow = parameters["grow1"]
            hidden = lax.conv_transpose(
                hidden, grow["weight"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            hidden = hidden + grow["bias"]
            hidden = residual(parameters["up1"], jnp.concatenate([hidden, high], axis=-1), time)
        hidden = jax.nn.silu(group_norm(parameters["norm"], hidden))
        return convolution(parameters["output"], hidden)

    def loss_function(parameters, batch):
        level = batch["time"] / 1000
        noise, images = batch["noise"], batch["images"]
        signal = jnp.cos(level * jnp.pi / 2)[:, None, None, None]
        noisy = signal * images + jnp.sqrt(1 - signal**2) * noise
        return jnp.mean((predict(parameters, noisy, batch["time"]) - noise) ** 2)

    batch = {
        "images": normal(random, 2, 16, 16, 3),
        "noise": normal(random, 2, 16, 16, 3),
        "time": numpy.array([130.0, 720.0], numpy.float32),
    }
    return training_sample(random, loss_function, optax.adam(1e-3), fill(random, shapes), batch)


def resnet():
    """Batch norm with running statistics, strided convolutions, max pool, momentum."""
    random, optimizer = seeded(), optax.sgd(0.05, momentum=0.9)

    def unit_shapes(inputs, outputs, width=3):
        weight = shape(width, width, inputs, outputs)
        return {"conv": {"weight": weight}, "norm": norm_shapes(outputs)}

    shapes = {
        "stem": unit_shapes(3, 8),
        "block1": {"first": unit_shapes(8, 8), "second": unit_shapes(8, 8)},
        "block2": {
            "first": unit_shapes(8, 16),
            "second": unit_shapes(16, 16),
            "skip": unit_shapes(8, 16, width=1),
        },
        "head": linear_shapes(16, 10),
    }

    def unit(parameters, statistics, inputs, stride=1):
        """Convolution and batch norm; gives the output and the new statistics."""
        hidden = convolution(parameters["conv"], inputs, stride)
        mean = jnp.mean(hidden, axis=(0, 1, 2))
        variance = jnp.var(hidden, axis=(0, 1, 2))
        statistics = {
            "mean": 0.9 * statistics["mean"] + 0.1 * mean,
            "variance": 0.9 * statistics["variance"] + 0.1 * variance,
        }
        normed = (hidden - mean) * lax.rsqrt(variance + 1e-5)
        return normed * parameters["norm"]["gain"] + parameters["norm"]["bias"], statistics

    def block(parameters, statistics, inputs, stride):
        updated = {}
        hidden, updated["first"] = unit(parameters["first"], statistics["first"], inputs, stride)
        hidden = jax.nn.relu(hidden)
        hidden, updated["second"] = unit(parameters["second"], statistics["second"], hidden)
        if "skip" in parameters:
            inputs, updated["skip"] = unit(parameters["skip"], statistics["skip"], inputs, stride)
        return jax.nn.relu(hidden + inputs), updated

    def loss_function(parameters, statistics, batch):
        updated = {}
        with jax.named_scope("stem"):
            hidden, updated["stem"] = unit(parameters["stem"], statistics["stem"], batch["images"])
            hidden = lax.reduce_window(
                jax.nn.relu(hidden), -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
            )
        for name, stride in (("block1", 1), ("block2", 2)):
            with jax.named_scope(name):
                hidden, updated[name] = block(parameters[name], statistics[name], hidden, stride)
        logits = linear(parameters["head"], jnp.mean(hidden, axis=(1, 2)))
        return token_loss(logits, batch["labels"]), updated

    def step(parameters, statistics, state, batch):
        gradient_function = jax.value_and_grad(loss_function, has_aux=True)
        (loss, statistics), gradients = gradient_function(parameters, statistics, batch)
        changes, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, changes), statistics, state, loss

    def fill_statistics(shapes):
        if "norm" in shapes:
            sizes = shapes["norm"]["gain"].shape
            return {
                "mean": short(0.1 * random.standard_normal(sizes)),
                "variance": short(random.uniform(0.5, 1.5, sizes)),
            }
        return {name: fill_statistics(inner) for name, inner in shapes.items() if name != "head"}

    parameters = fill(random, shapes)
    state = fill_state(random, optimizer, parameters)
    batch = {"images": normal(random, 4, 16, 16, 3), "labels": integers(random, 10, 4)}
    arguments = (parameters, fill_statistics(shapes), state, batch)
    return Sample(step, arguments, donated=(0, 1, 2))


def vit():
    """Patches by convolution, a class token, exact gelu, label smoothing."""
    random, classes, patch = seeded(), 10, 4
    sizes = Transformer(sequence=(16 // patch) ** 2 + 1)
    shapes = {
        "patch": convolution_shapes(3, sizes.hidden, width=patch),
        "class_token": shape(1, 1, sizes.hidden),
        "position": shape(sizes.sequence, sizes.hidden),
        "layers": [gpt_layer_shapes(sizes) for _ in range(sizes.layers)],
        "norm": norm_shapes(sizes.hidden),
        "head": linear_shapes(sizes.hidden, classes),
    }

    def layer(parameters, hidden):
        with jax.named_scope("attn"):
            normed = layer_norm(parameters["attn_norm"], hidden)
            hidden = hidden + attention(parameters["attn"], normed, sizes.heads)
        with jax.named_scope("mlp"):
            normed = layer_norm(parameters["mlp_norm"], hidden)
            return hidden + feed_forward(parameters["mlp"], normed, approximate=False)

    def loss_function(parameters, batch):
        with jax.named_scope("patch"):
            patches = convolution(parameters["patch"], batch["images"], patch, "VALID")
            patches = patches.reshape(sizes.batch, -1, sizes.hidden)
            first = jnp.broadcast_to(parameters["class_token"], (sizes.batch, 1, sizes.hidden))
            hidden = jnp.concatenate([first, patches], axis=1) + parameters["position"]
        hidden = unrolled_layers(parameters, hidden, layer)
        logits = linear(parameters["head"], layer_norm(parameters["norm"], hidden)[:, 0])
        labels = optax.smooth_labels(jax.nn.one_hot(batch["labels"], classes), 0.1)
        return jnp.mean(optax.softmax_cross_entropy(logits, labels))

    batch = {
        "images": normal(random, sizes.batch, 16, 16, 3),
        "labels": integers(random, classes, sizes.batch),
    }
    return training_sample(random, loss_function, adamw(), fill(random, shapes), batch)


# ---------------------------------------------------------------------------
# Other kinds of model.
# ---------------------------------------------------------------------------


def lstm_scan():
    """A scan over time inside of a loop that accumulates gradients."""
    random, vocabulary, hidden_width, batch_size, length, pieces = seeded(), 32, 16, 8, 10, 2
    optimizer = optax.adam(3e-3)
    shapes = {
        "embedding": shape(vocabulary, hidden_width),
        "cell": linear_shapes(2 * hidden_width, 4 * hidden_width),
        "head": linear_shapes(hidden_width, vocabulary),
    }

    def loss_function(parameters, tokens, targets):
        def cell(carry, inputs):
            memory, output = carry
            gates = linear(parameters["cell"], jnp.concatenate([inputs, output], axis=-1))
            enter, forget, leave, value = jnp.split(gates, 4, axis=-1)
            memory = jax.nn.sigmoid(forget + 1) * memory
            memory = memory + jax.nn.sigmoid(enter) * jnp.tanh(value)
            output = jax.nn.sigmoid(leave) * jnp.tanh(memory)
            return (memory, output), output

        embedded = parameters["embedding"][tokens].swapaxes(0, 1)
        start = jnp.zeros((tokens.shape[0], hidden_width))
        _, outputs = lax.scan(cell, (start, start), embedded)
        return token_loss(linear(parameters["head"], outputs), targets.swapaxes(0, 1))

    def step(parameters, state, batch):
        size = batch_size // pieces

        def accumulate(index, carry):
            total, sum_of_gradients = carry
            tokens, targets = (
                lax.dynamic_slice_in_dim(batch[name], index * size, size)
                for name in ("tokens", "targets")
            )
            loss, gradients = jax.value_and_grad(loss_function)(parameters, tokens, targets)
            return total + loss, jax.tree.map(jnp.add, sum_of_gradients, gradients)

        start = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters))
        loss, gradients = lax.fori_loop(0, pieces, accumulate, start)
        gradients = jax.tree.map(lambda leaf: leaf / pieces, gradients)
        changes, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, changes), state, loss / pieces

    parameters = fill(random, shapes)
    state = fill_state(random, optimizer, parameters)
    batch = text_batch(
        random, Transformer(vocabulary=vocabulary, batch=batch_size, sequence=length)
    )
    return Sample(step, (parameters, state, batch), donated=(0, 1))


def graph_network():
    """Three rounds of messages along edges, weighted by a softmax over each node's edges."""
    random, rounds, width, classes, nodes, edges = seeded(), 3, 16, 5, 24, 80
    round_shapes = {
        "message": linear_shapes(3 * width, width),
        "score": shape(width, 1),
        "update": linear_shapes(2 * width, width),
        "norm": norm_shapes(width),
    }
    shapes = {
        "nodes": linear_shapes(8, width),
        "edges": linear_shapes(4, width),
        "rounds": [round_shapes for _ in range(rounds)],
        "head": linear_shapes(width, classes),
    }

    def pass_messages(parameters, hidden, edge_hidden, senders, receivers):
        inputs = jnp.concatenate([hidden[senders], hidden[receivers], edge_hidden], axis=-1)
        messages = jax.nn.relu(linear(parameters["message"], inputs))
        scores = messages @ parameters["score"]
        largest = lax.stop_gradient(jax.ops.segment_max(scores, receivers, nodes))
        weights = jnp.exp(scores - largest[receivers])
        totals = jax.ops.segment_sum(weights, receivers, nodes)
        weights = weights / totals[receivers]
        gathered = jax.ops.segment_sum(weights * messages, receivers, nodes)
        changed = linear(parameters["update"], jnp.concatenate([hidden, gathered], axis=-1))
        return layer_norm(parameters["norm"], hidden + jax.nn.relu(changed))

    def loss_function(parameters, batch):
        hidden = linear(parameters["nodes"], batch["nodes"])
        edge_hidden = linear(parameters["edges"], batch["edges"])
        for index, round_parameters in enumerate(parameters["rounds"]):
            with jax.named_scope(f"round{index}"):
                hidden = pass_messages(
                    round_parameters, hidden, edge_hidden, batch["senders"], batch["receivers"]
                )
        logits = linear(parameters["head"], hidden)
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["labels"])
        known = batch["known"]
        return jnp.sum(jnp.where(known, losses, 0)) / jnp.sum(known)

    batch = {
        "nodes": normal(random, nodes, 8),
        "edges": normal(random, edges, 4),
        "senders": integers(random, nodes, edges),
        "receivers": integers(random, nodes, edges),
        "labels": integers(random, classes, nodes),
        "known": random.uniform(size=nodes) < 0.7,
    }
    return training_sample(random, loss_function, optax.adam(3e-3), fill(random, shapes), batch)


def decode():
    """Greedy decoding with a cache of keys and values, until all texts have ended."""
    sizes, prompt_length = Transformer(batch=2), 4
    # With this seed and end token the two texts end at different places, before the limit.
    random, end = seeded(24), 30

    def decode_layer(parameters, cache, hidden, position):
        with jax.named_scope("attn"):
            normed = layer_norm(parameters["attn_norm"], hidden)
            query, key, value = (
                split_heads(linear(parameters["attn"][name], normed), sizes.heads)
                for name in ("query", "key", "value")
            )
            keys = lax.dynamic_update_slice(cache["keys"], key, (0, position, 0, 0))
            values = lax.dynamic_update_slice(cache["values"], value, (0, position, 0, 0))
            mask = jnp.arange(sizes.sequence) <= position
            mixed = attend(query, keys, values, mask)
            hidden = hidden + linear(parameters["attn"]["output"], mixed)
        with jax.named_scope("mlp"):
            normed = layer_norm(parameters["mlp_norm"], hidden)
            hidden = hidden + feed_forward(parameters["mlp"], normed)
        return hidden, {"keys": keys, "values": values}

    def step(parameters, caches, prompt):
        def unfinished(carry):
            position, _, ended, _ = carry
            return (position < sizes.sequence - 1) & ~jnp.all(ended)

        def decode_one(carry):
            position, tokens, ended, caches = carry
            token = lax.dynamic_slice_in_dim(tokens, position, 1, axis=1)
            place = lax.dynamic_slice_in_dim(parameters["position"], position, 1)
            hidden = parameters["embedding"][token] + place
            updated = []
            for index, layer_parameters in enumerate(parameters["layers"]):
                with jax.named_scope(f"layer{index}"):
                    hidden, cache = decode_layer(
                        layer_parameters, caches[index], hidden, position
                    )
                    updated.append(cache)
            best = jnp.argmax(gpt_logits(parameters, hidden), axis=-1).astype(tokens.dtype)
            given = lax.dynamic_slice_in_dim(tokens, position + 1, 1, axis=1)
            inside = position + 1 < prompt_length
            following = jnp.where(inside, given, jnp.where(ended[:, None], end, best))
            tokens = lax.dynamic_update_slice_in_dim(tokens, following, position + 1, axis=1)
            ended = ended | (~inside & (following[:, 0] == end))
            return position + 1, tokens, ended, updated

        rest = sizes.sequence - prompt_length
        tokens = jnp.pad(prompt, ((0, 0), (0, rest)), constant_values=end)
        ended = jnp.zeros(sizes.batch, bool)
        carry = (jnp.int32(0), tokens, ended, caches)
        position, tokens, ended, caches = lax.while_loop(unfinished, decode_one, carry)
        return tokens, ended, position, caches

    parameters = fill(random, gpt_shapes(sizes))
    empty = numpy.zeros(
        (sizes.batch, sizes.sequence, sizes.heads, sizes.hidden // sizes.heads), numpy.float32
    )
    caches = [{"keys": empty, "values": empty} for _ in range(sizes.layers)]
    prompt = integers(random, sizes.vocabulary, sizes.batch, prompt_length)
    return Sample(step, (parameters, caches, prompt), donated=(1,))


def evaluate():
    """Loss and accuracy over the tokens that count; no state."""
    random, sizes = seeded(), Transformer()

    def predict(parameters, tokens):
        hidden = gpt_embed(parameters, tokens)
        layer = functools.partial(gpt_layer, heads=sizes.heads)
        return gpt_logits(parameters, unrolled_layers(parameters, hidden, layer))

    def step(parameters, batch):
        logits = predict(parameters, batch["tokens"])
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch["targets"])
        counted = batch["counted"]
        correct = jnp.argmax(logits, axis=-1) == batch["targets"]
        count = jnp.sum(counted)
        return {
            "loss": jnp.sum(losses * counted) / count,
            "accuracy": jnp.sum(correct & counted) / count,
            "count": count,
        }

    parameters = fill(random, gpt_shapes(sizes))
    batch = text_batch(random, sizes)
    # Some targets are what the model guesses, so that the accuracy is not zero.
    guesses = numpy.argmax(predict(parameters, batch["tokens"]), axis=-1).astype(numpy.int32)
    guessed = random.uniform(size=guesses.shape) < 0.4
    batch["targets"] = numpy.where(guessed, guesses, batch["targets"])
    batch["counted"] = random.uniform(size=batch["targets"].shape) < 0.8
    return Sample(step, (parameters, batch))


@dataclasses.dataclass
class GpuSample(Sample):
    """A step that is lowered for GPUs, and one that computes the same on a CPU."""

    step_on_cpu: typing.Callable | None = None


def attention_cudnn():
    """Attention as calls of cuDNN: causal with shared keys, then with a learned bias; SGD."""
    # Lowering asks for the version of a library that only machines with a GPU have.
    from jax._src.cudnn import fused_attention_stablehlo

    fused_attention_stablehlo.check_cudnn_version = lambda: 91000
    random, batch_size, length, heads, groups, width = seeded(), 2, 8, 4, 2, 8
    hidden_width = heads * width
    layer_shapes = {
        "query": shape(hidden_width, heads * width),
        "key": shape(hidden_width, groups * width),
        "value": shape(hidden_width, groups * width),
    }
    shapes = {"causal": layer_shapes, "biased": layer_shapes, "scores": shape(1, heads, length, length)}

    def attend(fused, parameters, hidden, **options):
        query, key, value = (
            split_heads(hidden @ parameters[name], count).astype(jnp.float16)
            for name, count in (("query", heads), ("key", groups), ("value", groups))
        )
        mixed = fused(query, key, value, **options)
        return hidden + mixed.astype(jnp.float32).reshape(hidden.shape)

    def on_gpu(*inputs, **options):
        return jax.nn.dot_product_attention(*inputs, **options, implementation="cudnn")

    def on_cpu(*inputs, bias=None, **options):
        """As cuDNN computes: inputs and results are float16, all in between is float32."""
        inputs = [value.astype(jnp.float32) for value in inputs]
        bias = None if bias is None else bias.astype(jnp.float32)
        options["implementation"] = "xla"
        mixed = jax.nn.dot_product_attention(*inputs, bias=bias, **options)
        return mixed.astype(jnp.float16)

    def loss_function(fused, parameters, batch):
        with jax.named_scope("causal"):
            hidden = attend(fused, parameters["causal"], batch["inputs"], is_causal=True)
        with jax.named_scope("biased"):
            bias = parameters["scores"].astype(jnp.float16)
            hidden = attend(fused, parameters["biased"], hidden, bias=bias)
        return jnp.mean(jnp.square(hidden - batch["targets"]))

    step, step_on_cpu = (
        training(functools.partial(loss_function, fused), optax.sgd(0.1, momentum=0.9))
        for fused in (on_gpu, on_cpu)
    )
    parameters = fill(random, shapes)
    state = fill_state(random, optax.sgd(0.1, momentum=0.9), parameters)
    batch = {name: normal(random, batch_size, length, hidden_width) for name in ("inputs", "targets")}
    return GpuSample(step, (parameters, state, batch), donated=(0, 1), step_on_cpu=step_on_cpu)


# ---------------------------------------------------------------------------
# The table of samples and the writing of files.
# ---------------------------------------------------------------------------


@dataclasses.dataclass
class Row:
    build: typing.Callable[[], Sample]
    pretty: bool = False
    values: bool = True


SAMPLES = {
    "gpt": Row(gpt, pretty=True),
    "gpt_scan": Row(gpt_scan),
    "gpt_remat": Row(gpt_remat),
    "gpt_scan_remat": Row(gpt_scan_remat),
    "gpt_clip": Row(gpt_clip),
    "gpt_dropout": Row(gpt_dropout),
    "gpt_dropout_typed": Row(gpt_dropout_typed),
    "gpt_flax": Row(gpt_flax),
    "moe_einsum": Row(moe_einsum),
    "moe_sort": Row(moe_sort),
    "llama_bf16": Row(llama_bf16),
    "unet": Row(unet),
    "resnet": Row(resnet, pretty=True),
    "vit": Row(vit),
    "lstm_scan": Row(lstm_scan),
    "graph_network": Row(graph_network),
    "decode": Row(decode),
    "evaluate": Row(evaluate),
    "attention_cudnn": Row(attention_cudnn),
    "gpt32": Row(gpt32, values=False),
}


def count_operations(operation):
    inner = (
        child.operation for region in operation.regions for block in region for child in block
    )
    return 1 + sum(count_operations(child) for child in inner)


def write(path, contents):
    """Writes gzip with neither a time nor a name in its header, so that bytes repeat."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as stream:
        stream.write(contents)
    path.write_bytes(buffer.getvalue())
    return len(buffer.getvalue())


def flat_arrays(tree):
    """The leaves as contiguous arrays; a typed key as its integers, as in the text."""

    def array(leaf):
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            leaf = jax.random.key_data(leaf)
        return numpy.array(leaf, order="C")

    return [array(leaf) for leaf in jax.tree.leaves(tree)]


def run(lowered, arguments):
    """Arguments and results as the contents of a safetensors file."""
    tensors = {f"argument.{i}": leaf for i, leaf in enumerate(flat_arrays(arguments))}
    # Round every bfloat16 value as the text says, not only where XLA has to.
    compiled = lowered.compile(compiler_options={"xla_allow_excess_precision": False})
    results = flat_arrays(compiled(*arguments))
    for i, leaf in enumerate(results):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert numpy.isfinite(leaf.astype(numpy.float64)).all(), f"result {i} is not finite"
        tensors[f"result.{i}"] = leaf
    return safetensors.numpy.save(tensors), len(results)


def lower(step, sample, platform):
    step = jax.jit(step, keep_unused=True, donate_argnums=sample.donated)
    abstract = jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), sample.arguments
    )
    return step.trace(*abstract).lower(lowering_platforms=(platform,))


def make(folder, name, row):
    sample = row.build()
    if isinstance(sample, GpuSample):
        lowered, lowered_on_cpu = (
            lower(step, sample, platform)
            for step, platform in ((sample.step, "cuda"), (sample.step_on_cpu, "cpu"))
        )
    else:
        lowered = lowered_on_cpu = lower(sample.step, sample, "cpu")
    module = lowered.compiler_ir("stablehlo").operation
    generic = module.get_asm(print_generic_op_form=True, enable_debug_info=True)
    size = write(folder / f"{name}.mlir.gz", generic.encode())
    if row.pretty:
        pretty = module.get_asm(enable_debug_info=True)
        size += write(folder / f"{name}.pretty.mlir.gz", pretty.encode())
    results = 0
    if row.values:
        tensors, results = run(lowered_on_cpu, sample.arguments)
        size += write(folder / f"{name}.safetensors.gz", tensors)
    operations = count_operations(module)
    print(f"{name}: {operations} operations, {size} bytes, {results} results", flush=True)


def main(names):
    unknown = [name for name in names if name not in SAMPLES]
    if unknown:
        sys.exit(f"no such sample: {', '.join(unknown)}; there are: {', '.join(SAMPLES)}")
    for name in names or SAMPLES:
        make(pathlib.Path(__file__).parent, name, SAMPLES[name])


if __name__ == "__main__":
    main(sys.argv[1:])
