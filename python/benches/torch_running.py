"""Plans on four processes beside one process: how far losses, gradients and parameters are off, and memory beside what was
foretold.

    python python/benches/torch_running.py [MODEL ...]

trains the models of `python/tests/torch/models.py` for five steps under every plan of `python/tests/torch/train.py`: by
presets, automatic without a limit and under three, with ops computed again or in slices, and in stages. Memory is that of
the process that has most, from the events of PyTorch's allocator. All of it takes tens of minutes on two cores; names of
models choose some.
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests" / "torch"))

import processes  # noqa: E402
import train  # noqa: E402

WORLD = 4


def main(names: list[str]) -> int:
    off, failed = [], 0
    print("| model | plan | loss | gradients | parameters | bytes foretold | measured | share |")
    print("|---|---|--:|--:|--:|--:|--:|--:|")
    for model in dict.fromkeys(case.split(":")[0] for case in train.ALL):
        cases = [case for case in train.ALL if case.startswith(f"{model}:")]
        if names and model not in names:
            continue
        for case, row in processes.run(WORLD, "train.py", ",".join(cases), seconds=3600).items():
            cells = case.split(":")
            if "error" in row:
                print(f"| {cells[0]} | {cells[1]} | {row['error'].strip().splitlines()[-1]} |", flush=True)
                failed += 1
                continue
            measured, predicted = max(row["measured"]), row["predicted"]
            off.append(abs(measured / predicted - 1))
            worst = [row["worst"][kind][0] for kind in ("loss", "grads", "params")]
            failed += max(worst) >= 1e-4
            numbers = [*(f"{number:.0e}" for number in worst), f"{predicted:,}", f"{measured:,}", f"{measured / predicted:.3f}"]
            print(f"| {' | '.join([*cells, *numbers])} |", flush=True)
    inside = sum(share <= 0.1 for share in off)
    print(f"\n{failed} rows failed or are off by 1e-4 or more; ", end="")
    print(f"memory: {inside} of {len(off)} within 10 %, median {statistics.median(off):.1%}, most {max(off):.1%}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
