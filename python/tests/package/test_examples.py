"""The examples run as they are told to, and learn something."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[3] / "examples"
# What each prints.
SAYS = {
    "flax_model": r"a device has \(32, 256\) of \(256, 256\)",
    "gpt": r"Fits: ",
    "pipeline": r"layer 0 is on devices \[0, 1, 2, 3\]\nlayer 1 is on devices \[4, 5, 6, 7\]",
    "plan_for_a_cluster": r"8x8xh100: [\d.]+ s a step, [\d.]+ GiB on a device",
}


def test_all_examples_are_here():
    # Those of PyTorch run in an environment of their own, beside its tests.
    assert {path.stem for path in EXAMPLES.glob("*.py") if not path.stem.startswith("torch_")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_examples_run(name, tmp_path):
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=8"}
    words = [sys.executable, str(EXAMPLES / f"{name}.py")]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert re.search(SAYS[name], done.stdout), done.stdout
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert not losses or losses[-1] < 0.9 * losses[0]
