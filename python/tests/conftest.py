"""What Python tests share: the command, which `cargo xtask test` builds and names in MESHWRIGHT."""

import os
import subprocess
from pathlib import Path

import pytest


@pytest.fixture
def meshwright():
    """Runs the command and returns what it printed; anything but success fails the test."""
    path = os.environ.get("MESHWRIGHT")
    if not path:
        pytest.fail("MESHWRIGHT does not name the command; run `cargo xtask test --python`")

    def run(*arguments):
        done = subprocess.run([path, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture
def samples():
    return Path(__file__).parents[2] / "tests" / "samples"
