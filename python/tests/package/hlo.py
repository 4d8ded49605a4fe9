"""What a compiled module computes, read from its text."""

import math
import re

COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+)[^\n]*\{$(?P<body>.*?)^\}", re.M | re.S)
INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<type>\(.*?\)|\S+) (?P<op>[\w\-]+)\((?P<rest>.*)$", re.M)
# What is computed inside of an instruction, once, or as often as a loop runs.
CALLED = re.compile(r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)")
TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')


def matrix_flops(text: str) -> int:
    """Operations in products of matrices and convolutions, of which a multiply-add is two. XLA's own `cost_analysis`
    counts bodies of loops once, and besides what fusions compute twice, which differs from what a program says."""
    found = {match["name"]: list(INSTRUCTION.finditer(match["body"])) for match in COMPUTATION.finditer(text)}
    entry = next(match["name"] for match in COMPUTATION.finditer(text) if match["entry"])

    def flops(name: str) -> int:
        shapes = {each["name"]: sizes(each["type"]) for each in found[name]}
        total = 0
        for each in found[name]:
            if each["op"] in ("dot", "convolution"):
                lhs, rhs = (shapes[operand] for operand in re.findall(r"%([\w.\-]+)", each["rest"])[:2])
                result = shapes[each["name"]]
                if each["op"] == "dot":
                    total += 2 * math.prod(result) * dot_terms(lhs, each["rest"])
                else:
                    total += 2 * convolution_products(lhs, rhs, result, each["rest"])
            trips = int(TRIPS.search(each["rest"])[1]) if TRIPS.search(each["rest"]) else 1
            total += trips * sum(flops(called) for called in CALLED.findall(each["rest"]) if called in found)
        return total

    return flops(entry)


def sizes(written: str) -> tuple[int, ...]:
    match = re.match(r"\w+\[([\d,]*)\]", written)
    return tuple(int(size) for size in match[1].split(",") if size) if match else ()


def dot_terms(lhs: tuple[int, ...], rest: str) -> int:
    """How many products are summed for each number."""
    dims = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", rest)[1]
    return math.prod(lhs[int(dim)] for dim in dims.split(",") if dim)


def convolution_products(lhs: tuple[int, ...], kernel: tuple[int, ...], result: tuple[int, ...], rest: str) -> int:
    """How many numbers of the kernel meet one of the input, which is neither padding nor a hole between numbers."""
    left, right, made = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", rest).groups()
    window = dict(re.findall(r"(\w+)=([\w\-]+)", match[1])) if (match := re.search(r"window=\{([^}]*)\}", rest)) else {}
    total = result[made.index("b")] * result[made.index("f")] * kernel[right.index("i")]
    for dim in range(len(left) - 2):
        strided, dilated, spread = (
            int(window[name].split("x")[dim]) if name in window else 1 for name in ("stride", "lhs_dilate", "rhs_dilate")
        )
        before = int(window["pad"].split("x")[dim].split("_")[0]) if "pad" in window else 0
        label = str(dim)
        places = (
            output * strided + place * spread - before
            for output in range(result[made.index(label)])
            for place in range(kernel[right.index(label)])
        )
        end = (lhs[left.index(label)] - 1) * dilated
        total *= sum(0 <= place <= end and place % dilated == 0 for place in places)
    return total
