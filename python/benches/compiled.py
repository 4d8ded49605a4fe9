"""What plans foretell beside what XLA compiles, and what eight devices compute beside one, for models of flax.

    compiled.py [MODEL ...]    runs all models or the named ones in all ways to plan them, and prints a table

Columns are the bytes of a device by the plan and their share of what XLA says (of stages, the fullest: what it holds by
its list, and what XLA needs besides for what runs), the share of operations in products, whether collectives are the same
in kind, groups and bytes, and the largest difference from one device over five steps: of losses, of gradients, of
parameters. The last line has the bars.
"""

import os
import statistics
import sys
from pathlib import Path

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"
TESTS = Path(__file__).parents[1] / "tests"
sys.path += [str(TESTS), str(TESTS / "package")]

import ways  # noqa: E402
from models import MODELS  # noqa: E402

import meshwright as mw  # noqa: E402


def row(name, way):
    """Cells of the table, and the shares of memory and of operations."""
    try:
        step = ways.prepared(name, way)
    except mw.Error as error:
        return [str(error).splitlines()[0]], None, None
    written, compiled = ways.collectives(step)
    found = ways.differences(name, way)
    numbers = [f"{number:.0e}" for number in (found.loss, found.gradient, found.parameter)]
    same = "same" if written == compiled else "DIFFERENT"
    memory = step.plan.peak_bytes / ways.xla_bytes(step)
    flops = ways.flops_share(step)
    return [f"{step.plan.peak_bytes:,}", f"{memory:.3f}", f"{flops:.3f}", same, *numbers], memory, flops


def main(names):
    print("| model | way | bytes | of XLA's | products | collectives | loss | gradients | parameters |")
    print("|---|---|--:|--:|--:|---|--:|--:|--:|")
    memories, flops = [], []
    for name, way in ways.ALL:
        if names and name not in names:
            continue
        cells, memory, products = row(name, way)
        print(f"| {name} | {way} | {' | '.join(cells)} |", flush=True)
        memories += [memory] if memory else []
        flops += [products] if products else []
    off = [abs(share - 1) for share in memories]
    inside = sum(share <= 0.1 for share in off)
    print(f"\nmemory: {inside} of {len(off)} within 10 %, median {statistics.median(off):.1%}, most {max(off):.1%}", end="; ")
    print(f"products: most {max(abs(share - 1) for share in flops):.1%}")


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in MODELS]
    if unknown:
        sys.exit(f"no such model: {', '.join(unknown)}; there are: {', '.join(MODELS)}\n{__doc__}")
    main(sys.argv[1:])
