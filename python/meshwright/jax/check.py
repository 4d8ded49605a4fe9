"""Does a planned step compute what the original does?"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

from meshwright import _core
from meshwright.jax.step import Step


@dataclasses.dataclass(frozen=True)
class Comparison:
    """How far the results of a planned step are from those of the original. It is true where they agree."""

    # Of every result its name, and the largest difference over its largest number; integers differ by 0 or 1.
    differences: tuple[tuple[str, float], ...]
    tolerance: float

    def __bool__(self) -> bool:
        return all(difference <= self.tolerance for _, difference in self.differences)

    def __str__(self) -> str:
        worst = sorted(self.differences, key=lambda row: -row[1])[:10]
        verdict = "equal" if self else "different"
        lines = [f"{verdict}: {len(self.differences)} results, differences up to {self.tolerance:g} allowed"]
        lines += [f"  {difference:.2e}  {name}" for name, difference in worst]
        return "\n".join(lines)


def check(step: Step, *args: Any, tolerance: float = 1e-4, **kwargs: Any) -> Comparison:
    """Runs the original step on one device and the planned one on all, on the same arguments, and compares results.

    The original has to fit one device, so give it small data. The arguments are left as they are, donated or not.
    """
    if any(device.process_index != jax.process_index() for device in step.devices):
        raise _core.Error(
            "the devices of a step are in several processes, and results are compared in one\n\n"
            "hint: check the step with as many devices in one process, on a CPU if need be"
        )
    with jax.default_device(step.devices[0]):
        expected = jax.tree.leaves(step.function.jit(donate=False)(*args, **kwargs))
    found = jax.tree.leaves(step.run_copied(*args, **kwargs))
    rows = zip(step.result_names(), found, expected)
    return Comparison(tuple((name, difference(*pair)) for name, *pair in rows), tolerance)


def difference(found: Any, expected: Any) -> float:
    """The largest difference over the largest number, not a number where only one has none."""
    left, right = _numbers(found), _numbers(expected)
    if right.dtype.kind not in "fc":
        return float((left != right).any())
    if not right.size or np.array_equal(left, right, equal_nan=True):
        return 0.0
    largest = max(float(np.abs(right).max()), float(np.finfo(np.float32).tiny))
    return float(np.abs(left - right).max()) / largest


def _numbers(value: Any) -> np.ndarray[Any, Any]:
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    array = np.asarray(value)
    # Types that numpy does not know by itself, such as bfloat16, are wide enough here.
    return array.astype(np.float64) if jax.numpy.issubdtype(array.dtype, np.floating) else array
