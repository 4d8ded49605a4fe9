"""Every row of the compiler's table of ATen ops computes what PyTorch does: one call of each."""

import functools

import calls
import pytest
import torch
from torch.utils import _pytree as pytree

from meshwright import _core
from meshwright.torch.check import difference, evaluate
from meshwright.torch.record import Recorder

NAMES = [*_core.aten_ops()]


@functools.cache
def found():
    return calls.calls(set(NAMES) - set(calls.ELSEWHERE))


@pytest.mark.parametrize("name", NAMES)
def test_row(name):
    if name in calls.ELSEWHERE:
        pytest.skip(calls.ELSEWHERE[name])
    call = found()[name]
    recorder = Recorder()
    values = {}
    for number, tensor in enumerate(call.tensors()):
        recorder.argument(f"operand{number}", tensor)
        values[f"operand{number}"] = tensor
    expected = {}
    outs = [*call.out] if isinstance(call.out, (tuple, list)) else [call.out]
    recorder._record(call.op, name, call.args, call.kwargs, call.out)
    for number, out in enumerate(outs):
        if torch.is_tensor(out) and number not in calls.UNSAID.get(name, ()):
            recorder.result(f"result{number}", out)
            expected[f"result{number}"] = out
    program = _core.Program(recorder.text(name), name)
    assert not program.warnings
    made = evaluate(program, values)
    for result, value in expected.items():
        if name in calls.RANDOM:
            assert made[result].shape == value.shape and made[result].dtype == value.dtype
            continue
        assert difference(made[result], value.contiguous()) <= 2e-5, f"{name}: {made[result]} and not {value}"


def test_all_is_said_of_rows_that_are():
    """What is said of an op is of use only as long as the table has it."""
    said = {*calls.ELSEWHERE, *calls.RANDOM, *calls.UNSAID}
    assert said <= set(NAMES)
