"""A model of flax linen, with the parameters and the optimizer's state stored in parts.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/flax_model.py
"""

import flax.linen as nn
import jax
import numpy as np
import optax
from flax.training.train_state import TrainState

import meshwright as mw


class Classifier(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (256, 256):
            x = nn.gelu(nn.LayerNorm()(nn.Dense(width)(x)))
        return nn.Dense(10)(x)


model = Classifier()
optimizer = optax.adamw(1e-3)


def init(key):
    params = model.init(key, np.zeros((1, 64), np.float32))["params"]
    return TrainState.create(apply_fn=model.apply, params=params, tx=optimizer)


def train_step(state, batch):
    def loss(params):
        logits = state.apply_fn({"params": params}, batch["x"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, batch["label"]).mean()

    value, gradients = jax.value_and_grad(loss)(state.params)
    return state.apply_gradients(grads=gradients), value


def examples(seed):
    random = np.random.default_rng(seed)
    label = random.integers(0, 10, 128)
    return {"x": (random.standard_normal((128, 64)) + label[:, None]).astype(np.float32), "label": label.astype(np.int32)}


def main():
    key = jax.random.key(0)
    step = mw.jax.parallelize(
        train_step,
        mesh={"data": len(jax.devices())},
        tactics=[mw.data("data"), mw.zero3("data")],
        donate_argnums=0,
    )
    step.prepare(*jax.eval_shape(lambda: (init(key), examples(0))))
    state = step.init(init, key)
    for number in range(20):
        state, value = step(state, examples(number))
        if number % 5 == 0 or number == 19:
            print(f"step {number}: loss {value:.3f}")
    print("a device has", state.params["Dense_1"]["kernel"].addressable_shards[0].data.shape, "of (256, 256)")


if __name__ == "__main__":
    main()
