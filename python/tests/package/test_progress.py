"""Long work shows a line on a terminal, and nothing elsewhere."""

import io
import os
import pty
import sys
import time

import pytest
from cases import mlp

import meshwright as mw
from meshwright.jax.progress import line, shown

CLEAR = "\x1b[K"


@pytest.mark.parametrize(
    "given, looks",
    [
        (("compiling", 3.4, 0, 4), "compiling ░░░░░░░░░░░░░░░░░░░░ 0/4  3 s"),
        (("compiling", 3.6, 3, 4), "compiling ███████████████░░░░░ 3/4  4 s"),
        (("planning", 0.0, 0, 0), "planning ███░░░░░░░░░░░░░░░░░  0 s"),
        (("planning", 1.7, 0, 0), "planning ░░░░░░░░░░░░░░░░░███  2 s"),
    ],
)
def test_lines(given, looks):
    assert line(*given) == looks + CLEAR


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_terminal_sees_what_is_done():
    out = Terminal()
    with shown("working", out) as told:
        told(1, 2)
        time.sleep(0.6)
    assert out.getvalue().startswith("\rworking ██████████░░░░░░░░░░ 1/2")
    assert out.getvalue().endswith("\r" + CLEAR), "the line is gone at the end"


def test_what_is_quick_shows_nothing():
    out = Terminal()
    with shown("working", out):
        pass
    assert out.getvalue() == ""


def test_what_is_no_terminal_sees_nothing(capfd):
    case = mlp()
    step = mw.jax.parallelize(case.step, **case.options)
    step(case.fresh_state(), case.batch(0))
    assert capfd.readouterr().err == ""


def test_steps_show_that_they_compile(monkeypatch):
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        case = mlp()
        mw.jax.parallelize(case.step, tactics=[mw.stages(2)], mesh={"data": 1}, **case.options)(case.state, case.batch(0))
        monkeypatch.undo()
        terminal.flush()
        said = os.read(ours, 1 << 16).decode()
    os.close(ours)
    assert "compiling █" in said or "compiling ░" in said
    assert "/" in said
