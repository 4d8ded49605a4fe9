"""Shardy's propagation beside ours, from the same tiles on the arguments of the same programs.

    shardy.py compare TOOL [SAMPLE ...]    prints a table of where shardings agree, and every difference
    shardy.py time TOOL MODEL              prints the least seconds that Shardy's propagation takes
    shardy.py ours TOOL MODEL              prints the least seconds of ours, and of ours with lowering

TOOL is the compiler's tool `layout`, built. It tells our shardings, and prints the program
that both see: calls inlined, dead code gone, every op numbered in its location.
"""

import collections
import json
import pathlib
import re
import subprocess
import sys
import time

from jax._src.interpreters import mlir
from jaxlib.mlir import ir, passmanager

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "python" / "tests"))

from schedules import WEIGHTS, data, megatron  # noqa: E402

MESH = {"data": 2, "model": 4}
SEEDS = {"data": [data], "megatron": [megatron], "data, then megatron": [data, megatron]}
PIPELINE = "builtin.module(sdy-propagation-pipeline)"
TIMED = "data, then megatron"
ROUNDS = 3


def run_tool(program, model, tiles, emit):
    mesh = ",".join(f"{name}={size}" for name, size in MESH.items())
    steps = [option for step in tiles for option in ("--tiles", written(step))]
    command = [program, model, "--mesh", mesh, *steps, "--emit", emit]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def written(step):
    return f"{step['axis']}:{','.join(f'{pattern}={dim}' for pattern, dim in step['tile'].items())}"


def seeded(text, seeds):
    """A module with tiles on arguments. Whatever is not tiled is open to propagation."""
    axes = ", ".join(f'"{name}"={size}' for name, size in MESH.items())
    module = ir.Module.parse(text.replace("{\n", f"{{\n  sdy.mesh @mesh = <[{axes}]>\n", 1))
    function = main(module)
    tiles = collections.defaultdict(dict)
    for seed in seeds:
        tiles[seed["argument"]][seed["dim"]] = seed
    attributes = []
    for index, argument in enumerate(function.arguments):
        named = {item.name: item.attr for item in function.arg_attrs[index]}
        if index in tiles:
            rank = ir.RankedTensorType(argument.type).rank
            dims = (dimension(tiles[index].get(dim)) for dim in range(rank))
            named["sdy.sharding"] = ir.Attribute.parse(f"#sdy.sharding<@mesh, [{', '.join(dims)}]>")
        attributes.append(ir.DictAttr.get(named))
    function.arg_attrs = ir.ArrayAttr.get(attributes)
    return module


def dimension(seed):
    if seed is None:
        return "{?}"
    # Shardy spreads what has a lower number first: our steps.
    axes = (f'"{name}"{colon}{part}' for name, colon, part in (axis.partition(":") for axis in seed["axes"].split(",")))
    return f"{{{', '.join(axes)}, ?}}p{seed['step']}"


def main(module):
    return next(op for op in module.body.operations if op.operation.name == "func.func")


def propagated(text, seeds):
    """What Shardy makes of it: shardings of arguments, results and matrix products by number."""
    with mlir.make_ir_context(), ir.Location.unknown():
        module = seeded(text, seeds)
        passmanager.PassManager.parse(PIPELINE).run(module.operation)
        function = main(module)
        arguments = [read(function.arg_attrs[i], value.type) for i, value in enumerate(function.arguments)]
        results = [read(function.result_attrs[i], type) for i, type in enumerate(function.type.results)]
        products = {}

        def visit(operation):
            if operation.name == "stablehlo.dot_general":
                number = re.search(r"op\.(\d+)", str(operation.location))[1]
                products[number] = read(operation.attributes, operation.results[0].type)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        return arguments, results, products


def read(attributes, type):
    """The axes of each dimension, as our own text has them."""
    rank = ir.RankedTensorType(type).rank
    if "sdy.sharding" not in attributes:
        return [""] * rank
    dims = re.search(r"@mesh, \[(.*?)\]", str(attributes["sdy.sharding"]))[1]
    return [",".join(re.findall(r'"\w+"(?::\(\d+\)\d+)?', dim)).replace('"', "") for dim in re.findall(r"\{(.*?)\}", dims)]


def verdict(ours, theirs):
    if ours == theirs:
        return "agree"
    if all(not their or their == our for our, their in zip(ours, theirs)):
        return "ours more"
    if all(not our or their == our for our, their in zip(ours, theirs)):
        return "Shardy more"
    return "otherwise"


def compare_one(program, sample, steps):
    model = ROOT / "tests" / "samples" / f"{sample}.mlir.gz"
    tiles = [step(sample) for step in steps]
    ours = json.loads(run_tool(program, model, tiles, "shardings"))
    arguments, results, products = propagated(run_tool(program, model, tiles, "numbered"), ours["seeds"])
    found = []
    for kind, mine, theirs in (
        ("argument", ours["arguments"], arguments),
        ("result", ours["results"], results),
        ("product", ours["products"], [products[product["name"]] for product in ours["products"]]),
    ):
        for entry, their in zip(mine, theirs, strict=True):
            name = entry.get("scope") or entry["name"]
            found.append((kind, name, verdict(entry["dims"], their), entry["dims"], their))
    return found


def row(program, sample):
    """A line of the table, and what was found for each way to tile."""
    found = {name: compare_one(program, sample, steps) for name, steps in SEEDS.items()}
    cells = [f"{sum(entry[2] == 'agree' for entry in entries)} of {len(entries)}" for entries in found.values()]
    return f"| `{sample}` | {' | '.join(cells)} |", found


def compare(program, names):
    print(f"| sample | {' | '.join(SEEDS)} |")
    print(f"|---|{'--:|' * len(SEEDS)}")
    counts, differences = collections.Counter(), []
    for sample in names or sorted(WEIGHTS):
        line, found = row(program, sample)
        print(line, flush=True)
        for name, entries in found.items():
            counts.update((kind, outcome) for kind, _, outcome, _, _ in entries)
            differences += [(sample, name, *entry) for entry in entries if entry[2] != "agree"]
    outcomes = ("agree", "Shardy more", "ours more", "otherwise")
    print(f"\n| | {' | '.join(outcomes)} |\n|---|{'--:|' * len(outcomes)}")
    for kind in ("argument", "result", "product"):
        print(f"| {kind}s | {' | '.join(str(counts[kind, outcome]) for outcome in outcomes)} |")
    print()
    for sample, name, kind, value, outcome, ours, theirs in differences:
        print(f"{sample}, {name}: {kind} `{value}`: {outcome}: ours {ours}, Shardy {theirs}")


def measure(program, model):
    tiles = [step("gpt32") for step in SEEDS[TIMED]]
    seeds = json.loads(run_tool(program, model, tiles, "shardings"))["seeds"]
    text = run_tool(program, model, tiles, "numbered")
    best = float("inf")
    for _ in range(ROUNDS):
        with mlir.make_ir_context(), ir.Location.unknown():
            module = seeded(text, seeds)
            pipeline = passmanager.PassManager.parse(PIPELINE)
            # Verification between passes is no part of propagation.
            pipeline.enable_verifier(False)
            start = time.perf_counter()
            pipeline.run(module.operation)
            best = min(best, time.perf_counter() - start)
    return best


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["compare", program, *names]:
            compare(program, names)
        case ["time", program, model]:
            print(measure(program, model))
        case ["ours", program, model]:
            print(run_tool(program, model, [step("gpt32") for step in SEEDS[TIMED]], "seconds"))
        case _:
            sys.exit(__doc__)
