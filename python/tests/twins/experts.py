"""Mixtures of experts for twins: every expert computes every token, and what was not chosen counts 0."""

import math

import jax
import numpy as np


def chosen_weights(settings, gates):
    """The weight of each expert for tokens in order, (tokens, experts), while there is room; and first choices."""
    count = settings.get("experts_per_token", 2)
    groups = gates.reshape(-1, settings["expert_group"], settings["experts"])
    capacity = math.ceil(settings["capacity_factor"] * settings["expert_group"] / settings["experts"])
    kept = np.zeros(groups.shape)
    order = np.argsort(-np.asarray(jax.lax.stop_gradient(groups)), axis=-1, kind="stable")
    for group in range(len(groups)):
        placed = np.zeros(settings["experts"], int)
        for choice in range(count):
            for token in range(settings["expert_group"]):
                expert = order[group, token, choice]
                kept[group, token, expert] = placed[expert] < capacity
                placed[expert] += 1
    chosen = jax.nn.one_hot(order[..., :count], settings["experts"]).sum(axis=-2)
    weights = groups * chosen
    if count > 1:
        weights = weights / weights.sum(axis=-1, keepdims=True)
    return (weights * kept).reshape(gates.shape), jax.nn.one_hot(order[..., 0], settings["experts"])


def mixture(settings, parameters, name, x, expert):
    """What the experts make of (batch, seq, hidden), and the term for even shares.

    `expert(x, number)` is what one expert makes of all tokens.
    """
    tokens = x.reshape(-1, x.shape[-1])
    gates = jax.nn.softmax(tokens @ parameters[f"{name}.router.weight"], axis=-1)
    weights, first = chosen_weights(settings, gates)
    made = sum(weights[:, number, None] * expert(tokens, number) for number in range(settings["experts"]))
    grouped = gates.reshape(first.shape)
    balance = (grouped.mean(axis=1) * first.mean(axis=1)).mean() * settings["experts"] ** 2
    return made.reshape(x.shape), balance


def generate(settings, name, shape, random):
    """Weights of experts have the experts in front, so the inputs are the second dimension."""
    if ".moe." in name and name.startswith("params.") and len(shape) == 3:
        return random.normal(size=shape) / np.sqrt(shape[1])
    return None
