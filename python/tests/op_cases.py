"""Cases for every op that has a meaning on one device: a module, its inputs, and who knows the results.

One small function per family of ops yields its cases; `FAMILIES` names them all. Everything is a
function of the family's name and the number of cases, so a failing case can be made again.
"""

import itertools
import re
import zlib
from dataclasses import dataclass

import ml_dtypes
import numpy as np

NUMPY = {
    "i1": np.dtype(bool),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "ui8": np.dtype(np.uint8),
    "ui16": np.dtype(np.uint16),
    "ui32": np.dtype(np.uint32),
    "ui64": np.dtype(np.uint64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}
NAME = {dtype: name for name, dtype in NUMPY.items()}
SIGNED = ["i8", "i16", "i32", "i64"]
UNSIGNED = ["ui8", "ui16", "ui32", "ui64"]
INTEGERS = SIGNED + UNSIGNED
FLOATS = ["bf16", "f16", "f32", "f64"]
ALL = ["i1", *INTEGERS, *FLOATS]

# Who knows the results of a case.
REFERENCE = "StableHLO's reference interpreter"
XLA = "XLA on the CPU"
TRUTH = "mpmath"
GIVEN = "the case itself"


@dataclass
class Case:
    op: str
    text: str
    inputs: list
    # The reference interpreter is the specification made to run, so it is asked wherever it can be.
    oracle: str = REFERENCE
    # Ask the oracle the same question in f64 and round its answer once.
    widen: bool = False
    # How many terms the longest sum has.
    terms: int = 1
    # Values of the results that the specification leaves open, one mask per result.
    defined: list | None = None
    # The results, where the case itself knows them.
    results: list | None = None


class Draw:
    """Random choices of one family."""

    def __init__(self, name, scale=1):
        self.random = np.random.default_rng(zlib.crc32(name.encode()))
        self.scale = scale

    def times(self, count):
        return range(count * self.scale)

    def pick(self, options):
        return options[self.random.integers(len(options))]

    def integer(self, low, high):
        """Both ends included."""
        return int(self.random.integers(low, high + 1))

    def chance(self, probability):
        return self.random.random() < probability

    def shape(self, lowest=0, highest=4, largest=5):
        """Now and then a dimension is empty."""
        sizes = [self.integer(1, largest) for _ in range(self.integer(lowest, highest))]
        if sizes and self.chance(0.06):
            sizes[self.integer(0, len(sizes) - 1)] = 0
        return tuple(sizes)

    def subset(self, options, count=None):
        options = list(options)
        count = self.integer(0, len(options)) if count is None else count
        return sorted(int(option) for option in self.random.choice(options, count, replace=False)) if options else []

    def permutation(self, count):
        return [int(position) for position in self.random.permutation(count)]

    def bits(self, dtype, shape):
        """Any bits at all, so half of the values of a short float type are extreme."""
        count = int(np.prod(shape, dtype=np.int64))
        if dtype == "i1":
            return self.random.integers(0, 2, shape).astype(bool)
        width = NUMPY[dtype].itemsize
        raw = self.random.integers(0, 256, count * width, dtype=np.uint8)
        return raw.view(NUMPY[dtype]).reshape(shape)

    def values(self, dtype, shape):
        """Extreme values, any bits, and ordinary numbers, mixed."""
        if dtype == "i1":
            return self.bits(dtype, shape)
        ordinary = self.random.normal(size=shape) * np.exp(self.random.normal(size=shape) * 3)
        if dtype in INTEGERS:
            ordinary = np.clip(ordinary, 0 if dtype in UNSIGNED else -99, 99)
        choice = self.random.integers(0, 4, shape)
        special = self.random.choice(len(specials(dtype)), shape)
        drawn = np.where(choice == 0, specials(dtype)[special], self.bits(dtype, shape))
        return np.asarray(np.where(choice >= 2, ordinary.astype(NUMPY[dtype]), drawn), NUMPY[dtype])

    def exact(self, dtype, shape):
        """Small whole numbers: their sums and products are the same in any order and precision."""
        low = 0 if dtype in UNSIGNED or dtype == "i1" else -3
        return np.asarray(self.random.integers(low, 1 if dtype == "i1" else 3, shape, endpoint=True)).astype(
            NUMPY[dtype]
        )

    def ordinary(self, dtype, shape):
        """Numbers around one, or anything for an integer type."""
        if dtype in FLOATS:
            return np.asarray(self.random.normal(size=shape)).astype(NUMPY[dtype])
        return self.bits(dtype, shape)

    def indices(self, dtype, shape, largest):
        """Mostly inside, sometimes outside on either side, sometimes far outside."""
        limits = np.iinfo(NUMPY[dtype])
        drawn = np.asarray(self.random.integers(max(-2, limits.min), largest + 2, shape)).astype(NUMPY[dtype])
        far = np.array([limits.min, limits.max // 2, limits.max // 2 + 1], NUMPY[dtype])
        return np.where(self.random.random(shape) < 0.08, far[self.random.integers(0, 3, shape)], drawn)


def index_oracle(indices):
    """The reference interpreter reads large unsigned indices as negative; XLA, as specified, does not."""
    indices = np.asarray(indices)
    large = NAME[indices.dtype] in UNSIGNED and np.any(indices > np.iinfo(indices.dtype).max // 2)
    return XLA if large else REFERENCE


def plain_nan(values):
    """One payload for every NaN: payloads are left open elsewhere, so an order must not see them."""
    return np.where(np.isnan(values), np.copysign(np.asarray(np.nan, values.dtype), values), values)


def specials(dtype):
    if dtype in INTEGERS:
        limits, bits = np.iinfo(NUMPY[dtype]), NUMPY[dtype].itemsize * 8
        values = {0, 1, 2, 3, 7, bits - 1, bits, bits + 1, limits.max, limits.max - 1, limits.min, limits.min + 1}
        values |= {1 << (bits - 2), -1, -2, -3}
        return np.array(sorted(v for v in values if limits.min <= v <= limits.max), dtype=NUMPY[dtype])
    limits = ml_dtypes.finfo(NUMPY[dtype])
    tiny, least = float(limits.tiny), float(limits.smallest_subnormal)
    positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, np.pi, 10.0, 100.0, np.inf, tiny, least, 3 * least, tiny - least]
    positive += [float(limits.max), float(limits.max) / 2, 1 + float(limits.eps), 1 - float(limits.eps) / 2]
    return np.array([sign * value for value in positive for sign in (1.0, -1.0)] + [np.nan]).astype(NUMPY[dtype])


def every_value(dtype):
    """All values of a type of 16 bits."""
    return np.arange(1 << 16, dtype=np.uint16).view(NUMPY[dtype])


# The text of a module.


def tensor(dtype, shape):
    return "tensor<" + "".join(f"{size}x" for size in shape) + dtype + ">"


def type_of(array):
    return tensor(NAME[array.dtype], array.shape)


def numbers(values):
    """An attribute that is a list of integers."""
    values = [int(value) for value in values]
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


def booleans(values):
    values = ["true" if value else "false" for value in values]
    return f"array<i1: {', '.join(values)}>" if values else "array<i1>"


def pairs(values):
    values = [[int(low), int(high)] for low, high in values]
    return f"dense<{values if values else ''}> : tensor<{len(values)}x2xi64>"


def operation(op, operands, operand_types, result_types, attributes=None, regions=()):
    """One op in generic form. Attributes are texts by name."""
    inside = ", ".join(f"{name} = {value}" for name, value in (attributes or {}).items())
    properties = f" <{{{inside}}}>" if inside else ""
    blocks = f" ({', '.join(regions)})" if regions else ""
    types = f"({', '.join(operand_types)}) -> ({', '.join(result_types)})"
    return f'"{op}"({", ".join(operands)}){properties}{blocks} : {types}'


def block(arguments, lines, results):
    """A region of one block. Arguments and results are pairs of name and type."""
    head = f"^bb0({', '.join(f'{name}: {ty}' for name, ty in arguments)}):" if arguments else ""
    end = f'"stablehlo.return"({", ".join(n for n, _ in results)}) : ({", ".join(t for _, t in results)}) -> ()'
    return "{ " + head + "\n      " + "\n      ".join([*lines, end]) + " }"


def module(inputs, lines, results):
    arguments = ", ".join(f"%argument{index}: {type_of(value)}" for index, value in enumerate(inputs))
    types = ", ".join(ty for _, ty in results)
    names = ", ".join(name for name, _ in results)
    end = f"return {names} : {types}" if results else "return"
    body = "\n    ".join([*lines, end])
    return f"module {{\n  func.func @main({arguments}) -> ({types}) {{\n    {body}\n  }}\n}}\n"


def one(op, inputs, results, attributes=None, regions=(), **rest):
    """A case of one op that reads the inputs in order. Results are pairs of dtype and shape."""
    inputs = [np.asarray(value) for value in inputs]
    names = [f"%argument{index}" for index in range(len(inputs))]
    types = [tensor(*result) for result in results]
    line = operation(op, names, [type_of(value) for value in inputs], types, attributes, regions)
    count = f":{len(types)}" if len(types) > 1 else ""
    found = [f"%result#{index}" if count else "%result" for index in range(len(types))]
    text = module(inputs, [f"%result{count} = {line}"], list(zip(found, types)))
    return Case(op, text, inputs, **rest)


def several(op, inputs, lines, results, **rest):
    """A case of a few lines. Results are names with dtype and shape."""
    inputs = [np.asarray(value) for value in inputs]
    return Case(op, module(inputs, lines, [(name, tensor(*ty)) for name, ty in results]), inputs, **rest)


def binary_block(op, dtype):
    """A region that combines two scalars, as reductions want it."""
    ty = tensor(dtype, ())
    line = f"%c = {operation(op, ['%a', '%b'], [ty, ty], [ty])}"
    return block([("%a", ty), ("%b", ty)], [line], [("%c", ty)])


def compare_line(name, direction, left, right, ty, order):
    attributes = {
        "comparison_direction": f"#stablehlo<comparison_direction {direction}>",
        "compare_type": f"#stablehlo<comparison_type {order}>",
    }
    shape = ty.removeprefix("tensor<").removesuffix(">").split("x")[:-1]
    flag = tensor("i1", shape)
    return f"{name} = {operation('stablehlo.compare', [left, right], [ty, ty], [flag], attributes)}"


def order_of(dtype):
    return "FLOAT" if dtype in FLOATS else "SIGNED" if dtype in SIGNED else "UNSIGNED"


# Elementwise ops.

FLOAT_UNARY = """abs cbrt ceil cosine exponential exponential_minus_one floor log log_plus_one logistic negate
real imag round_nearest_afz round_nearest_even rsqrt sign sine sqrt tan tanh is_finite""".split()
CHLO_UNARY = """acos acosh asin asinh atan atanh bessel_i1e cosh digamma erf erf_inv erfc lgamma sinh square
is_inf is_neg_inf is_pos_inf""".split()
INTEGER_UNARY = "abs negate sign not popcnt count_leading_zeros".split()


def unary_float_inputs(draw, dtype, most):
    """Every value of a short type; many of a long one, at all magnitudes; and small shapes."""
    if NUMPY[dtype].itemsize == 2:
        everything = every_value(dtype)
        chosen = draw.random.permutation(everything.size)[:most] if most < everything.size else slice(None)
        yield np.concatenate([specials(dtype), everything[chosen]])
    else:
        for _ in draw.times(1):
            ordinary = draw.random.normal(size=min(most, 1200)) * np.exp(draw.random.normal(size=min(most, 1200)) * 3)
            near_one = 1 + draw.random.normal(size=min(most, 400)) * 1e-3
            drawn = [specials(dtype), ordinary.astype(NUMPY[dtype]), near_one.astype(NUMPY[dtype])]
            yield np.concatenate([*drawn, draw.bits(dtype, (min(most, 400),))])
    for _ in draw.times(2):
        yield draw.values(dtype, draw.shape())


def unary(name):
    def cases(draw):
        if name in FLOAT_UNARY:
            for dtype in FLOATS:
                for values in unary_float_inputs(draw, dtype, 2000 if name == "cbrt" else 1 << 16):
                    result = "i1" if name == "is_finite" else dtype
                    # The reference interpreter rounds after each step of a logistic, and its cube root is
                    # some steps off in f64.
                    widen, oracle = name == "logistic", TRUTH if name == "cbrt" else REFERENCE
                    yield one(f"stablehlo.{name}", [values], [(result, values.shape)], widen=widen, oracle=oracle)
        if name in INTEGER_UNARY:
            dtypes = SIGNED if name in ("abs", "negate", "sign") else INTEGERS
            for dtype in [*dtypes, *(["i1"] if name == "not" else []), *(UNSIGNED if name == "negate" else [])]:
                for values in [
                    specials(dtype) if dtype != "i1" else np.array([True, False]),
                    draw.values(dtype, (40,)),
                ]:
                    yield one(f"stablehlo.{name}", [values], [(dtype, values.shape)])
                for _ in draw.times(1):
                    values = draw.values(dtype, draw.shape())
                    yield one(f"stablehlo.{name}", [values], [(dtype, values.shape)])

    return cases


def chlo_unary(name):
    def cases(draw):
        # Hyperbolic functions are what their expansion computes, step by step.
        exact = name in ("cosh", "sinh", "square", "is_inf", "is_neg_inf", "is_pos_inf")
        for dtype in FLOATS:
            # Precise values are slow to compute, so there are fewer of them.
            for values in unary_float_inputs(draw, dtype, (1 << 16) if exact else 300 * draw.scale):
                if name in ("acos", "asin", "atanh", "erf_inv") and values.ndim == 1 and values.size > 50:
                    inside = draw.random.uniform(-1, 1, 200)
                    ends = (1 - 10.0 ** draw.random.uniform(-16, 0, 50)) * draw.pick([-1, 1])
                    values = np.concatenate([values, inside.astype(values.dtype), ends.astype(values.dtype)])
                result = "i1" if name.startswith("is_") else dtype
                oracle = REFERENCE if exact else TRUTH
                yield one(f"chlo.{name}", [values], [(result, values.shape)], oracle=oracle)

    return cases


BINARY = {
    "add": ALL,
    "and": ["i1", *INTEGERS],
    "atan2": FLOATS,
    "divide": [*INTEGERS, *FLOATS],
    "maximum": ALL,
    "minimum": ALL,
    "multiply": ALL,
    "or": ["i1", *INTEGERS],
    "power": [*INTEGERS, *FLOATS],
    "remainder": [*INTEGERS, *FLOATS],
    "shift_left": INTEGERS,
    "shift_right_arithmetic": INTEGERS,
    "shift_right_logical": INTEGERS,
    "subtract": [*INTEGERS, *FLOATS],
    "xor": ["i1", *INTEGERS],
}


def binary(name):
    def cases(draw):
        for dtype in BINARY[name]:
            # The specification leaves division by zero open; we promise what XLA does.
            oracle = XLA if name in ("divide", "remainder") and dtype in INTEGERS else REFERENCE
            if dtype != "i1":
                # Every extreme value with every other.
                left, right = np.meshgrid(specials(dtype), specials(dtype))
                yield one(f"stablehlo.{name}", [left, right], [(dtype, left.shape)], oracle=oracle)
            for shape in [(200,), draw.shape(0, 0), *(draw.shape() for _ in draw.times(1))]:
                left, right = draw.values(dtype, shape), draw.values(dtype, shape)
                if name == "power" and dtype in INTEGERS:
                    right = np.asarray(draw.random.integers(0 if dtype in UNSIGNED else -3, 9, shape)).astype(
                        right.dtype
                    )
                if name.startswith("shift"):
                    bits = NUMPY[dtype].itemsize * 8
                    right = np.asarray(draw.random.integers(0, bits + 2, shape)).astype(right.dtype)
                if dtype in FLOATS:
                    # Numbers of like size, where rounding and cancellation happen.
                    near = np.asarray(draw.random.normal(size=(2, *shape))).astype(NUMPY[dtype])
                    yield one(f"stablehlo.{name}", [near[0], near[1]], [(dtype, shape)])
                yield one(f"stablehlo.{name}", [left, right], [(dtype, shape)], oracle=oracle)

    return cases


def next_after(draw):
    for dtype in FLOATS:
        left, right = np.meshgrid(specials(dtype), specials(dtype))
        yield one("chlo.next_after", [left, right], [(dtype, left.shape)])
        for _ in draw.times(3):
            shape = draw.shape()
            yield one("chlo.next_after", [draw.values(dtype, shape), draw.values(dtype, shape)], [(dtype, shape)])


def zeta(draw):
    for dtype in FLOATS:
        for _ in draw.times(2):
            order = 1 + np.exp(draw.random.normal(size=60))
            start = np.exp(draw.random.normal(size=60) * 2)
            values = [order.astype(NUMPY[dtype]), start.astype(NUMPY[dtype])]
            yield one("chlo.zeta", values, [(dtype, (60,))], oracle=TRUTH)
        corners = np.array([[1, 2], [0.5, 1], [3, 0], [2, -1], [2.5, -1.5], [np.nan, 1], [3, np.nan], [2, 1e4]]).T
        yield one("chlo.zeta", list(corners.astype(NUMPY[dtype])), [(dtype, (8,))], oracle=TRUTH)


def polygamma(draw):
    for dtype in FLOATS:
        for _ in draw.times(2):
            order = draw.random.integers(0, 6, 60)
            start = np.exp(draw.random.normal(size=60))
            values = [order.astype(NUMPY[dtype]), start.astype(NUMPY[dtype])]
            yield one("chlo.polygamma", values, [(dtype, (60,))], oracle=TRUTH)
        corners = np.array([[0, 1], [-1, 2], [1.5, 2], [1, 0], [0, 0], [0, -2], [np.nan, 1], [1, np.nan]]).T
        yield one("chlo.polygamma", list(corners.astype(NUMPY[dtype])), [(dtype, (8,))], oracle=TRUTH)


def compare(draw):
    for dtype, direction in itertools.product(ALL, ["EQ", "NE", "GE", "GT", "LE", "LT"]):
        for order in [order_of(dtype), *(["TOTALORDER"] if dtype in FLOATS else [])]:
            attributes = {
                "comparison_direction": f"#stablehlo<comparison_direction {direction}>",
                "compare_type": f"#stablehlo<comparison_type {order}>",
            }
            for shape in [None, *(draw.shape() for _ in draw.times(1))]:
                if shape is None:
                    every = np.array([False, True]) if dtype == "i1" else specials(dtype)
                    left, right = np.meshgrid(every, every)
                else:
                    left, right = draw.values(dtype, shape), draw.values(dtype, shape)
                if dtype in FLOATS:
                    left, right = plain_nan(left), plain_nan(right)
                # The reference interpreter makes no difference between the two orders of floats.
                oracle = XLA if order == "TOTALORDER" else REFERENCE
                yield one("stablehlo.compare", [left, right], [("i1", left.shape)], attributes, oracle=oracle)


def select(draw):
    for dtype in ALL:
        for scalar in [False, True]:
            for _ in draw.times(2):
                shape = draw.shape()
                flags = draw.bits("i1", () if scalar else shape)
                yield one(
                    "stablehlo.select", [flags, draw.bits(dtype, shape), draw.bits(dtype, shape)], [(dtype, shape)]
                )


def clamp(draw):
    for dtype in ALL:
        for scalar_low, scalar_high in [(False, False), (True, True), (True, False)]:
            shape = draw.shape()
            low = draw.values(dtype, () if scalar_low else shape)
            high = draw.values(dtype, () if scalar_high else shape)
            yield one("stablehlo.clamp", [low, draw.values(dtype, shape), high], [(dtype, shape)])


def convert(draw):
    for source, target in itertools.product(ALL, ALL):
        if source == "i1":
            inputs = [np.array([True, False])]
        else:
            inputs = [specials(source), draw.values(source, (100,))]
            if source in FLOATS and target in INTEGERS:
                # Halves, and numbers close to the ends of the range.
                limits = np.iinfo(NUMPY[target])
                ends = [end + step for end in (float(limits.min), float(limits.max)) for step in (-1, -0.5, 0, 0.5, 1)]
                halves = draw.random.integers(-60, 60, 50) / 4
                with np.errstate(over="ignore"):
                    inputs.append(np.concatenate([ends, halves]).astype(NUMPY[source]))
            if source in FLOATS and target in FLOATS:
                # Numbers half-way between two neighbors of the target, and one step beside them.
                wide = draw.random.normal(size=100).astype(NUMPY[target]).astype(np.float64)
                ties = wide * (1 + float(ml_dtypes.finfo(NUMPY[target]).eps) / 2)
                inputs.append(
                    np.concatenate([ties, np.nextafter(ties, 0), np.nextafter(ties, np.inf)]).astype(NUMPY[source])
                )
        for values in [*inputs, draw.values(source, draw.shape())]:
            yield one("stablehlo.convert", [values], [(target, values.shape)])
    for narrow, wide in [("i4", "i8"), ("ui4", "ui8"), ("i2", "i8"), ("ui2", "ui8")]:
        # Files have no such element types, so they live between two conversions.
        values, shape = np.arange(-20, 20).astype(NUMPY[wide]), (40,)
        there = operation("stablehlo.convert", ["%argument0"], [tensor(wide, shape)], [tensor(narrow, shape)])
        negated = operation("stablehlo.add", ["%a", "%a"], [tensor(narrow, shape)] * 2, [tensor(narrow, shape)])
        back = operation("stablehlo.convert", ["%b"], [tensor(narrow, shape)], [tensor(wide, shape)])
        lines = [f"%a = {there}", f"%b = {negated}", f"%c = {back}"]
        yield several("stablehlo.convert", [values], lines, [("%c", (wide, shape))])


def bitcast_convert(draw):
    for source, target in itertools.product([d for d in ALL if d != "i1"], repeat=2):
        from_width, to_width = NUMPY[source].itemsize, NUMPY[target].itemsize
        for _ in draw.times(1):
            shape = draw.shape()
            if from_width < to_width:
                shape, result = (*shape, to_width // from_width), shape
            elif from_width > to_width:
                result = (*shape, from_width // to_width)
            else:
                result = shape
            yield one("stablehlo.bitcast_convert", [draw.bits(source, shape)], [(target, result)])


def reduce_precision(draw):
    for dtype in FLOATS:
        own = {"bf16": (8, 7), "f16": (5, 10), "f32": (8, 23), "f64": (11, 52)}[dtype]
        formats = [(8, 7), (5, 10), (4, 3), (5, 2), (2, 1), (8, 23), (11, 52), (1, 3), own]
        for exponent, mantissa in [*formats, *((draw.integer(1, 11), draw.integer(0, 52)) for _ in draw.times(6))]:
            values = every_value(dtype) if NUMPY[dtype].itemsize == 2 else draw.values(dtype, (1000,))
            # Without mantissa bits there is no NaN to keep; the specification does not say more.
            if mantissa == 0:
                values = values[~np.isnan(values)]
            attributes = {"exponent_bits": f"{exponent} : i32", "mantissa_bits": f"{mantissa} : i32"}
            yield one("stablehlo.reduce_precision", [values], [(dtype, values.shape)], attributes)


def complex_parts(draw):
    for part, dtype in itertools.product(["real", "imag"], ["f32", "f64"]):
        for _ in draw.times(2):
            shape = draw.shape()
            real, imaginary = draw.values(dtype, shape), draw.values(dtype, shape)
            ty, whole = tensor(dtype, shape), tensor(f"complex<{dtype}>", shape)
            join = operation("stablehlo.complex", ["%argument0", "%argument1"], [ty, ty], [whole])
            take = operation(f"stablehlo.{part}", ["%a"], [whole], [ty])
            lines = [f"%a = {join}", f"%b = {take}"]
            yield several(f"stablehlo.{part}", [real, imaginary], lines, [("%b", (dtype, shape))])


def constant(draw):
    for dtype in ALL:
        for _ in draw.times(3):
            shape = draw.shape()
            values = draw.values(dtype, shape)
            if draw.chance(0.3) and values.size:
                values = np.full(shape, values.ravel()[0], values.dtype)
            ty = tensor(dtype, shape)
            if dtype == "i1" or (dtype in INTEGERS and draw.chance(0.5)):
                inside = str(values.tolist()).replace("True", "true").replace("False", "false") if values.size else ""
            else:
                inside = f'"0x{values.tobytes().hex().upper()}"' if values.size else ""
            lines = [f"%a = stablehlo.constant dense<{inside}> : {ty}"]
            yield several("stablehlo.constant", [], lines, [("%a", (dtype, shape))])


# Ops that move elements.


def broadcast_in_dim(draw):
    for dtype in ALL:
        for _ in draw.times(3):
            result = draw.shape()
            dims = draw.subset(range(len(result)))
            dims = [dims[position] for position in draw.permutation(len(dims))]
            shape = tuple(1 if draw.chance(0.3) else result[dim] for dim in dims)
            attributes = {"broadcast_dimensions": numbers(dims)}
            yield one("stablehlo.broadcast_in_dim", [draw.bits(dtype, shape)], [(dtype, result)], attributes)


def reshape(draw):
    for dtype in ALL:
        for _ in draw.times(2):
            shape = draw.shape()
            factors = [factor for size in shape for factor in ([2, 2] if size == 4 else [size])]
            result = []
            for factor in [*factors, 1]:
                if result and draw.chance(0.5):
                    result[-1] *= factor
                else:
                    result.append(factor)
            yield one("stablehlo.reshape", [draw.bits(dtype, shape)], [(dtype, tuple(result))])


def transpose(draw):
    for dtype in ALL:
        for _ in draw.times(3):
            shape = draw.shape(0, 5)
            permutation = draw.permutation(len(shape))
            result = tuple(shape[dim] for dim in permutation)
            yield one(
                "stablehlo.transpose",
                [draw.bits(dtype, shape)],
                [(dtype, result)],
                {"permutation": numbers(permutation)},
            )


def slices(draw):
    for dtype in ALL:
        for _ in draw.times(3):
            shape = draw.shape(largest=9)
            start = [draw.integer(0, size) for size in shape]
            limit = [draw.integer(low, size) for low, size in zip(start, shape)]
            stride = [draw.integer(1, 4) for _ in shape]
            result = tuple(-(-(high - low) // step) for low, high, step in zip(start, limit, stride))
            attributes = {"start_indices": numbers(start), "limit_indices": numbers(limit), "strides": numbers(stride)}
            yield one("stablehlo.slice", [draw.bits(dtype, shape)], [(dtype, result)], attributes)


def dynamic_slice(draw):
    for dtype, index in itertools.product(ALL, INTEGERS):
        shape = draw.shape(largest=7)
        sizes = tuple(draw.integer(min(1, size), size) for size in shape)
        starts = [draw.indices(index, (), size) for size in shape]
        yield one(
            "stablehlo.dynamic_slice",
            [draw.bits(dtype, shape), *starts],
            [(dtype, sizes)],
            {"slice_sizes": numbers(sizes)},
            oracle=index_oracle(starts or np.int32(0)),
        )


def dynamic_update_slice(draw):
    for dtype, index in itertools.product(ALL, INTEGERS):
        shape = draw.shape(largest=7)
        sizes = tuple(draw.integer(0, size) for size in shape)
        starts = [draw.indices(index, (), size) for size in shape]
        inputs = [draw.bits(dtype, shape), draw.bits(dtype, sizes), *starts]
        yield one(
            "stablehlo.dynamic_update_slice", inputs, [(dtype, shape)], oracle=index_oracle(starts or np.int32(0))
        )


def pad(draw):
    for dtype in ALL:
        for _ in draw.times(6):
            shape = draw.shape()
            interior = [draw.pick([0, 0, 1, 2]) for _ in shape]
            spread = [size + max(size - 1, 0) * step for size, step in zip(shape, interior)]
            low = [draw.integer(-3, 3) for _ in shape]
            # Negative padding may not take away more than there is.
            high = [max(draw.integer(-3, 3), -size - first) for size, first in zip(spread, low)]
            result = tuple(size + first + last for size, first, last in zip(spread, low, high))
            attributes = {
                "edge_padding_low": numbers(low),
                "edge_padding_high": numbers(high),
                "interior_padding": numbers(interior),
            }
            yield one("stablehlo.pad", [draw.bits(dtype, shape), draw.bits(dtype, ())], [(dtype, result)], attributes)


def concatenate(draw):
    for dtype in ALL:
        for _ in draw.times(3):
            shape = list(draw.shape(1))
            dim = draw.integer(0, len(shape) - 1)
            sizes = [draw.integer(0, 4) for _ in range(draw.integer(1, 4))]
            inputs = [draw.bits(dtype, (*shape[:dim], size, *shape[dim + 1 :])) for size in sizes]
            result = (*shape[:dim], sum(sizes), *shape[dim + 1 :])
            yield one("stablehlo.concatenate", inputs, [(dtype, result)], {"dimension": f"{dim} : i64"})


def reverse(draw):
    for dtype in ALL:
        for _ in draw.times(2):
            shape = draw.shape()
            attributes = {"dimensions": numbers(draw.subset(range(len(shape))))}
            yield one("stablehlo.reverse", [draw.bits(dtype, shape)], [(dtype, shape)], attributes)


def iota(draw):
    for dtype in INTEGERS + FLOATS:
        for shape in [(300,), (3000,), *(draw.shape(1) for _ in draw.times(2))]:
            dim = draw.integer(0, len(shape) - 1)
            yield one("stablehlo.iota", [], [(dtype, shape)], {"iota_dimension": f"{dim} : i64"})


def optimization_barrier(draw):
    for dtype in ALL:
        values = [draw.bits(dtype, draw.shape()), draw.bits("f32", draw.shape())]
        yield one("stablehlo.optimization_barrier", values, [(NAME[v.dtype], v.shape) for v in values])


# Contractions.


def summable(draw, dtype, shape):
    """Half of the cases have sums that are exact in any order; the others round."""
    return draw.exact(dtype, shape) if draw.chance(0.5) else draw.ordinary(dtype, shape)


def dot_general(draw):
    mixed = [("i8", "i32"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f64"), ("ui8", "ui32")]
    for source, target in [*((dtype, dtype) for dtype in INTEGERS + FLOATS), *mixed]:
        for _ in draw.times(8):
            batch, contract, left_free, right_free = (
                [draw.integer(0 if draw.chance(0.05) else 1, 5) for _ in range(draw.integer(0, most))]
                for most in (2, 2, 2, 2)
            )
            left_order = draw.permutation(len(batch) + len(contract) + len(left_free))
            right_order = draw.permutation(len(batch) + len(contract) + len(right_free))
            left = [(batch + contract + left_free)[position] for position in left_order]
            right = [(batch + contract + right_free)[position] for position in right_order]
            split = len(batch), len(batch) + len(contract)
            dims = {
                "lhs_batching_dimensions": [left_order.index(index) for index in range(split[0])],
                "rhs_batching_dimensions": [right_order.index(index) for index in range(split[0])],
                "lhs_contracting_dimensions": [left_order.index(index) for index in range(*split)],
                "rhs_contracting_dimensions": [right_order.index(index) for index in range(*split)],
            }
            inside = ", ".join(f"{name} = {values}" for name, values in dims.items() if values)
            # What is free keeps the order it has in its operand.
            left_kept = [left[position] for position, index in enumerate(left_order) if index >= split[1]]
            right_kept = [right[position] for position, index in enumerate(right_order) if index >= split[1]]
            result = (*batch, *left_kept, *right_kept)
            inputs = [summable(draw, source, left), summable(draw, source, right)]
            attributes = {"dot_dimension_numbers": f"#stablehlo.dot<{inside}>"}
            # The reference interpreter stops at sums of no terms.
            yield one(
                "stablehlo.dot_general",
                inputs,
                [(target, result)],
                attributes,
                oracle=XLA if 0 in contract else REFERENCE,
                widen=source in FLOATS,
                terms=int(np.prod(contract, dtype=np.int64)),
            )


def window_count(size, base_dilation, low, high, window, dilation, stride):
    """How many windows fit, or None where padding takes away more than there is."""
    spread = size if size == 0 else (size - 1) * base_dilation + 1
    padded = spread + low + high
    reach = window if window == 0 else (window - 1) * dilation + 1
    if padded < 0:
        return None
    return 0 if padded == 0 or reach > padded else (padded - reach) // stride + 1


def convolution(draw):
    for dtype in [*FLOATS, "i8", "i32", "ui8", "i64"]:
        made = 0
        while made < 14 * draw.scale:
            spatial = draw.integer(0, 3) if draw.chance(0.9) else 0
            feature_groups, batch_groups = draw.pick([(1, 1), (1, 1), (2, 1), (3, 1), (1, 2), (1, 3)])
            batch, inputs_per_group, outputs = draw.integer(1, 2) * batch_groups, draw.integer(1, 3), draw.integer(1, 2)
            outputs *= feature_groups * batch_groups
            sizes, window = [draw.integer(1, 7) for _ in range(spatial)], [draw.integer(1, 3) for _ in range(spatial)]
            stride, lhs_dilation, rhs_dilation = ([draw.pick([1, 1, 2, 3]) for _ in range(spatial)] for _ in range(3))
            padding = [(draw.integer(-1, 3), draw.integer(-1, 3)) for _ in range(spatial)]
            reversal = [draw.chance(0.3) for _ in range(spatial)]
            counts = [
                window_count(size, base, low, high, taps, dilation, step)
                for size, base, (low, high), taps, dilation, step in zip(
                    sizes, lhs_dilation, padding, window, rhs_dilation, stride
                )
            ]
            if any(count is None for count in counts):
                continue
            made += 1
            left, left_text = arrange(draw, {"b": batch, "f": inputs_per_group * feature_groups}, sizes)
            right, right_text = arrange(draw, {"i": inputs_per_group, "o": outputs}, window)
            result, result_text = arrange(draw, {"b": batch // batch_groups, "f": outputs}, counts)
            attributes = {
                "window_strides": numbers(stride),
                "padding": pairs(padding),
                "lhs_dilation": numbers(lhs_dilation),
                "rhs_dilation": numbers(rhs_dilation),
                "window_reversal": booleans(reversal),
                "dimension_numbers": f"#stablehlo.conv<[{left_text}]x[{right_text}]->[{result_text}]>",
                "feature_group_count": f"{feature_groups} : i64",
                "batch_group_count": f"{batch_groups} : i64",
            }
            yield one(
                "stablehlo.convolution",
                [summable(draw, dtype, left), summable(draw, dtype, right)],
                [(dtype, result)],
                attributes,
                # The reference interpreter stops where the features of the result come before the batch.
                oracle=XLA if result_text.index("f") < result_text.index("b") else REFERENCE,
                widen=dtype in FLOATS,
                terms=inputs_per_group * int(np.prod(window, dtype=np.int64)),
            )


def arrange(draw, named, spatial):
    """Puts named and spatial dimensions into any order: the shape and its text."""
    dims = [*named.items(), *((str(index), size) for index, size in enumerate(spatial))]
    dims = [dims[position] for position in draw.permutation(len(dims))]
    return tuple(size for _, size in dims), ", ".join(name for name, _ in dims)


# Ops that read and write at computed positions.


def gather(draw):
    for dtype in ALL:
        for _ in draw.times(8):
            rank = draw.integer(1, 4)
            operand = tuple(draw.integer(1, 5) for _ in range(rank))
            index_dtype = draw.pick(INTEGERS)
            batching = draw.subset(range(rank), draw.pick([0, 0, 1, min(2, rank)]))
            rest = [dim for dim in range(rank) if dim not in batching]
            collapsed = draw.subset(rest)
            sizes = [1 if dim in batching + collapsed else draw.integer(0, operand[dim]) for dim in range(rank)]
            mapped = [rest[position] for position in draw.permutation(len(rest))][: draw.integer(0, len(rest))]
            indices, index_batching, vector = index_layout(draw, [operand[dim] for dim in batching], len(mapped))
            batch = [size for dim, size in enumerate(indices) if dim != vector]
            offset_sizes = [sizes[dim] for dim in range(rank) if dim not in batching + collapsed]
            total = len(batch) + len(offset_sizes)
            offset_dims = draw.subset(range(total), len(offset_sizes))
            result, batch_left, offset_left = [], list(batch), list(offset_sizes)
            for dim in range(total):
                result.append(offset_left.pop(0) if dim in offset_dims else batch_left.pop(0))
            inside = [
                f"offset_dims = {offset_dims}",
                f"collapsed_slice_dims = {collapsed}",
                f"operand_batching_dims = {batching}",
                f"start_indices_batching_dims = {index_batching}",
                f"start_index_map = {mapped}",
                f"index_vector_dim = {vector}",
            ]
            attributes = {
                "dimension_numbers": f"#stablehlo.gather<{nonempty(inside)}>",
                "slice_sizes": numbers(sizes),
                "indices_are_sorted": "false",
            }
            inputs = [draw.bits(dtype, operand), draw.indices(index_dtype, indices, max(operand))]
            yield one("stablehlo.gather", inputs, [(dtype, tuple(result))], attributes, oracle=index_oracle(inputs[1]))


def nonempty(lines):
    """Fields of an attribute as MLIR writes them: empty lists are left out."""
    return ", ".join(line for line in lines if "[]" not in line)


def index_layout(draw, batching_sizes, components):
    """The shape of the indices, which dimensions run along the operand's, and where the vector is."""
    batch = [("batch", size) for size in batching_sizes]
    batch += [("free", draw.integer(0 if draw.chance(0.05) else 1, 4)) for _ in range(draw.integer(0, 2))]
    batch = [batch[position] for position in draw.permutation(len(batch))]
    order = [position for position, (kind, _) in enumerate(batch) if kind == "batch"]
    # Which of the equally large dimensions is meant matters, so they are told apart by position.
    remaining, chosen = list(order), []
    for size in batching_sizes:
        fitting = [position for position in remaining if batch[position][1] == size]
        chosen.append(draw.pick(fitting))
        remaining.remove(chosen[-1])
    shape = [size for _, size in batch]
    vector = draw.integer(0, len(shape))
    if components == 1 and draw.chance(0.3):
        return tuple(shape), chosen, len(shape)
    shape.insert(vector, components)
    return tuple(shape), [position + (position >= vector) for position in chosen], vector


def scatter(draw):
    kinds = ["replace", "add", "multiply", "minimum", "maximum", "custom", "pair"]
    for dtype, kind in itertools.product([*INTEGERS, *FLOATS], kinds):
        for _ in draw.times(2):
            rank = draw.integer(1, 4)
            operand = tuple(draw.integer(1, 5) for _ in range(rank))
            index_dtype = draw.pick(INTEGERS)
            batching = draw.subset(range(rank), draw.pick([0, 0, 1, min(2, rank)]))
            rest = [dim for dim in range(rank) if dim not in batching]
            inserted = draw.subset(rest)
            mapped = [rest[position] for position in draw.permutation(len(rest))][: draw.integer(0, len(rest))]
            indices, index_batching, vector = index_layout(draw, [operand[dim] for dim in batching], len(mapped))
            batch = [size for dim, size in enumerate(indices) if dim != vector]
            windows = [draw.integer(0, operand[dim]) for dim in range(rank) if dim not in batching + inserted]
            total = len(batch) + len(windows)
            window_dims = draw.subset(range(total), len(windows))
            update, batch_left, window_left = [], list(batch), list(windows)
            for dim in range(total):
                update.append(window_left.pop(0) if dim in window_dims else batch_left.pop(0))
            inside = [
                f"update_window_dims = {window_dims}",
                f"inserted_window_dims = {inserted}",
                f"input_batching_dims = {batching}",
                f"scatter_indices_batching_dims = {index_batching}",
                f"scatter_dims_to_operand_dims = {mapped}",
                f"index_vector_dim = {vector}",
            ]
            attributes = {
                "scatter_dimension_numbers": f"#stablehlo.scatter<{nonempty(inside)}>",
                "indices_are_sorted": "false",
                "unique_indices": "false",
            }
            count = 2 if kind == "pair" else 1
            make = draw.bits if kind == "replace" else draw.values if kind in ("minimum", "maximum") else draw.exact
            if kind == "add":
                make = draw.ordinary
            values = [make(dtype, operand) for _ in range(count)]
            updates = [make(dtype, tuple(update)) for _ in range(count)]
            inputs = [*values, draw.indices(index_dtype, indices, max(operand)), *updates]
            yield one(
                "stablehlo.scatter",
                inputs,
                [(dtype, operand)] * count,
                attributes,
                [scatter_block(kind, dtype)],
            )


def scatter_block(kind, dtype):
    ty = tensor(dtype, ())
    if kind == "replace":
        return block([("%a", ty), ("%b", ty)], [], [("%b", ty)])
    if kind == "custom":
        # Not a single op, so the region itself is evaluated.
        double = f"%c = {operation('stablehlo.add', ['%b', '%b'], [ty, ty], [ty])}"
        keep = f"%d = {operation('stablehlo.subtract', ['%a', '%c'], [ty, ty], [ty])}"
        return block([("%a", ty), ("%b", ty)], [double, keep], [("%d", ty)])
    if kind == "pair":
        sum_line = f"%e = {operation('stablehlo.add', ['%a', '%c'], [ty, ty], [ty])}"
        cross = f"%f = {operation('stablehlo.subtract', ['%b', '%d'], [ty, ty], [ty])}"
        arguments = [(name, ty) for name in ("%a", "%b", "%c", "%d")]
        return block(arguments, [sum_line, cross], [("%e", ty), ("%f", ty)])
    return binary_block(f"stablehlo.{kind}", dtype)


# Reductions.


def identity(kind, dtype):
    """The value that leaves the other alone."""
    if kind in ("minimum", "maximum"):
        if dtype in FLOATS:
            value = np.inf if kind == "minimum" else -np.inf
        elif dtype == "i1":
            value = kind == "minimum"
        else:
            limits = np.iinfo(NUMPY[dtype])
            value = limits.max if kind == "minimum" else limits.min
    else:
        ones = np.iinfo(NUMPY[dtype]).max if dtype in UNSIGNED else True if dtype == "i1" else -1
        value = {"add": 0, "multiply": 1, "and": ones, "or": 0, "xor": 0}[kind]
    return np.asarray(value, NUMPY[dtype])


def reduction_kinds(dtype):
    kinds = ["add", "multiply", "minimum", "maximum"]
    return kinds if dtype in FLOATS else ["and", "or", "xor"] + (kinds[2:] if dtype == "i1" else kinds)


def reduction_values(draw, kind, dtype, shape):
    """Values whose reduction is defined: a product of many must not leave the type's range."""
    if kind == "multiply" and dtype in FLOATS:
        return np.asarray(draw.random.uniform(0.5, 1.5, shape)).astype(NUMPY[dtype])
    return draw.values(dtype, shape) if kind in ("minimum", "maximum") else summable(draw, dtype, shape)


def reduce(draw):
    for dtype in ALL:
        for kind in reduction_kinds(dtype):
            for _ in draw.times(3):
                shape = draw.shape()
                dims = draw.subset(range(len(shape)))
                result = tuple(size for dim, size in enumerate(shape) if dim not in dims)
                first = identity(kind, dtype) if draw.chance(0.7) else draw.exact(dtype, ())
                yield one(
                    "stablehlo.reduce",
                    [reduction_values(draw, kind, dtype, shape), first],
                    [(dtype, result)],
                    {"dimensions": numbers(dims)},
                    [binary_block(f"stablehlo.{kind}", dtype)],
                )


def reduce_several(draw):
    """The largest value and its position, as argmax is written, and two sums side by side."""
    for dtype in INTEGERS + FLOATS:
        for _ in draw.times(3):
            shape = draw.shape(1)
            dim = draw.integer(0, len(shape) - 1)
            result = tuple(size for other, size in enumerate(shape) if other != dim)
            positions = np.broadcast_to(np.arange(shape[dim]).reshape([-1] + [1] * (len(shape) - dim - 1)), shape)
            inputs = [draw.values(dtype, shape), positions.astype(np.int32), identity("maximum", dtype), np.int32(0)]
            yield one(
                "stablehlo.reduce",
                inputs,
                [(dtype, result), ("i32", result)],
                {"dimensions": numbers([dim])},
                [argmax_block(dtype)],
            )
        shape = draw.shape(1)
        dims = draw.subset(range(len(shape)))
        result = tuple(size for dim, size in enumerate(shape) if dim not in dims)
        inputs = [draw.exact(dtype, shape), draw.exact(dtype, shape), draw.exact(dtype, ()), draw.exact(dtype, ())]
        yield one(
            "stablehlo.reduce",
            inputs,
            [(dtype, result)] * 2,
            {"dimensions": numbers(dims)},
            [pair_sum_block(dtype)],
        )


def pair_sum_block(dtype):
    ty = tensor(dtype, ())
    names = ["%a", "%b", "%c", "%d"]
    lines = [
        f"%e = {operation('stablehlo.add', ['%a', '%c'], [ty, ty], [ty])}",
        f"%f = {operation('stablehlo.maximum', ['%b', '%d'], [ty, ty], [ty])}",
    ]
    return block([(name, ty) for name in names], lines, [("%e", ty), ("%f", ty)])


def argmax_block(dtype):
    """Keeps the larger value, NaN above all, and of equals the one that comes first."""
    value, index, flag = tensor(dtype, ()), tensor("i32", ()), tensor("i1", ())
    arguments = [("%a", value), ("%i", index), ("%b", value), ("%j", index)]
    order = order_of(dtype)
    lines = [
        compare_line("%greater", "GT", "%a", "%b", value, order),
        compare_line("%own", "NE", "%a", "%a", value, order),
        f"%wins = {operation('stablehlo.or', ['%greater', '%own'], [flag, flag], [flag])}",
        compare_line("%equal", "EQ", "%a", "%b", value, order),
        compare_line("%earlier", "LT", "%i", "%j", index, "SIGNED"),
        f"%first = {operation('stablehlo.and', ['%equal', '%earlier'], [flag, flag], [flag])}",
        f"%either = {operation('stablehlo.or', ['%wins', '%first'], [flag, flag], [flag])}",
        f"%c = {operation('stablehlo.select', ['%wins', '%a', '%b'], [flag, value, value], [value])}",
        f"%k = {operation('stablehlo.select', ['%either', '%i', '%j'], [flag, index, index], [index])}",
    ]
    return block(arguments, lines, [("%c", value), ("%k", index)])


def reduce_window(draw):
    for dtype in [*FLOATS, "i1", "i8", "i32", "ui16", "i64"]:
        for kind in reduction_kinds(dtype):
            made = 0
            while made < 4 * draw.scale:
                shape = draw.shape(highest=3, largest=7)
                window, stride = ([draw.integer(1, 3) for _ in shape] for _ in range(2))
                base_dilation, dilation = ([draw.pick([1, 1, 2, 3]) for _ in shape] for _ in range(2))
                padding = [(draw.integer(-1, 2), draw.integer(-1, 2)) for _ in shape]
                counts = [
                    window_count(size, base, low, high, taps, step, move)
                    for size, base, (low, high), taps, step, move in zip(
                        shape, base_dilation, padding, window, dilation, stride
                    )
                ]
                if any(count is None for count in counts):
                    continue
                made += 1
                attributes = {
                    "window_dimensions": numbers(window),
                    "window_strides": numbers(stride),
                    "base_dilations": numbers(base_dilation),
                    "window_dilations": numbers(dilation),
                    "padding": pairs(padding),
                }
                several_inputs = kind == "add" and draw.chance(0.3)
                count = 2 if several_inputs else 1
                make = draw.exact if several_inputs else lambda d, s: reduction_values(draw, kind, d, s)
                # How often a value that is not neutral counts is left open.
                neutral = [identity(kind, dtype), identity("maximum", dtype)][:count]
                inputs = [*(make(dtype, shape) for _ in range(count)), *neutral]
                yield one(
                    "stablehlo.reduce_window",
                    inputs,
                    [(dtype, tuple(counts))] * count,
                    attributes,
                    [pair_sum_block(dtype) if several_inputs else binary_block(f"stablehlo.{kind}", dtype)],
                )


def select_and_scatter(draw):
    for dtype in [*FLOATS, "i8", "i32", "ui16", "i64"]:
        made = 0
        while made < 6 * draw.scale:
            rank = draw.integer(1, 3)
            shape = tuple(draw.integer(1, 7) for _ in range(rank))
            window, stride = ([draw.integer(1, 3) for _ in shape] for _ in range(2))
            padding = [(draw.integer(0, w - 1), draw.integer(0, w - 1)) for w in window]
            counts = [
                window_count(size, 1, low, high, taps, 1, move)
                for size, (low, high), taps, move in zip(shape, padding, window, stride)
            ]
            made += 1
            ty, flag = tensor(dtype, ()), tensor("i1", ())
            direction = draw.pick(["GE", "LE", "GT"])
            chooses = compare_line("%c", direction, "%a", "%b", ty, order_of(dtype))
            selects = block([("%a", ty), ("%b", ty)], [chooses], [("%c", flag)])
            attributes = {
                "window_dimensions": numbers(window),
                "window_strides": numbers(stride),
                "padding": pairs(padding),
            }
            first = draw.exact(dtype, ())
            # XLA adds in an order of its own.
            source = (draw.exact if first != 0 else draw.ordinary)(dtype, tuple(counts))
            inputs = [draw.ordinary(dtype, shape), source, first]
            yield one(
                "stablehlo.select_and_scatter",
                inputs,
                [(dtype, shape)],
                attributes,
                [selects, binary_block("stablehlo.add", dtype)],
                # How often a value that is not neutral counts is left open; with XLA it is once.
                oracle=XLA if first != 0 else REFERENCE,
            )


# Order.


def sort(draw):
    for dtype in ALL:
        for _ in draw.times(6):
            shape = draw.shape(1, 3, largest=9)
            dim = draw.integer(0, len(shape) - 1)
            count = draw.integer(1, 3)
            direction = draw.pick(["LT", "GT"])
            order = "TOTALORDER" if dtype in FLOATS else order_of(dtype)
            keys = draw.values(dtype, shape)
            if dtype in FLOATS:
                keys = plain_nan(keys)
            others = [draw.bits(draw.pick(ALL), shape) for _ in range(count - 1)]
            inputs = [keys, *others]
            arguments = []
            for index, value in enumerate(inputs):
                ty = tensor(NAME[value.dtype], ())
                arguments += [(f"%l{index}", ty), (f"%r{index}", ty)]
            line = compare_line("%c", direction, "%l0", "%r0", tensor(dtype, ()), order)
            # Where there is only the key, equal elements cannot be told apart.
            stable = count > 1 or draw.chance(0.5)
            attributes = {"dimension": f"{dim} : i64", "is_stable": "true" if stable else "false"}
            region = block(arguments, [line], [("%c", tensor("i1", ()))])
            results = [(NAME[value.dtype], value.shape) for value in inputs]
            oracle = XLA if dtype in FLOATS else REFERENCE
            yield one("stablehlo.sort", inputs, results, attributes, [region], oracle=oracle)


def sort_by_two_keys(draw):
    for first, second in [("i32", "f32"), ("ui8", "i64"), ("bf16", "ui16"), ("i1", "f64")]:
        for _ in draw.times(3):
            shape = draw.shape(1, 3, largest=9)
            left = draw.exact(first, shape)
            right = draw.ordinary(second, shape)
            one_type, two_type, flag = tensor(first, ()), tensor(second, ()), tensor("i1", ())
            lines = [
                compare_line("%before", "LT", "%a", "%b", one_type, order_of(first)),
                compare_line("%same", "EQ", "%a", "%b", one_type, order_of(first)),
                compare_line("%after", "GT", "%c", "%d", two_type, order_of(second)),
                f"%both = {operation('stablehlo.and', ['%same', '%after'], [flag, flag], [flag])}",
                f"%e = {operation('stablehlo.or', ['%before', '%both'], [flag, flag], [flag])}",
            ]
            arguments = [("%a", one_type), ("%b", one_type), ("%c", two_type), ("%d", two_type)]
            attributes = {"dimension": f"{draw.integer(0, len(shape) - 1)} : i64", "is_stable": "true"}
            results = [(first, shape), (second, shape)]
            yield one("stablehlo.sort", [left, right], results, attributes, [block(arguments, lines, [("%e", flag)])])


def top_k(draw):
    for dtype in INTEGERS + FLOATS:
        for _ in draw.times(4):
            shape = draw.shape(1, 3, largest=9)
            count = draw.integer(0, shape[-1])
            result = (*shape[:-1], count)
            values = draw.values(dtype, shape)
            if dtype in FLOATS:
                values = plain_nan(values)
            # How NaNs are ordered is left open; we promise XLA's total order.
            attributes = {"k": f"{count} : i64"}
            yield one("chlo.top_k", [values], [(dtype, result), ("i32", result)], attributes, oracle=XLA)


# Control.


def while_loop(draw):
    for dtype in INTEGERS + FLOATS:
        for trips in [0, 1, draw.integer(2, 9)]:
            shape = draw.shape(0, 2)
            ty, index, flag = tensor(dtype, shape), tensor("i32", ()), tensor("i1", ())
            condition = compare_line("%go", "LT", "%i", "%argument1", index, "SIGNED")
            step = [
                f"%next = {operation('stablehlo.add', ['%i', '%one'], [index] * 2, [index])}",
                f"%more = {operation('stablehlo.add', ['%x', '%argument2'], [ty] * 2, [ty])}",
            ]
            regions = [
                block([("%i", index), ("%x", ty)], [condition], [("%go", flag)]),
                block([("%i", index), ("%x", ty)], step, [("%next", index), ("%more", ty)]),
            ]
            loop = operation("stablehlo.while", ["%zero", "%argument0"], [index, ty], [index, ty], None, regions)
            lines = [
                "%zero = stablehlo.constant dense<0> : tensor<i32>",
                "%one = stablehlo.constant dense<1> : tensor<i32>",
                f"%r:2 = {loop}",
            ]
            inputs = [draw.exact(dtype, shape), np.int32(trips), draw.exact(dtype, shape)]
            yield several("stablehlo.while", inputs, lines, [("%r#0", ("i32", ())), ("%r#1", (dtype, shape))])
    for start in draw.random.integers(1, 200, 12 * draw.scale):
        yield several("stablehlo.while", [np.int64(start)], collatz(), [("%r#0", ("i64", ())), ("%r#1", ("i64", ()))])


def collatz():
    """A loop whose trips depend on its data, with a branch inside that reads values from outside."""
    ty, flag = tensor("i64", ()), tensor("i1", ())

    def calculate(name, op, left, right):
        return f"{name} = {operation(f'stablehlo.{op}', [left, right], [ty, ty], [ty])}"

    halve = block([], [calculate("%half", "divide", "%x", "%two")], [("%half", ty)])
    triple = [calculate("%p", "multiply", "%x", "%three"), calculate("%q", "add", "%p", "%one")]
    body = [
        calculate("%odd", "and", "%x", "%one"),
        compare_line("%even", "EQ", "%odd", "%zero", ty, "SIGNED"),
        f"%y = {operation('stablehlo.if', ['%even'], [flag], [ty], None, [halve, block([], triple, [('%q', ty)])])}",
        calculate("%m", "add", "%n", "%one"),
    ]
    condition = compare_line("%go", "GT", "%x", "%one", ty, "SIGNED")
    arguments = [("%x", ty), ("%n", ty)]
    regions = [block(arguments, [condition], [("%go", flag)]), block(arguments, body, [("%y", ty), ("%m", ty)])]
    constants = [
        f"%{n} = stablehlo.constant dense<{v}> : {ty}" for n, v in [("zero", 0), ("one", 1), ("two", 2), ("three", 3)]
    ]
    loop = operation("stablehlo.while", ["%argument0", "%zero"], [ty, ty], [ty, ty], None, regions)
    return [*constants, f"%r:2 = {loop}"]


def branches(op, choices, count):
    """Each branch computes something else from the same values outside."""

    def cases(draw):
        for dtype in INTEGERS + FLOATS:
            for choice in choices:
                shape = draw.shape(0, 2)
                ty = tensor(dtype, shape)
                regions = []
                for index, name in enumerate(["add", "subtract", "multiply", "maximum"][:count]):
                    line = operation(f"stablehlo.{name}", ["%argument1", "%argument2"], [ty, ty], [ty])
                    regions.append(block([], [f"%b{index} = {line}"], [(f"%b{index}", ty), ("%argument1", ty)]))
                flag = type_of(choice)
                line = operation(op, ["%argument0"], [flag], [ty, ty], None, regions)
                inputs = [choice, draw.exact(dtype, shape), draw.exact(dtype, shape)]
                results = [("%r#0", (dtype, shape)), ("%r#1", (dtype, shape))]
                yield several(op, inputs, [f"%r:2 = {line}"], results)

    return cases


def map_function(draw):
    for dtype in INTEGERS + FLOATS:
        for _ in draw.times(2):
            shape, ty = draw.shape(), tensor(dtype, ())
            lines = [
                f"%c = {operation('stablehlo.multiply', ['%a', '%b'], [ty, ty], [ty])}",
                compare_line("%less", "LT", "%a", "%b", ty, order_of(dtype)),
                f"%d = {operation('stablehlo.select', ['%less', '%c', '%a'], [tensor('i1', ()), ty, ty], [ty])}",
            ]
            region = block([("%a", ty), ("%b", ty)], lines, [("%d", ty)])
            inputs = [draw.values(dtype, shape), draw.values(dtype, shape)]
            attributes = {"dimensions": numbers(range(len(shape)))}
            yield one("stablehlo.map", inputs, [(dtype, shape)], attributes, [region])


# Random bits, linear algebra, normalization.


def rng_bit_generator(draw):
    for algorithm, state_size in [("THREE_FRY", 2), ("PHILOX", 2), ("PHILOX", 3), ("DEFAULT", 2), ("DEFAULT", 3)]:
        for dtype in INTEGERS:
            for _ in draw.times(1):
                shape = draw.pick([(), (1,), (2,), (5,), (7, 3), (4, 4), (33,), (2, 3, 5), (0,), draw.shape()])
                state = draw.bits("ui64", (state_size,))
                attributes = {"rng_algorithm": f"#stablehlo<rng_algorithm {algorithm}>"}
                results = [("ui64", (state_size,)), (dtype, shape)]
                yield one("stablehlo.rng_bit_generator", [state], results, attributes, oracle=XLA)


def cholesky(draw):
    for dtype, lower in itertools.product(["f32", "f64"], [True, False]):
        for size in [0, 1, 2, 3, 5, 8][:6]:
            batch = draw.shape(0, 2, 3)
            root = draw.random.normal(size=(*batch, size, size))
            # Far from singular, so that rounding is not magnified.
            values = (root @ np.swapaxes(root, -1, -2) + size * np.eye(size)).astype(NUMPY[dtype])
            triangle = np.tril(np.ones((size, size), bool)) if lower else np.triu(np.ones((size, size), bool))
            yield one(
                "stablehlo.cholesky",
                [values],
                [(dtype, values.shape)],
                {"lower": "true" if lower else "false"},
                oracle=XLA,
                widen=True,
                defined=[np.broadcast_to(triangle, values.shape)],
                terms=(size + 1) ** 2,
            )


def triangular_solve(draw):
    options = itertools.product([True, False], [True, False], [True, False], ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
    for (left_side, lower, unit, transposed), dtype in itertools.product(options, ["f32", "f64"]):
        for _ in draw.times(1):
            size, columns = draw.integer(0 if draw.chance(0.1) else 1, 6), draw.integer(1, 4)
            batch = draw.shape(0, 2, 3)
            # The other triangle holds numbers that must not be read.
            matrix = draw.random.normal(size=(*batch, size, size)) * 0.3 + 2 * np.eye(size)
            right = draw.random.normal(size=(*batch, size, columns) if left_side else (*batch, columns, size))
            attributes = {
                "left_side": str(left_side).lower(),
                "lower": str(lower).lower(),
                "unit_diagonal": str(unit).lower(),
                "transpose_a": f"#stablehlo<transpose {transposed}>",
            }
            inputs = [matrix.astype(NUMPY[dtype]), right.astype(NUMPY[dtype])]
            yield one(
                "stablehlo.triangular_solve",
                inputs,
                [(dtype, right.shape)],
                attributes,
                oracle=XLA,
                widen=True,
                terms=(size + 1) ** 2,
            )


def batch_norm(kind):
    def cases(draw):
        for dtype in FLOATS:
            for _ in draw.times(4):
                shape = tuple(draw.integer(2, 5) for _ in range(draw.integer(1, 4)))
                dim = draw.integer(0, len(shape) - 1)
                # Enough values for each feature that their variance is not near zero.
                if len(shape) < 3:
                    shape = (*shape, 6)
                features = (shape[dim],)
                value, gradient = draw.ordinary(dtype, shape), draw.ordinary(dtype, shape)
                scale, offset, mean = (draw.ordinary(dtype, features) for _ in range(3))
                variance = draw.random.uniform(0.5, 2, features).astype(NUMPY[dtype])
                inputs, results = {
                    "grad": ([value, scale, mean, variance, gradient], [shape, features, features]),
                    "inference": ([value, scale, offset, mean, variance], [shape]),
                    "training": ([value, scale, offset], [shape, features, features]),
                }[kind]
                attributes = {"epsilon": f"{draw.pick([0.001, 0.25])} : f32", "feature_index": f"{dim} : i64"}
                yield one(
                    f"stablehlo.batch_norm_{kind}",
                    inputs,
                    [(dtype, result) for result in results],
                    attributes,
                    oracle=XLA,
                    widen=True,
                    terms=int(np.prod(shape)),
                )

    return cases


# Collectives among one device.


def collectives(draw):
    groups = "dense<0> : tensor<1x1xi64>"
    for dtype in ["i1", "i32", "ui8", "bf16", "f32", "f64"]:
        shape = tuple(draw.integer(1, 4) for _ in range(draw.integer(1, 3)))
        dim = draw.integer(0, len(shape) - 1)
        kind = "or" if dtype == "i1" else "add"
        region = [binary_block(f"stablehlo.{kind}", dtype)]
        rows = [
            ("all_reduce", {"replica_groups": groups}, region),
            ("all_gather", {"all_gather_dim": f"{dim} : i64", "replica_groups": groups}, []),
            ("reduce_scatter", {"scatter_dimension": f"{dim} : i64", "replica_groups": groups}, region),
            (
                "all_to_all",
                {
                    "split_dimension": f"{dim} : i64",
                    "concat_dimension": f"{dim} : i64",
                    "split_count": "1 : i64",
                    "replica_groups": groups,
                },
                [],
            ),
            ("collective_permute", {"source_target_pairs": "dense<0> : tensor<1x2xi64>"}, []),
        ]
        for name, attributes, regions in rows:
            yield one(f"stablehlo.{name}", [draw.bits(dtype, shape)], [(dtype, shape)], attributes, regions, oracle=XLA)
        # XLA has no such op on the CPU. Alone, a device receives what it sends.
        values = draw.bits(dtype, shape)
        attributes = {"replica_groups": groups}
        case = one("stablehlo.collective_broadcast", [values], [(dtype, shape)], attributes, oracle=GIVEN)
        case.results = [values]
        yield case
    for name in ["replica_id", "partition_id"]:
        yield one(f"stablehlo.{name}", [], [("ui32", ())], oracle=XLA)


FAMILIES = {
    **{f"stablehlo.{name}": unary(name) for name in sorted({*FLOAT_UNARY, *INTEGER_UNARY})},
    **{f"chlo.{name}": chlo_unary(name) for name in CHLO_UNARY},
    **{f"stablehlo.{name}": binary(name) for name in BINARY},
    "chlo.next_after": next_after,
    "chlo.polygamma": polygamma,
    "chlo.top_k": top_k,
    "chlo.zeta": zeta,
    "stablehlo.batch_norm_grad": batch_norm("grad"),
    "stablehlo.batch_norm_inference": batch_norm("inference"),
    "stablehlo.batch_norm_training": batch_norm("training"),
    "stablehlo.bitcast_convert": bitcast_convert,
    "stablehlo.broadcast_in_dim": broadcast_in_dim,
    "stablehlo.case": branches("stablehlo.case", [np.int32(value) for value in (-1, 0, 2, 3, 9)], 4),
    "stablehlo.cholesky": cholesky,
    "stablehlo.clamp": clamp,
    "stablehlo.collectives": collectives,
    "stablehlo.compare": compare,
    "stablehlo.complex": complex_parts,
    "stablehlo.concatenate": concatenate,
    "stablehlo.constant": constant,
    "stablehlo.convert": convert,
    "stablehlo.convolution": convolution,
    "stablehlo.dot_general": dot_general,
    "stablehlo.dynamic_slice": dynamic_slice,
    "stablehlo.dynamic_update_slice": dynamic_update_slice,
    "stablehlo.gather": gather,
    "stablehlo.if": branches("stablehlo.if", [np.asarray(value) for value in (True, False)], 2),
    "stablehlo.iota": iota,
    "stablehlo.map": map_function,
    "stablehlo.optimization_barrier": optimization_barrier,
    "stablehlo.pad": pad,
    "stablehlo.reduce": reduce,
    "stablehlo.reduce of several": reduce_several,
    "stablehlo.reduce_precision": reduce_precision,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.reshape": reshape,
    "stablehlo.reverse": reverse,
    "stablehlo.rng_bit_generator": rng_bit_generator,
    "stablehlo.scatter": scatter,
    "stablehlo.select": select,
    "stablehlo.select_and_scatter": select_and_scatter,
    "stablehlo.slice": slices,
    "stablehlo.sort": sort,
    "stablehlo.sort by two keys": sort_by_two_keys,
    "stablehlo.transpose": transpose,
    "stablehlo.triangular_solve": triangular_solve,
    "stablehlo.while": while_loop,
}


def cases_of(family, scale=1):
    return list(FAMILIES[family](Draw(family, scale)))


def widened(case):
    """The same question in f64. Attributes keep their types."""
    text = re.sub(r"(?<=[x<])(bf16|f16|f32)(?=>)", "f64", case.text)
    inputs = [value.astype(np.float64) if NAME[value.dtype] in FLOATS else value for value in case.inputs]
    return text, inputs
