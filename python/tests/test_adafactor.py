"""Adafactor of built-in models beside its definition in plain JAX; optax's differs in details."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_models import CASES, LEARNING_RATE, BuiltIn, assert_close, generate, part


def moved(parameter, gradient, memory, count):
    """A parameter and its second moments after an update.

    Of two dimensions and more, the moments are averages over the last two; the share of the new in an
    average is `count^-0.8`; an update's root mean square is at most 1.
    """
    rate = count**-0.8
    square = gradient**2 + 1e-30
    if gradient.ndim >= 2:
        rows, columns = memory or (jnp.zeros(square.shape[:-1]), jnp.zeros(square.shape[:-2] + square.shape[-1:]))
        rows = (1 - rate) * rows + rate * square.mean(axis=-1)
        columns = (1 - rate) * columns + rate * square.mean(axis=-2)
        outer = rows[..., :, None] * columns[..., None, :]
        update = gradient / jnp.sqrt(outer / rows.mean(axis=-1)[..., None, None])
        memory = rows, columns
    else:
        (second,) = memory or (jnp.zeros(square.shape),)
        second = (1 - rate) * second + rate * square
        update = gradient / jnp.sqrt(second)
        memory = (second,)
    update = update / jnp.maximum(1, jnp.sqrt((update**2).mean()))
    return parameter - LEARNING_RATE * update, memory


# A GPT's bias of keys has a gradient of zero but for rounding, which Adafactor makes large; the
# transformer of PartIR has no such bias. Of experts, matrices are factored one by one.
@pytest.mark.parametrize("case", ["mlp", "mixtral", "partir"])
def test_parameters_and_state_after_steps_are_those_of_the_definition(meshwright, tmp_path, case):
    twin, preset, settings = CASES[case]
    more = {"optimizer": "adafactor", "learning_rate": LEARNING_RATE}
    built_in = BuiltIn(meshwright, tmp_path, preset, settings | more)
    values = generate(built_in, twin, settings)
    with jax.enable_x64(True):
        function = functools.partial(twin.loss, settings)
        batch = part(values, "batch.")
        floats = {name: value.astype(np.float64) for name, value in batch.items() if value.dtype == np.float32}
        parameters = {name: jnp.asarray(value, np.float64) for name, value in part(values, "params.").items()}
        memory = dict.fromkeys(parameters)
        for count in (1, 2):
            found = built_in.run(values)
            values = values | {name: value for name, value in found.items() if name in values}
            gradients = jax.grad(function, has_aux=True)(parameters, {}, batch | floats)[0]
            for name, gradient in gradients.items():
                parameters[name], memory[name] = moved(parameters[name], gradient, memory[name], count)
    for name, value in parameters.items():
        assert_close(values[f"params.{name}"], value, f"{name} after two steps")
        for kind, average in zip(("row", "column") if value.ndim >= 2 else ("v",), memory[name]):
            assert_close(values[f"opt.{kind}.{name}"], average, f"the optimizer's {kind} of {name} after two steps")
    assert values["opt.count"] == count
