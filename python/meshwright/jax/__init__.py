"""Steps of JAX, planned and run on the devices that JAX has.

JAX itself is as it comes: a step is captured as `jax.jit` lowers it, and what devices run is one more jitted function.
"""

from __future__ import annotations

from meshwright.jax.check import Comparison, check
from meshwright.jax.parallelize import parallelize, plan
from meshwright.jax.step import Step

__all__ = ["Comparison", "Step", "check", "parallelize", "plan"]
