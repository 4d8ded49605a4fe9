"""The page on propagation says how ours compares with Shardy's; it has to be true."""

import os
import sys
from pathlib import Path

import pytest

from schedules import WEIGHTS

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "python" / "benches"))

import shardy  # noqa: E402


@pytest.mark.parametrize("sample", sorted(set(WEIGHTS) - {"gpt32"}))
def test_shardings_agree_with_those_of_shardy_as_documented(sample):
    tool = Path(os.environ["MESHWRIGHT"]).parent / "examples" / "layout"
    line, _ = shardy.row(tool, sample)
    assert line in (ROOT / "docs" / "concepts" / "propagation.md").read_text()
