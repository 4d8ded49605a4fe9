"""Steps that were cut by tactics beside the same steps cut by hand, in `jax.jit` with shardings, on eight devices.

    by_hand.py [NAME ...]    runs all ways to cut a step or the named ones, and prints a table

The step is one of a GPT of twelve layers with Adam. By hand, state and batch are given shardings and activations
constraints, and XLA finds the collectives. Columns are those of the tactics, and in parentheses their share of what is
found by hand: bytes that a device sends in a step, bytes that it has in memory as XLA says, and seconds of all processors
in a step (the least of several) and to compile it.
"""

import os
import sys
import time
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path.append(str(Path(__file__).parents[1] / "tests"))

import devices  # noqa: E402
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
import optax  # noqa: E402
from jax.sharding import Mesh, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as Cut  # noqa: E402

import meshwright as mw  # noqa: E402

BATCH, SEQUENCE, WIDTH, HEADS, VOCABULARY, LAYERS = 16, 64, 128, 8, 1024, 12
ROUNDS = 10
OPTIMIZER = optax.adam(1e-3)


def first_params():
    random = np.random.default_rng(0)

    def weights(*shape):
        return (random.standard_normal(shape) * 0.05).astype(np.float32)

    def layer():
        return {
            "query": weights(WIDTH, WIDTH),
            "key": weights(WIDTH, WIDTH),
            "value": weights(WIDTH, WIDTH),
            "out": weights(WIDTH, WIDTH),
            "up": weights(WIDTH, 4 * WIDTH),
            "down": weights(4 * WIDTH, WIDTH),
            "scale1": np.ones(WIDTH, np.float32),
            "scale2": np.ones(WIDTH, np.float32),
        }

    return {
        "embed": weights(VOCABULARY, WIDTH),
        "position": weights(SEQUENCE, WIDTH),
        "layers": [layer() for _ in range(LAYERS)],
        "head": weights(WIDTH, VOCABULARY),
    }


def normed(x, scale):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale


def attended(x, layer):
    shape = (*x.shape[:-1], HEADS, WIDTH // HEADS)
    query, key, value = ((x @ layer[name]).reshape(shape) for name in ("query", "key", "value"))
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / shape[-1] ** 0.5
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, value).reshape(x.shape) @ layer["out"]


def loss(params, batch, constrain):
    x = constrain(params["embed"][batch] + params["position"])
    for layer in params["layers"]:
        x = constrain(x + attended(normed(x, layer["scale1"]), layer))
        x = constrain(x + jax.nn.gelu(normed(x, layer["scale2"]) @ layer["up"]) @ layer["down"])
    logits = (x @ params["head"])[:, :-1]
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()


def make_step(constrain=lambda x: x):
    def step(state, batch):
        value, gradients = jax.value_and_grad(loss)(state["params"], batch, constrain)
        updates, optimizer_state = OPTIMIZER.update(gradients, state["opt"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": optimizer_state}, value

    return step


# How parameters and moments are cut by hand, by the last name in their path.
COLUMNS, ROWS = Cut(None, "model"), Cut("model", None)
MEGATRON = {"query": COLUMNS, "key": COLUMNS, "value": COLUMNS, "up": COLUMNS, "out": ROWS, "down": ROWS}
FIRST = dict.fromkeys((*MEGATRON, "embed", "position", "head"), Cut("data"))
# Of each way the mesh, how parameters and moments are cut by hand, and the tactics.
WAYS = {
    "data": ({"data": 8}, {}, {}, [mw.data("data")]),
    "zero1": ({"data": 8}, {}, FIRST, [mw.data("data"), mw.zero1("data")]),
    "zero3": ({"data": 8}, FIRST, FIRST, [mw.data("data"), mw.zero3("data")]),
    "megatron": ({"data": 2, "model": 4}, MEGATRON, MEGATRON, [mw.data("data"), mw.megatron("model")]),
}


def by_hand(mesh_sizes, stored, moments, state, batch):
    mesh = Mesh(np.array(jax.devices()).reshape(tuple(mesh_sizes.values())), tuple(mesh_sizes))
    batch_lies = NamedSharding(mesh, Cut("data"))

    def lies(path, _):
        cuts = stored if path[0].key == "params" else moments
        return NamedSharding(mesh, cuts.get(getattr(path[-1], "key", None), Cut()))

    state_lies = jax.tree_util.tree_map_with_path(lies, state)
    step = make_step(lambda x: jax.lax.with_sharding_constraint(x, batch_lies))
    jitted = jax.jit(
        step,
        in_shardings=(state_lies, batch_lies),
        out_shardings=(state_lies, NamedSharding(mesh, Cut())),
        donate_argnums=0,
    )
    lowered = jitted.lower(state, batch)
    started = time.process_time()
    compiled = lowered.compile()
    return compiled, time.process_time() - started, jax.device_put(state, state_lies), jax.device_put(batch, batch_lies)


def by_tactics(mesh, tactics, state, batch):
    # Nothing is left to planning.
    options = {"mesh": mesh, "tactics": [*tactics, mw.auto(only=[])], "microbatches": 1}
    step = mw.jax.parallelize(make_step(), donate_argnums=0, **options).prepare(state, batch)
    started = time.process_time()
    compiled = step.compiled
    seconds = time.process_time() - started
    return step, compiled, seconds, *step.shard(state, batch)


def sent_bytes(text):
    """What a device sends in a step, by rings."""
    total = 0.0
    for collective, count in devices.compiled_collectives(text).items():
        members = len(collective.groups[0])
        share = {"all-reduce": 2 * (members - 1) / members, "collective-permute": 1.0}
        total += count * collective.bytes * share.get(collective.kind, (members - 1) / members)
    return total


def memory_bytes(compiled):
    found = compiled.memory_analysis()
    outer = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return outer + found.temp_size_in_bytes


def seconds_of(calls, batches):
    """Of all processors in a step of each, the least of several. Steps of all take turns, so that what else the machine
    does concerns all alike."""
    states, least, losses = [state for state, _ in batches], [float("inf")] * len(calls), [0.0] * len(calls)
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            started = time.process_time()
            states[number], loss = jax.block_until_ready(call(states[number], batches[number][1]))
            least[number] = min(least[number], time.process_time() - started)
            losses[number] = float(loss)
    np.testing.assert_allclose(losses, losses[0], rtol=1e-4)
    return least


def measured(name):
    mesh, stored, moments, tactics = WAYS[name]
    params = first_params()
    # In numpy, so that neither way to run it uses it up.
    state = jax.tree.map(np.asarray, {"params": params, "opt": OPTIMIZER.init(params)})
    batch = np.random.default_rng(1).integers(0, VOCABULARY, (BATCH, SEQUENCE)).astype(np.int32)
    hand, hand_compiling, *hand_given = by_hand(mesh, stored, moments, state, batch)
    step, compiled, compiling, *given = by_tactics(mesh, tactics, state, batch)
    hand_seconds, seconds = seconds_of([hand, step], [hand_given, given])
    return [
        [sent_bytes(program.as_text()), memory_bytes(program), *spent]
        for program, *spent in ((hand, hand_seconds, hand_compiling), (compiled, seconds, compiling))
    ]


def main(names):
    print("| way | sent in a step | memory | seconds of a step | seconds to compile |")
    print("|---|--:|--:|--:|--:|")
    for name in names or WAYS:
        hand, ours = measured(name)
        shown = [f"{ours[0] / 1e6:.2f} MB", f"{ours[1] / 1e6:.2f} MB", f"{ours[2]:.3f}", f"{ours[3]:.1f}"]
        cells = [f"{text} ({own / other:.2f})" for text, own, other in zip(shown, ours, hand)]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in WAYS]
    if unknown:
        sys.exit(f"no such way: {', '.join(unknown)}; there are: {', '.join(WAYS)}\n{__doc__}")
    main(sys.argv[1:])
