"""Sources for PyTorch compute what the reference interpreter does, op by op."""

from pathlib import Path

import pytest
import torch

from meshwright import Error, _core
from meshwright.torch.check import difference, from_bytes, to_bytes
from meshwright.torch.record import DTYPES
from meshwright.torch.source import Source

TEXTS = Path(__file__).parents[3] / "tests" / "interpret"
OF_NAMES = {name: dtype for dtype, name in DTYPES.items()}


def drawn(ty):
    """Numbers of a type, small ones, so that some are places in other tensors."""
    *sizes, name = ty.removeprefix("tensor<").removesuffix(">").split("x")
    shape, dtype = [int(size) for size in sizes], OF_NAMES[name]
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 3, shape).to(dtype)


# It divides whole numbers by zero, which PyTorch refuses to.
WITHOUT = {"integers_wrap"}


@pytest.mark.parametrize("name", sorted({path.stem for path in TEXTS.glob("*.mlir")} - WITHOUT))
def test_sources_compute_what_the_interpreter_does(name):
    text = (TEXTS / f"{name}.mlir").read_text().split("//> ")[0]
    try:
        program = _core.Program(text, name)
        source = Source(program.torch_source(), 0, torch.device("cpu"))
    except Error as error:
        pytest.skip(str(error).splitlines()[0])
    torch.manual_seed(0)
    arguments = [drawn(ty) for _, ty in program.arguments]
    expected = program.evaluate([to_bytes(argument) for argument in arguments])
    found = source.function("run")([argument.clone() for argument in arguments])
    for value, data, (_, ty) in zip(found, expected, program.results):
        assert difference(value.detach(), from_bytes(data, ty)) < 1e-5
