"""Attention in all its forms is one op, also in those that only GPUs have, and computes what PyTorch computes."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from meshwright import _core
from meshwright.torch.check import difference, evaluate

SHAPES = {"query": (2, 4, 5, 8), "key": (2, 2, 6, 8), "value": (2, 2, 6, 8), "gradient": (2, 4, 5, 8)}
# Of every kernel, its operands and results, forward and backward; `S` is what is kept of the scores, `none` what is nothing.
KERNELS = {
    "_scaled_dot_product_flash_attention_for_cpu": (
        "%0, %1, %2, 0.0, false, %4, 0.3", "O S", "%3, %0, %1, %2, %5, %6, 0.0, false, %4, 0.3"),
    "_scaled_dot_product_flash_attention": (
        "%0, %1, %2, 0.0, false, false, 0.3", "O S _ _ N N N N _",
        "%3, %0, %1, %2, %5, %6, none, none, 5, 6, 0.0, false, none, none, 0.3"),
    "_scaled_dot_product_efficient_attention": (
        "%0, %1, %2, %4, true, 0.0, false, 0.3", "O S N N",
        "%3, %0, %1, %2, %4, %5, %6, none, none, 0.0, [true, true, true, false], false, 0.3"),
    "_scaled_dot_product_cudnn_attention": (
        "%0, %1, %2, %4, true, 0.0, false, false, 0.3", "O S _ _ N N N N _",
        "%3, %0, %1, %2, %5, %6, none, none, %4, none, none, 5, 6, 0.0, false, 0.3"),
}  # fmt: skip


def text(kernel, operands, results, backward):
    takes_bias = "%4" in operands
    types = {"O": "f32[2,4,5,8]", "S": "f32[2,4,5]", "N": "i64[]", "_": "_"}
    marks = results.split()
    left = " ".join("_" if mark == "_" else f"%{5 + number}" for number, mark in enumerate(marks))
    lines = ['aten 1 "attention"', f'location 0 "_{kernel}#0" "" 0', f'location 1 "_{kernel}_backward#0" "" 0']
    names = [*SHAPES, "bias"] if takes_bias else [*SHAPES]
    shapes = SHAPES | {"bias": (2, 1, 5, 6)}
    lines += [f'%{n} = argument "{name}" : f32[{",".join(map(str, shapes[name]))}]' for n, name in enumerate(names)]
    lines.append(f"{left} = aten.{kernel}.default({operands}) : {' '.join(types[mark] for mark in marks)} @0")
    inputs = " ".join(f"f32[{','.join(map(str, SHAPES[name]))}]" for name in ("query", "key", "value"))
    lines.append(f"%20 %21 %22 = aten.{kernel}_backward.default({backward}) : {inputs} @1")
    lines += [f'result "{name}" %{value}' for name, value in (("output", 5), ("dq", 20), ("dk", 21), ("dv", 22))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_are_attention(kernel):
    torch.manual_seed(0)
    program = _core.Program(text(kernel, *KERNELS[kernel]), "attention")
    assert not program.warnings
    assert program.text.count("@meshwright.attention(") == 1
    assert program.text.count("@meshwright.attention_grad(") == 1
    values = {name: torch.randn(shape) for name, shape in (SHAPES | {"bias": (2, 1, 5, 6)}).items()}
    found = evaluate(program, values)
    inputs = [values[name].requires_grad_() for name in ("query", "key", "value")]
    bias = values["bias"] if "%4" in KERNELS[kernel][0] else None
    expected = scaled_dot_product_attention(*inputs, attn_mask=bias, scale=0.3, enable_gqa=True)
    gradients = torch.autograd.grad(expected, inputs, values["gradient"])
    assert difference(found["output"], expected.detach()) < 1e-5
    for name, gradient in zip(("dq", "dk", "dv"), gradients):
        assert difference(found[name], gradient) < 1e-5
