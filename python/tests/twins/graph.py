"""A graph network simulator."""

import jax
import jax.numpy as jnp

from .common import distance, layer_norm, linear

SMALL = {"layers": 2, "hidden": 8, "ffn": 16, "steps": 3, "nodes": 6, "edges": 20}
CASES = {
    "graph": ("gns", SMALL),
    "graph_huber": ("gns", SMALL | {"loss": "huber"}),
    "graph_remat": ("gns", SMALL | {"remat": "true"}),
}


def generate(settings, name, shape, random):
    if name in ("batch.senders", "batch.receivers"):
        return random.integers(0, settings["nodes"], shape)
    return None


def mlp(settings, parameters, name, x):
    for layer in range(settings["layers"]):
        x = jax.nn.relu(linear(parameters, f"{name}.{layer}", x))
    return linear(parameters, f"{name}.{settings['layers']}", x)


def loss(settings, parameters, state, batch):
    def normal_mlp(name, x):
        return layer_norm(parameters, f"{name}.norm", mlp(settings, parameters, name, x))

    senders, receivers = batch["senders"], batch["receivers"]
    nodes = normal_mlp("encoder.nodes", batch["nodes"])
    edges = normal_mlp("encoder.edges", batch["edges"])
    for step in range(settings["steps"]):
        messages = normal_mlp(
            f"rounds.{step}.edges", jnp.concatenate([edges, nodes[senders], nodes[receivers]], axis=1)
        )
        received = jax.ops.segment_sum(messages, receivers, settings["nodes"])
        nodes = nodes + normal_mlp(f"rounds.{step}.nodes", jnp.concatenate([nodes, received], axis=1))
        edges = edges + messages
    found = mlp(settings, parameters, "decoder", nodes)
    return distance(settings, found, batch["targets"]), state
