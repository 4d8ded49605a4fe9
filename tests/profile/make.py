"""Writes the programs of this folder: steps of medium size exported from JAX, as text without values.

    python make.py                  makes every program
    python make.py gpt_scan_4 ...   makes the named ones

They are what no built-in model is (scans, sorts, loops that accumulate), made of the parts of the sample
programs, and large enough that the bytes of activations and weights decide what is measured of them.
README.md says what that is. Needs what the samples need.
"""

import functools
import importlib.util
import pathlib
import sys

import jax
import jax.numpy as jnp
import optax
from jax import lax

HERE = pathlib.Path(__file__).parent


def load_samples():
    """The module that makes the samples; it has the same name as this one."""
    spec = importlib.util.spec_from_file_location("samples", HERE.parent / "samples" / "make.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


samples = load_samples()
MEDIUM = samples.Transformer(layers=4, hidden=256, heads=8, sequence=128, vocabulary=2048, batch=8)


def resized(**sizes):
    return samples.dataclasses.replace(MEDIUM, **sizes)


def text_shapes(sizes):
    tokens = samples.shape(sizes.batch, sizes.sequence, dtype=jnp.int32)
    return {"tokens": tokens, "targets": tokens}


def training_shapes(loss_function, parameters, batch, optimizer=None):
    optimizer = optimizer or samples.adamw()
    state = jax.eval_shape(optimizer.init, parameters)
    return samples.Sample(samples.training(loss_function, optimizer), (parameters, state, batch), donated=(0, 1))


def stacked(parameters):
    """As `stack_layers`, of shapes."""
    count = len(parameters["layers"])
    layers = jax.tree.map(lambda leaf: samples.shape(count, *leaf.shape), parameters["layers"][0])
    return {**parameters, "layers": layers}


def gpt(sizes, **parts):
    return training_shapes(samples.gpt_loss(sizes, **parts), samples.gpt_shapes(sizes), text_shapes(sizes))


def gpt_scan(sizes, **parts):
    loss_function = samples.gpt_loss(sizes, layers=samples.scanned_layers, **parts)
    return training_shapes(loss_function, stacked(samples.gpt_shapes(sizes)), text_shapes(sizes))


def gpt_dropout(sizes):
    """Masks by JAX's generator of random numbers."""

    def loss_function(parameters, batch):
        hidden = samples.gpt_embed(parameters, batch["tokens"])
        for layer, key in zip(parameters["layers"], jax.random.split(batch["key"], sizes.layers)):
            hidden = samples.dropout_layer(layer, hidden, sizes.heads, key)
        return samples.token_loss(samples.gpt_logits(parameters, hidden), batch["targets"])

    batch = {**text_shapes(sizes), "key": samples.shape(2, dtype=jnp.uint32)}
    return training_shapes(loss_function, samples.gpt_shapes(sizes), batch)


def llama_scan(sizes, groups):
    def loss_function(parameters, batch):
        layer = functools.partial(samples.llama_layer, heads=sizes.heads, groups=groups)
        hidden = samples.scanned_layers(parameters, parameters["embedding"][batch["tokens"]], layer)
        logits = samples.root_mean_square_norm(parameters["norm"], hidden) @ parameters["head"]
        return samples.token_loss(logits, batch["targets"])

    return training_shapes(loss_function, stacked(samples.llama_shapes(sizes, groups)), text_shapes(sizes))


def mixture(sizes, dispatch, capacity):
    loss_function = samples.mixture_loss(sizes, dispatch, capacity)
    return training_shapes(loss_function, samples.mixture_shapes(sizes), text_shapes(sizes))


def gpt_accumulate(sizes, pieces):
    """The gradients of one part of the batch after the other are added up in a loop."""
    loss_function, optimizer, parameters = samples.gpt_loss(sizes), samples.adamw(), samples.gpt_shapes(sizes)

    def step(parameters, state, batch):
        def accumulate(carry, part):
            found = jax.value_and_grad(loss_function)(parameters, part)
            return jax.tree.map(jnp.add, carry, found), None

        parts = jax.tree.map(lambda leaf: leaf.reshape(pieces, -1, *leaf.shape[1:]), batch)
        zeros = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, parameters))
        (loss, gradients), _ = lax.scan(accumulate, zeros, parts)
        gradients = jax.tree.map(lambda leaf: leaf / pieces, gradients)
        changes, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, changes), state, loss / pieces

    arguments = (parameters, jax.eval_shape(optimizer.init, parameters), text_shapes(sizes))
    return samples.Sample(step, arguments, donated=(0, 1))


def lstm(sizes):
    """A scan over time; the width of the memory is that of the embedding."""
    parameters = {
        "embedding": samples.shape(sizes.vocabulary, sizes.hidden),
        "cell": samples.linear_shapes(2 * sizes.hidden, 4 * sizes.hidden),
        "head": samples.linear_shapes(sizes.hidden, sizes.vocabulary),
    }

    def loss_function(parameters, batch):
        def cell(carry, inputs):
            memory, output = carry
            gates = samples.linear(parameters["cell"], jnp.concatenate([inputs, output], axis=-1))
            enter, forget, leave, value = jnp.split(gates, 4, axis=-1)
            memory = jax.nn.sigmoid(forget + 1) * memory + jax.nn.sigmoid(enter) * jnp.tanh(value)
            output = jax.nn.sigmoid(leave) * jnp.tanh(memory)
            return (memory, output), output

        embedded = parameters["embedding"][batch["tokens"]].swapaxes(0, 1)
        start = jnp.zeros((sizes.batch, sizes.hidden))
        _, outputs = lax.scan(cell, (start, start), embedded)
        return samples.token_loss(samples.linear(parameters["head"], outputs), batch["targets"].swapaxes(0, 1))

    return training_shapes(loss_function, parameters, text_shapes(sizes), optax.adam(3e-3))


PROGRAMS = {
    "gpt_4": lambda: gpt(MEDIUM),
    "gpt_dropout_4": lambda: gpt_dropout(MEDIUM),
    "gpt_accumulate_4": lambda: gpt_accumulate(resized(batch=16), pieces=4),
    "gpt_scan_2": lambda: gpt_scan(resized(layers=2)),
    "gpt_scan_4": lambda: gpt_scan(MEDIUM),
    "gpt_scan_12": lambda: gpt_scan(resized(layers=12)),
    "gpt_scan_long_4": lambda: gpt_scan(resized(sequence=512, batch=4)),
    "gpt_scan_remat_4": lambda: gpt_scan(MEDIUM, layer=samples.rematerialised_layer),
    "gpt_scan_remat_12": lambda: gpt_scan(resized(layers=12), layer=samples.rematerialised_layer),
    "gpt_remat_4": lambda: gpt(MEDIUM, layer=samples.rematerialised_layer),
    "llama_scan_4": lambda: llama_scan(MEDIUM, groups=2),
    "lstm_scan_64": lambda: lstm(resized(sequence=64, hidden=512, batch=32)),
    "moe_einsum_4": lambda: mixture(MEDIUM, samples.einsum_mixture, capacity=64),
    "moe_sort_4": lambda: mixture(MEDIUM, samples.sorted_mixture, capacity=512),
}


def make(name):
    sample = PROGRAMS[name]()
    module = samples.lower(sample.step, sample, "cpu").compiler_ir("stablehlo").operation
    text = module.get_asm(print_generic_op_form=True, enable_debug_info=True)
    size = samples.write(HERE / f"{name}.mlir.gz", text.encode())
    print(f"{name}: {samples.count_operations(module)} operations, {size} bytes", flush=True)


def main(names):
    unknown = [name for name in names if name not in PROGRAMS]
    if unknown:
        sys.exit(f"no such program: {', '.join(unknown)}; there are: {', '.join(PROGRAMS)}")
    for name in names or PROGRAMS:
        make(name)


if __name__ == "__main__":
    main(sys.argv[1:])
