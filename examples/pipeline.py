"""The same GPT in two stages, each with half of the layers on half of the devices.

    XLA_FLAGS=--xla_force_host_platform_device_count=8 python examples/pipeline.py
"""

import gpt
import jax

import meshwright as mw


def main():
    key = jax.random.key(0)
    step = mw.jax.parallelize(
        gpt.train_step,
        tactics=[mw.stages(2, schedule="1f1b"), mw.data("data")],
        microbatches=4,
        donate_argnums=0,
    )
    step.prepare(*jax.eval_shape(lambda: (gpt.init(key), gpt.text(0))))
    print(step.plan)
    state = step.init(gpt.init, key)
    for number, layer in enumerate(state["params"]["layers"]):
        print(f"layer {number} is on devices", sorted(device.id for device in layer["qkv"].devices()))
    for number in range(20):
        state, value = step(state, gpt.text(number))
        if number % 5 == 0 or number == 19:
            print(f"step {number}: loss {value:.3f}")


if __name__ == "__main__":
    main()
