"""The blocks of Python in guides run, one after the other, as a reader would run them."""

import re
from pathlib import Path

import pytest

GUIDES = Path(__file__).parents[3] / "docs/guides"


@pytest.mark.parametrize("name", ["jax.md"])
def test_blocks_run(name, tmp_path, monkeypatch):
    text = (GUIDES / name).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert blocks
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, name, "exec"), names)
    assert (tmp_path / "plan.json").exists()
    page = (tmp_path / "plan.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert '"kind":"plan"' in page
