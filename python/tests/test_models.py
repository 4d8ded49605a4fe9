"""Built-in models beside the same models in plain JAX: loss, gradients, parameters and state after steps."""

import functools
import importlib
import json
import pkgutil

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import twins
from safetensors.numpy import load_file, save_file

TWINS = [name for _, name, _ in pkgutil.iter_modules(twins.__path__) if name not in ("common", "experts")]
CASES = {
    case: (importlib.import_module(f"twins.{twin}"), *arguments)
    for twin in TWINS
    for case, arguments in importlib.import_module(f"twins.{twin}").CASES.items()
}
LEARNING_RATE = 0.01
DTYPES = {"i1": bool, "i32": np.int32, "ui64": np.uint64, "f32": np.float32, "f64": np.float64}


class BuiltIn:
    """One built-in model: its arguments and results by name, and how to run it."""

    def __init__(self, meshwright, folder, preset, settings):
        self.meshwright, self.folder = meshwright, folder
        self.model = [preset, *(f"--set={key}={value}" for key, value in settings.items())]
        summary = json.loads(meshwright("inspect", *self.model, "--json"))
        self.arguments = {argument["name"]: argument["type"] for argument in summary["arguments"]["values"]}
        self.results = [result["name"] for result in summary["results"]["values"]]

    def run(self, values):
        inputs, outputs = self.folder / "in.safetensors", self.folder / "out.safetensors"
        save_file({name: np.array(values[name], order="C") for name in self.arguments}, inputs)
        self.meshwright("run", *self.model, "--inputs", inputs, "--outputs", outputs, "--force")
        found = load_file(outputs)
        return {name: found[f"result.{index}"] for index, name in enumerate(self.results)}


def shape_of(text):
    *sizes, dtype = text.removeprefix("tensor<").removesuffix(">").split("x")
    return tuple(map(int, sizes)), DTYPES[dtype]


def generate(built_in, twin, settings):
    """Values for all arguments: small parameters with scales near 1, optimizer state as after nothing."""
    random = np.random.default_rng(0)
    values = {}
    for name, text in built_in.arguments.items():
        shape, dtype = shape_of(text)
        if hasattr(twin, "generate"):
            made = twin.generate(settings, name, shape, random)
            if made is not None:
                values[name] = np.asarray(made, dtype)
                continue
        if dtype == np.int32 and name.startswith("batch."):
            values[name] = random.integers(0, int(settings["vocab"]), shape, dtype)
        elif not np.issubdtype(dtype, np.floating) or name.startswith("opt."):
            values[name] = np.zeros(shape, dtype)
        elif name.endswith(".scale"):
            values[name] = (1 + 0.1 * random.normal(size=shape)).astype(dtype)
        else:
            fan = shape[0] if len(shape) > 1 and name.startswith("params.") else 4
            values[name] = (random.normal(size=shape) / np.sqrt(fan)).astype(dtype)
    return values


def part(values, prefix):
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


def assert_close(found, expected, what, tolerance=1e-5):
    """Relative to the largest element: sums run in another order than XLA's."""
    expected = np.asarray(expected)
    assert np.shape(found) == expected.shape, what
    largest = max(np.abs(expected).max(initial=0), 1e-6)
    if np.abs(expected).max(initial=0) < 1e-12:
        # Terms cancel exactly, as in the bias of keys: what is left is the rounding of f32.
        largest = 1e-2
    difference = np.abs(np.asarray(found, np.float64) - expected).max(initial=0) / largest
    assert difference <= tolerance, f"{what} differs by {difference:.2e} of its largest element"


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradients_are_those_of_jax(meshwright, tmp_path, case):
    twin, preset, settings = CASES[case]
    built_in = BuiltIn(meshwright, tmp_path, preset, settings | {"optimizer": "none"})
    values = generate(built_in, twin, settings)
    found = built_in.run(values)
    with jax.enable_x64(True):
        wide = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in values.items()}
        function = functools.partial(twin.loss, settings)
        (loss, state), gradients = jax.value_and_grad(function, has_aux=True)(
            part(wide, "params."), part(wide, "state."), part(wide, "batch.")
        )
    assert_close(found["loss"], loss, "the loss")
    for name, gradient in gradients.items():
        assert_close(found[f"grads.{name}"], gradient, f"the gradient of {name}")
    for name, value in state.items():
        assert_close(found[f"state.{name}"], value, f"the next {name}")


def clipped(settings, update):
    clip = float(settings.get("clip", 0))
    return optax.chain(optax.clip_by_global_norm(clip), update) if clip else update


# Epsilon is large: a gradient that is zero but for rounding would be made large by plain Adam.
OPTIMIZERS = {
    "sgd": (optax.sgd(LEARNING_RATE, momentum=0.9), {}),
    "adam": (optax.adam(LEARNING_RATE, eps=1e-3), {"epsilon": 1e-3}),
    "adamw": (optax.adamw(LEARNING_RATE, eps=1e-3, weight_decay=0.1), {"epsilon": 1e-3, "weight_decay": 0.1}),
}


# Averages of gradients have fewer digits than parameters, which move by little of them: in f32, T5's
# are off by up to 1.2e-5 after two steps. Computed in f64, they agree to 3e-14.
STATE_TOLERANCE = 5e-5

# What optax calls the state that we call `opt.<name>`.
MEMORY = {"count": "count", "m": "mu", "v": "nu"}
MOMENTUM = {"m": "trace"}


def remembered(optimizer, memory):
    """The state of an optimizer of optax by the names that it has here, without `opt.` in front."""
    found = {}
    for kind, name in (MOMENTUM if optimizer == "sgd" else MEMORY).items():
        value = optax.tree_utils.tree_get(memory, name)
        found |= {f"{kind}.{key}": part for key, part in value.items()} if isinstance(value, dict) else {kind: value}
    return found


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("case", CASES)
def test_parameters_and_state_after_steps_are_those_of_jax(meshwright, tmp_path, case, optimizer):
    twin, preset, settings = CASES[case]
    update, more = OPTIMIZERS[optimizer]
    more = more | {"optimizer": optimizer, "learning_rate": LEARNING_RATE}
    built_in = BuiltIn(meshwright, tmp_path, preset, settings | more)
    values = generate(built_in, twin, settings)
    with jax.enable_x64(True):
        update = clipped(settings, update)
        function = functools.partial(twin.loss, settings)
        batch = part(values, "batch.")
        batch = {name: value.astype(np.float64) if value.dtype == np.float32 else value for name, value in batch.items()}
        parameters = {name: jnp.asarray(value, np.float64) for name, value in part(values, "params.").items()}
        state = {name: jnp.asarray(value, np.float64) for name, value in part(values, "state.").items()}
        memory = update.init(parameters)
        for _ in range(2):
            found = built_in.run(values)
            values = values | {name: value for name, value in found.items() if name in values}
            gradients, state = jax.grad(function, has_aux=True)(parameters, state, batch)
            changes, memory = update.update(gradients, memory, parameters)
            parameters = optax.apply_updates(parameters, changes)
    for name, value in parameters.items():
        assert_close(values[f"params.{name}"], value, f"{name} after two steps")
    for name, value in state.items():
        assert_close(values[f"state.{name}"], value, f"{name} after two steps")
    memory = remembered(optimizer, memory)
    assert memory.keys() == part(values, "opt.").keys()
    for name, value in memory.items():
        assert_close(values[f"opt.{name}"], value, f"the optimizer's {name} after two steps", STATE_TOLERANCE)
