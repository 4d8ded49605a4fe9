"""Meshwright turns a training step written for one device into the fastest distributed one that fits.

    import meshwright as mw

    step = mw.jax.parallelize(train_step, memory="14GiB", donate_argnums=0)
    state, loss = step(state, batch)  # the first call captures, plans and compiles
    print(step.plan)

`meshwright.jax` runs steps of JAX, `meshwright.torch` those of PyTorch; each is imported when it is first used, so
that the rest works without it.
"""

from __future__ import annotations

import importlib
from types import ModuleType

from meshwright._core import DoesNotFit, Error, Pipeline, Plan, __version__
from meshwright.tactics import (
    Tactic,
    auto,
    data,
    expert,
    keep_whole,
    megatron,
    replicate,
    sequence,
    stages,
    tile,
    vocab,
    zero1,
    zero2,
    zero3,
)

__all__ = [
    "DoesNotFit",
    "Error",
    "Pipeline",
    "Plan",
    "Tactic",
    "__version__",
    "auto",
    "data",
    "expert",
    "keep_whole",
    "megatron",
    "replicate",
    "sequence",
    "stages",
    "tile",
    "vocab",
    "zero1",
    "zero2",
    "zero3",
]

_ENGINES = ("jax", "torch")


def __getattr__(name: str) -> ModuleType:
    """Engines, imported at first use."""
    if name in _ENGINES:
        return importlib.import_module(f"meshwright.{name}")
    raise AttributeError(f"module 'meshwright' has no attribute {name!r}")
