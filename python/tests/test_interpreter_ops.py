"""Our reference interpreter beside jaxlib, op by op.

Expected results come from StableHLO's reference interpreter where it can answer, from XLA where it
cannot, and from mpmath for functions that jaxlib only approximates; `op_cases.py` says so for each
case. Contractions and linear algebra are asked for in f64 and rounded once; all other results are
compared with those of the case's own types.

Where the two oracles differ, the specification decides:

| op | difference | taken |
|---|---|---|
| arithmetic | XLA's CPU code reads and writes subnormal numbers as zeros | reference interpreter |
| cbrt | the reference interpreter is some steps off in f64 | mpmath |
| compare, sort | the reference interpreter takes a total order of floats for the partial one | XLA |
| convolution | the reference interpreter stops where a result has its features before its batch | XLA |
| divide, remainder | by zero and out of range is left open for integers | XLA, which we promise to follow |
| dot_general | the reference interpreter stops at sums of no terms | XLA |
| dynamic slices, gather | the reference interpreter reads large unsigned indices as negative | XLA |
| power | XLA reads only the lowest bits of an integer exponent | reference interpreter |
| scatter | XLA drops all of a window that is partly outside | reference interpreter |
| select_and_scatter | the reference interpreter counts an initial value more than once; left open | XLA |
| top_k | the order of NaN is left open | XLA |

`CASES=long` makes about ten times as many cases.
"""

import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from op_cases import FAMILIES, FLOATS, NAME, cases_of
from op_expected import expected, magnitudes

SCALE = 10 if os.environ.get("CASES") == "long" else 1

# Numbers beyond a type's range, and NaN, are among the inputs on purpose.
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@dataclass(frozen=True)
class Tolerance:
    """How far a float may be from the expected one. Integers and booleans must be equal."""

    why: str = ""
    # Representable numbers apart in f64. Shorter types get the f64 result rounded once, so there it
    # is zero unless the op says otherwise.
    f64: int = 0
    short: int = 0
    # Besides, so many roundings of the type that sums are kept in, of the size that `of` says.
    roundings: int = 0
    of: str = "one"


LIBRARY = Tolerance("two mathematical libraries, each less than one step from the truth", f64=1)
STEPS = Tolerance("a few steps of rounding in f64", f64=2)
CONTRACTION = Tolerance("sums in any order, kept in f32 or, for f64, in f64", short=1, roundings=2, of="terms")
ALGEBRA = Tolerance("any order of steps, well-conditioned inputs", short=1, roundings=1, of="terms times largest")
NORMALIZATION = Tolerance("f64 in any order, rounded once", short=1, roundings=1, of="terms times largest in f64")
# Ops that are not here are exact: bit for bit, but for the payload of NaN.
TOLERANCES = {
    "chlo.acos": LIBRARY,
    "chlo.acosh": STEPS,
    "chlo.asin": LIBRARY,
    "chlo.asinh": STEPS,
    "chlo.atan": LIBRARY,
    "chlo.atanh": STEPS,
    "chlo.bessel_i1e": Tolerance("a series of some thirty rounded terms", f64=10),
    "chlo.cosh": STEPS,
    "chlo.digamma": Tolerance("partial sums of up to twenty, which cancel near the roots", f64=8, roundings=32),
    "chlo.erf": LIBRARY,
    "chlo.erf_inv": STEPS,
    "chlo.erfc": STEPS,
    "chlo.lgamma": Tolerance("terms around one cancel near the roots", f64=4, roundings=8),
    "chlo.polygamma": Tolerance("a factorial times zeta, or digamma", f64=8, roundings=32),
    "chlo.sinh": STEPS,
    "chlo.zeta": Tolerance("a series of some twenty rounded terms", f64=8),
    "stablehlo.atan2": LIBRARY,
    "stablehlo.batch_norm_grad": NORMALIZATION,
    "stablehlo.batch_norm_inference": NORMALIZATION,
    "stablehlo.batch_norm_training": NORMALIZATION,
    "stablehlo.cholesky": ALGEBRA,
    "stablehlo.convolution": CONTRACTION,
    "stablehlo.cosine": LIBRARY,
    "stablehlo.dot_general": CONTRACTION,
    "stablehlo.exponential": LIBRARY,
    "stablehlo.exponential_minus_one": LIBRARY,
    "stablehlo.log": LIBRARY,
    "stablehlo.log_plus_one": LIBRARY,
    "stablehlo.logistic": STEPS,
    "stablehlo.power": LIBRARY,
    "stablehlo.sine": LIBRARY,
    "stablehlo.tan": LIBRARY,
    "stablehlo.tanh": STEPS,
    "stablehlo.triangular_solve": ALGEBRA,
}


def distance(left, right):
    """How many representable numbers apart, element by element; NaN equals NaN."""
    dtype = left.dtype
    bits = np.dtype(f"i{dtype.itemsize}")

    def ordered(values):
        raw = np.array(values, order="C").view(bits).astype(object)
        return np.where(raw < 0, -(raw + (1 << (8 * dtype.itemsize - 1))), raw)

    apart = np.abs(ordered(left) - ordered(right))
    nan = np.isnan(left.astype(np.float64)), np.isnan(right.astype(np.float64))
    apart = np.where(nan[0] & nan[1], 0, np.where(nan[0] | nan[1], 1 << 70, apart))
    # Zeros of different sign are no numbers apart, but they are not the same.
    differ = (left == 0) & (right == 0) & (np.signbit(left) != np.signbit(right))
    return np.where(differ, 1 << 70, apart)


def wrong(case, index, expected_value, found):
    """A mask of the elements that are not as they should be."""
    if expected_value.dtype != found.dtype or expected_value.shape != found.shape:
        return np.ones(expected_value.shape or (1,), bool)
    if NAME[found.dtype] not in FLOATS:
        mask = np.asarray(expected_value != found)
    else:
        mask = wrong_floats(case, index, expected_value, found)
    return mask & case.defined[index] if case.defined else mask


def wrong_floats(case, index, expected_value, found):
    dtype = found.dtype
    bits = np.dtype(f"u{dtype.itemsize}")
    same = np.array(expected_value, order="C").view(bits) == np.array(found, order="C").view(bits)
    left, right = expected_value.astype(np.float64), found.astype(np.float64)
    suspicious = np.asarray(~(same.reshape(found.shape) | (np.isnan(left) & np.isnan(right))))
    if not suspicious.any():
        return suspicious
    tolerance = TOLERANCES.get(case.op, Tolerance())
    allowed = tolerance.f64 if dtype == np.float64 else tolerance.short
    mask = suspicious.copy()
    mask[suspicious] = distance(expected_value[suspicious], found[suspicious]) > allowed
    if tolerance.roundings and mask.any():
        single = dtype != np.float64 and tolerance.of in ("terms", "terms times largest")
        unit, size = 2.0**-24 if single else 2.0**-53, 1
        if tolerance.of == "terms":
            size = case.terms * magnitudes(case)[index]
        elif tolerance.of.startswith("terms times largest"):
            size = case.terms * np.max(np.abs(left))
        with np.errstate(invalid="ignore"):
            mask &= ~(np.abs(left - right) <= tolerance.roundings * unit * size)
    return mask


def run(command, folder, number, case):
    """The results of our interpreter, or what it said instead."""
    model, inputs, outputs = (folder / f"{number}.{name}" for name in ["mlir", "in.safetensors", "out.safetensors"])
    model.write_text(case.text)
    save_file({f"argument.{index}": np.array(v, order="C") for index, v in enumerate(case.inputs)}, inputs)
    arguments = ["run", model, "--inputs", inputs, "--outputs", outputs, "--json"]
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr
    found = load_file(outputs)
    return [found[f"result.{index}"] for index in range(len(found))]


def complaint(case, wanted, found):
    """Nothing where the results are right, and otherwise all that is needed to see why not."""
    if isinstance(found, str):
        return f"{case.op}: {found}\n{case.text}{shown('inputs', case.inputs)}{shown('expected', wanted)}"
    if len(found) != len(wanted):
        return f"{case.op}: {len(found)} results instead of {len(wanted)}\n{case.text}"
    masks = [wrong(case, index, *pair) for index, pair in enumerate(zip(wanted, found))]
    lines = []
    for index, mask in enumerate(masks):
        for position in np.argwhere(mask)[:8]:
            position = tuple(map(int, position))
            values = wanted[index][position], found[index][position]
            inputs = [v[position] for v in case.inputs if v.shape == wanted[index].shape]
            lines.append(
                f"  result {index} at {list(position)}: expected {values[0]!r}, found {values[1]!r}, from {inputs}"
            )
        if mask.any():
            lines.append(f"  {int(mask.sum())} of {mask.size} elements differ in result {index}")
    if not lines:
        return None
    listing = "\n".join(lines)
    values = shown("inputs", case.inputs) + shown("expected", wanted) + shown("found", found)
    return f"{case.op} ({case.oracle}):\n{listing}\n{case.text}{values}"


def shown(name, values):
    text = "\n".join(f"  {v.dtype}{list(v.shape)} {np.array2string(v, threshold=60)}" for v in values)
    return f"{name}:\n{text}\n"


@pytest.fixture(scope="session")
def command():
    path = os.environ.get("MESHWRIGHT")
    if not path:
        pytest.fail("MESHWRIGHT does not name the command; run `cargo xtask test --python`")
    return path


@pytest.mark.parametrize("family", list(FAMILIES))
def test_interpreter_computes_what_jaxlib_computes(family, command, tmp_path):
    cases = cases_of(family, SCALE)
    with ThreadPoolExecutor(2) as pool:
        running = pool.map(lambda pair: run(command, tmp_path, *pair), enumerate(cases))
        wanted = expected(cases)
        found = list(running)
    complaints = [complaint(*row) for row in zip(cases, wanted, found)]
    complaints = [text for text in complaints if text]
    assert not complaints, f"{len(complaints)} of {len(cases)} cases failed\n\n" + "\n".join(complaints[:20])


def test_every_tolerance_has_a_reason():
    assert all(tolerance.why for tolerance in TOLERANCES.values())
