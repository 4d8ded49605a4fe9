"""A plan for a cluster that is not here: does a model fit it, how fast would it be, and on fewer devices?

Nothing is allocated, so that any machine will do:

    python examples/plan_for_a_cluster.py
"""

import gpt
import jax

import meshwright as mw

# A model of more than a billion parameters, of which only shapes are ever made.
gpt.LAYERS, gpt.WIDTH, gpt.HEADS, gpt.VOCABULARY, gpt.SEQUENCE, gpt.BATCH = 24, 2048, 16, 50304, 1024, 512


def main():
    shapes = jax.eval_shape(lambda: (gpt.init(jax.random.key(0)), gpt.text(0)))
    count = sum(leaf.size for leaf in jax.tree.leaves(shapes[0]["params"]))
    print(f"{count / 1e9:.2f} billion parameters")
    for cluster in ("8xh100", "8x8xh100"):
        plan = mw.jax.plan(gpt.train_step, *shapes, cluster=cluster, donate_argnums=0)
        mesh = ", ".join(f"{name}={size}" for name, size in plan.mesh)
        print(f"{cluster}: {plan.step_seconds:.2f} s a step, {plan.peak_bytes / 2**30:.1f} GiB on a device ({mesh})")
    plan.save("plan.json")
    print("meshwright explain reads plan.json")


if __name__ == "__main__":
    main()
