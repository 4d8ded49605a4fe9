"""What a call of a planned step costs beyond one of `jax.jit`: microseconds, in the same run, by the number of leaves.

    python python/benches/overhead.py

Both run the same program on the same devices with the same shardings, and rounds of both alternate. What is timed is
the work of the thread that calls, so that other load on the machine counts little; of what is computed there is next to
nothing. The difference is the median of the differences of rounds.
"""

import os
import statistics
import time

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import numpy as np  # noqa: E402

import meshwright as mw  # noqa: E402

LEAVES = (10, 50, 200, 1000)
ROUNDS, CALLS = 30, 30


def train_step(state, x):
    return jax.tree.map(lambda leaf: leaf + x, state)


def microseconds(step, state, x):
    started = time.thread_time()
    for _ in range(CALLS):
        state = step(state, x)
    seconds = time.thread_time() - started
    jax.block_until_ready(state)
    return seconds / CALLS * 1e6, state


def measured(devices, leaves):
    state = {f"leaf{number}": np.ones(8, np.float32) for number in range(leaves)}
    x = np.float32(1)
    planned = mw.jax.parallelize(train_step, devices=devices, donate_argnums=0)
    planned.prepare(state, x)
    (lies, x_lies), _ = planned.shardings
    jitted = jax.jit(train_step, in_shardings=(lies, x_lies), out_shardings=lies, donate_argnums=0)
    x = jax.device_put(x, x_lies)
    states = [planned.shard(state) for _ in range(2)]
    rows = []
    for _ in range(ROUNDS):
        row = []
        for number, step in enumerate((planned, jitted)):
            spent, states[number] = microseconds(step, states[number], x)
            row.append(spent)
        rows.append(row)
    columns = [*zip(*rows), [ours - theirs for ours, theirs in rows]]
    return [statistics.median(column) for column in columns]


def main():
    print(f"{'devices':>7}  {'leaves':>6}  {'step':>8}  {'jax.jit':>8}  {'beyond':>8}   µs a call")
    for devices in sorted({1, len(jax.devices())}):
        for leaves in LEAVES:
            ours, theirs, beyond = measured(jax.devices()[:devices], leaves)
            print(f"{devices:>7}  {leaves:>6}  {ours:8.0f}  {theirs:8.0f}  {beyond:8.0f}", flush=True)


if __name__ == "__main__":
    main()
