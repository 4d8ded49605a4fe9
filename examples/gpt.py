"""A GPT from scratch with optax, on all devices there are.

Without a cluster, eight devices of a CPU will do:

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/gpt.py
"""

import jax
import jax.numpy as jnp
import numpy as np
import optax

import meshwright as mw

LAYERS, WIDTH, HEADS, VOCABULARY, SEQUENCE, BATCH = 2, 64, 4, 256, 32, 16


def init(key):
    def matrix(rows, columns):
        nonlocal key
        key, now = jax.random.split(key)
        return jax.random.normal(now, (rows, columns)) * rows**-0.5

    layers = [
        {"qkv": matrix(WIDTH, 3 * WIDTH), "out": matrix(WIDTH, WIDTH), "up": matrix(WIDTH, 4 * WIDTH), "down": matrix(4 * WIDTH, WIDTH)}
        for _ in range(LAYERS)
    ]
    params = {"embed": matrix(VOCABULARY, WIDTH), "position": matrix(SEQUENCE, WIDTH), "layers": layers}
    return {"params": params, "optimizer": optimizer.init(params)}


def norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def attention(x, layer):
    query, key, value = jnp.split((x @ layer["qkv"]).reshape(*x.shape[:2], HEADS, -1), 3, axis=-1)
    return jax.nn.dot_product_attention(query, key, value, is_causal=True).reshape(x.shape) @ layer["out"]


def loss(params, tokens):
    x = params["embed"][tokens] + params["position"]
    for layer in params["layers"]:
        x = x + attention(norm(x), layer)
        x = x + jax.nn.gelu(norm(x) @ layer["up"]) @ layer["down"]
    logits = norm(x) @ params["embed"].T
    return optax.softmax_cross_entropy_with_integer_labels(logits[:, :-1], tokens[:, 1:]).mean()


optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-3))


def train_step(state, tokens):
    value, gradients = jax.value_and_grad(loss)(state["params"], tokens)
    updates, optimizer_state = optimizer.update(gradients, state["optimizer"], state["params"])
    return {"params": optax.apply_updates(state["params"], updates), "optimizer": optimizer_state}, value


def text(seed):
    """Words that repeat themselves, which is easy to learn."""
    starts = np.random.default_rng(seed).integers(0, VOCABULARY, (BATCH, 1))
    return ((starts + 3 * np.arange(SEQUENCE)) % VOCABULARY).astype(np.int32)


def main():
    key = jax.random.key(0)
    step = mw.jax.parallelize(train_step, donate_argnums=0)
    step.prepare(*jax.eval_shape(lambda: (init(key), text(0))))
    print(step.plan)
    state = step.init(init, key)
    for number in range(20):
        state, value = step(state, text(number))
        if number % 5 == 0 or number == 19:
            print(f"step {number}: loss {value:.3f}")


if __name__ == "__main__":
    main()
