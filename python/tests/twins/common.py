"""Parts that several twins are made of."""

import jax
import jax.numpy as jnp


def linear(parameters, name, x):
    product = x @ parameters[f"{name}.weight"]
    bias = parameters.get(f"{name}.bias")
    return product if bias is None else product + bias


def joint_heads(parameters, name, x, count):
    """Queries, keys and values of one projection, each split into heads."""
    joint = jnp.einsum("bsi,ijo->jbso", x, parameters[f"{name}.weight"])
    bias = parameters.get(f"{name}.bias")
    joint = joint if bias is None else joint + bias[:, None, None]
    return tuple(heads(part, count) for part in joint)


def layer_norm(parameters, name, x, epsilon=1e-5):
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    normal = (x - mean) / jnp.sqrt(variance + epsilon) * parameters[f"{name}.scale"]
    bias = parameters.get(f"{name}.bias")
    return normal if bias is None else normal + bias


def rms_norm(parameters, name, x, epsilon):
    return x / jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + epsilon) * parameters[f"{name}.scale"]


def attention(query, key, value, causal=False, bias=None, scale=None):
    """Of (batch, seq, heads, width) tensors; keys may have fewer heads."""
    share = query.shape[2] // key.shape[2]
    key, value = (jnp.repeat(x, share, axis=2) for x in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) * scale
    if bias is not None:
        scores = scores + bias
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, axis=-1), value)


def heads(x, count):
    return x.reshape(*x.shape[:2], count, -1)


def merged(x):
    return x.reshape(*x.shape[:2], -1)


def label_losses(settings, logits, labels):
    """The cross entropy of each label, with some of it spread over all, and a term for large logits."""
    smoothing = float(settings.get("label_smoothing", 0))
    targets = (1 - smoothing) * jax.nn.one_hot(labels, logits.shape[-1]) + smoothing / logits.shape[-1]
    losses = -(targets * jax.nn.log_softmax(logits, axis=-1)).sum(axis=-1)
    return losses + float(settings.get("z_loss", 0)) * jax.nn.logsumexp(logits, axis=-1) ** 2


def cross_entropy(settings, logits, labels):
    return label_losses(settings, logits, labels).mean()


def distance(settings, found, targets):
    """How far numbers are from what they should be, by the loss that is set."""
    difference = jnp.abs(found - targets)
    losses = {
        "absolute-error": difference,
        "huber": jnp.where(difference <= 1, difference**2 / 2, difference - 0.5),
        "squared-error": difference**2,
    }
    return losses[settings.get("loss", "squared-error")].mean()


def convolution(parameters, name, x, stride=1, padding=None):
    """Of (batch, height, width, channels); padded so that windows of odd size stand around positions."""
    weight = parameters[f"{name}.weight"]
    padding = weight.shape[0] // 2 if padding is None else padding
    y = jax.lax.conv_general_dilated(
        x, weight, (stride, stride), [(padding, padding)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    bias = parameters.get(f"{name}.bias")
    return y if bias is None else y + bias


def self_attention(parameters, name, x, count):
    query, key, value = joint_heads(parameters, f"{name}.qkv", x, count)
    return linear(parameters, f"{name}.out", merged(attention(query, key, value)))


def generate_filter(name, shape, random):
    """The weight of a convolution, so that the size of activations stays."""
    if len(shape) == 4 and name.startswith("params."):
        return random.normal(size=shape) / (shape[0] * shape[1] * shape[2]) ** 0.5
    return None
