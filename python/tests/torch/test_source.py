"""Sources for PyTorch compute what the reference interpreter does, op by op."""

import random
from pathlib import Path

import processes
import pytest
import torch

import meshwright as mw
from meshwright import Error, _core
from meshwright.torch import ops
from meshwright.torch.check import difference, from_bytes, to_bytes
from meshwright.torch.record import shape_and_type
from meshwright.torch.source import Source

# Texts of all stages that can be read: what each is a test of elsewhere is no matter here.
TEXTS = {path.stem: path for path in Path(__file__).parents[3].glob("tests/*/*.mlir") if path.parent.name != "errors"}


def drawn(ty):
    """Numbers of a type, small ones, so that some are places in other tensors."""
    shape, dtype = shape_and_type(ty)
    if dtype == torch.bool:
        return torch.rand(shape) > 0.5
    if dtype.is_floating_point:
        return torch.randn(shape).to(dtype)
    return torch.randint(0, 3, shape).to(dtype)


# One divides whole numbers by zero, which PyTorch refuses to; the other is of what no memory holds.
WITHOUT = {"integers_wrap", "what_is_too_large_in_parts_stays"}


def check(text, name):
    program = _core.Program(text, name)
    source = Source(program.torch_source(), 0, torch.device("cpu"))
    torch.manual_seed(0)
    arguments = [drawn(ty) for _, ty in program.arguments]
    expected = program.evaluate([to_bytes(argument) for argument in arguments])
    found = source.function("run")([argument.clone() for argument in arguments])
    for value, data, (_, ty) in zip(found, expected, program.results):
        assert difference(value.detach(), from_bytes(data, ty)) < 1e-5


@pytest.mark.parametrize("name", sorted(TEXTS.keys() - WITHOUT))
def test_sources_compute_what_the_interpreter_does(name):
    try:
        check(TEXTS[name].read_text().split("//> ")[0], name)
    except Error as error:
        pytest.skip(str(error).splitlines()[0])


# Ops that make a value of the shape of their operands.
ELEMENTWISE = ["tanh", "negate", "exponential", "add", "multiply", "subtract", "maximum"]


def made_up(seed):
    """Ops on elements between ops that only look at these in another way, of which some are results."""
    draw = random.Random(seed)
    values, lines = {"%x": (4, 6), "%y": (4, 6)}, []
    for number in range(30):
        name, operand = f"%{number}", draw.choice(list(values)[-6:])
        shape = values[operand]
        ty = f"tensor<{'x'.join(map(str, shape))}xf32>"
        kind = draw.choice([*ELEMENTWISE, "transpose", "reshape", "tanh"])
        made = shape
        if kind == "transpose":
            made = shape[::-1]
            text = f"{operand}, dims = [1, 0] : ({ty}) -> tensor<{made[0]}x{made[1]}xf32>"
        elif kind == "reshape":
            made = draw.choice([(4, 6), (6, 4)])
            text = f"{operand} : ({ty}) -> tensor<{made[0]}x{made[1]}xf32>"
        elif kind in ("tanh", "negate", "exponential"):
            # Exponentials of what is large already would be infinite.
            text = f"{operand} : {ty}"
            kind = "tanh" if kind == "exponential" and draw.random() < 0.7 else kind
        else:
            other = draw.choice([value for value, own in values.items() if own == shape])
            text = f"{operand}, {other} : {ty}"
        lines.append(f"{name} = stablehlo.{kind} {text}")
        values[name] = made
    results = draw.sample(list(values), 4)
    types = [f"tensor<{values[name][0]}x{values[name][1]}xf32>" for name in results]
    head = "func.func @main(%x: tensor<4x6xf32>, %y: tensor<4x6xf32>) -> (" + ", ".join(types) + ") {"
    return "\n".join([head, *lines, f"return {', '.join(results)} : {', '.join(types)}", "}"])


@pytest.mark.parametrize("seed", range(40))
def test_nobody_reads_what_was_written_over(seed):
    check(made_up(seed), f"seed {seed}")


@pytest.mark.parametrize("indices", [[0, 0, 1, 3, 3], [3, 0, 1, 0, 3], [1, 1, 1, 1, 1], [-2, 0, 3, 5, 5]])
def test_rows_choose_matrices_in_any_order(indices):
    left, table, right = torch.randn(5, 1, 3), torch.randn(4, 3, 2), torch.randn(5, 1, 2)
    chosen = torch.tensor(indices)
    expected = torch.stack([row @ table[number] for row, number in zip(left, chosen.clamp(0, 3))])
    torch.testing.assert_close(ops.chosen_products(left, table, chosen), expected)
    sums = torch.zeros(4, 3, 2)
    for row, other, number in zip(left, right, indices):
        if 0 <= number < 4:
            sums[number] += row.mT @ other
    torch.testing.assert_close(ops.summed_products(left.mT, right, chosen, 4), sums)


def attention_text(shape, bias, is_turned):
    """An attention and its gradient, of queries, keys and values that lie in their own order or with heads inside."""
    batch, heads, groups, queries, keys, width = shape
    sizes = {"query": (heads, queries), "key": (groups, keys), "value": (groups, keys), "gradient": (heads, queries)}
    lines = ['aten 1 "attention"', 'location 0 "_attention#0" "" 0']
    types = {name: f"f32[{batch},{count},{length},{width}]" for name, (count, length) in sizes.items()}
    for number, (name, (count, length)) in enumerate(sizes.items()):
        lies = f"f32[{batch},{length},{count},{width}]" if is_turned else types[name]
        lines.append(f'%{number} = argument "{name}" : {lies}')
    if bias:
        lines.append(f'%4 = argument "bias" : f32[{",".join(map(str, bias))}]')
    first = 10 if is_turned else 0
    for number, name in enumerate(sizes if is_turned else ()):
        lines.append(f"%{first + number} = aten.transpose.int(%{number}, 1, 2) : {types[name]} @0")
    query, key, value, gradient = (f"%{first + number}" for number in range(4))
    mask, kernel = "%4" if bias else "none", "aten._scaled_dot_product_efficient_attention"
    lines.append(f"%20 %21 _ _ = {kernel}.default({query}, {key}, {value}, {mask}, true, 0.0, false, 0.3) : {types['query']} f32[{batch},{heads},{queries}] _ _ @0")
    wanted = f"[true, true, true, {'true' if bias else 'false'}]"
    made = " ".join(types[name] for name in ("query", "key", "value")) + (f" f32[{','.join(map(str, bias))}]" if bias else "")
    lines.append(f"%30 %31 %32{' %33' if bias else ''} = {kernel}_backward.default({gradient}, {query}, {key}, {value}, {mask}, %20, %21, none, none, 0.0, {wanted}, false, 0.3) : {made} @0")
    lines += [f'result "{number}" %{number}' for number in (20, 30, 31, 32, *([33] if bias else []))]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("groups", [4, 2])
def test_attention_reads_heads_whose_elements_lie_apart(groups):
    query, gradient = (torch.randn(2, 4, 8, 16).mT for _ in range(2))
    key, value = (torch.randn(2, groups, 8, 16).mT for _ in range(2))
    leaves = [tensor.clone().requires_grad_() for tensor in (query, key, value)]
    expected = torch.nn.functional.scaled_dot_product_attention(*leaves, scale=0.3, enable_gqa=True)
    expected.backward(gradient)
    output, statistics = ops.attention(query, key, value, None, 0.3, False, True)
    torch.testing.assert_close(output, expected.detach())
    found = ops.attention_grad(query, key, value, None, output, statistics, gradient, 0.3, False, False)
    torch.testing.assert_close(found, tuple(leaf.grad for leaf in leaves))


@pytest.mark.parametrize("bias", [None, (2, 1, 16, 24), (1, 4, 16, 24), (2, 4, 16, 24)])
@pytest.mark.parametrize("groups", [4, 2])
def test_attention_takes_the_memory_that_is_foretold(groups, bias):
    text = attention_text((2, 4, groups, 16, 24, 32), bias, is_turned=True)
    check_memory(text)


# Of kernels whose places have gaps, PyTorch writes out the windows of one sample at a time.
@pytest.mark.parametrize("gap, groups", [(1, 1), (4, 1), (2, 2)])
def test_wide_convolutions_take_the_memory_that_is_foretold(gap, groups):
    size = 20 - 2 * gap
    text = "\n".join([
        'aten 1 "convolution"', 'location 0 "_convolution#0" "" 0', '%0 = argument "value" : f64[3,8,20,20]',
        f'%1 = argument "kernel" : f64[6,{8 // groups},3,3]',
        f"%2 = aten.convolution.default(%0, %1, none, [1, 1], [0, 0], [{gap}, {gap}], false, [0, 0], {groups}) : f64[3,6,{size},{size}] @0",
        'result "made" %2', "",
    ])  # fmt: skip
    check_memory(text)


# oneDNN has channels in blocks: those of few channels are filled up, those of groups are as wide as fits, and images are read
# as they lie. Small samples, and products of a few, PyTorch writes out as columns.
@pytest.mark.parametrize("shape, kernel, step, gap, groups", [
    ((4, 3, 12, 12), (5, 3, 3, 3), 1, 1, 1), ((4, 20, 12, 12), (24, 20, 3, 3), 1, 1, 1), ((4, 16, 12, 12), (32, 16, 4, 4), 2, 1, 1),
    ((4, 20, 12, 12), (24, 20, 1, 1), 1, 1, 1), ((16, 3, 12, 12), (24, 3, 1, 1), 1, 1, 1), ((4, 20, 13, 13), (24, 20, 1, 1), 2, 1, 1),
    ((4, 8, 12, 12), (24, 8, 1, 1), 2, 1, 1), ((4, 8, 13, 13), (24, 8, 1, 1), 2, 1, 1),
    ((4, 12, 12, 12), (12, 1, 3, 3), 1, 1, 12), ((4, 24, 12, 12), (48, 8, 3, 3), 1, 1, 3), ((4, 6, 12, 12), (6, 3, 3, 3), 1, 1, 2),
    ((1, 16, 12, 12), (8, 16, 3, 3), 1, 1, 1), ((1, 16, 12, 12), (8, 16, 3, 3), 1, 2, 1), ((1, 16, 40, 40), (8, 16, 3, 3), 1, 1, 1),
    ((4, 16, 64), (32, 16, 2), 1, 8, 1), ((4, 16, 64), (32, 16, 1), 1, 1, 1), ((2, 16, 8, 8, 8), (8, 16, 3, 3, 3), 1, 1, 1),
    ((16, 4, 16, 16), (32, 4, 16, 16), 1, 1, 1),
])  # fmt: skip
def test_convolutions_take_the_memory_that_is_foretold(shape, kernel, step, gap, groups):
    places = [(size - gap * (width - 1) - 1) // step + 1 for size, width in zip(shape[2:], kernel[2:])]
    numbers = [[number] * len(places) for number in (step, 0, gap)]
    types = ["f32[" + ",".join(map(str, dims)) + "]" for dims in (shape, kernel, (shape[0], kernel[0], *places))]
    text = "\n".join([
        'aten 1 "convolution"', 'location 0 "_convolution#0" "" 0', f'%0 = argument "value" : {types[0]}', f'%1 = argument "kernel" : {types[1]}',
        f"%2 = aten.convolution.default(%0, %1, none, {numbers[0]}, {numbers[1]}, {numbers[2]}, false, {[0] * len(places)}, {groups}) : {types[2]} @0",
        'result "made" %2', "",
    ])  # fmt: skip
    check_memory(text)


# Gradients of what is read have zeros between elements, and those of kernels have samples for channels.
@pytest.mark.parametrize("layer, shape", [
    (torch.nn.Conv2d(16, 24, 3, 2, 1), (4, 16, 16, 16)), (torch.nn.ConvTranspose2d(16, 3, 4, 2, 1), (4, 16, 16, 16)),
    (torch.nn.Conv2d(16, 24, 1), (4, 16, 16, 16)), (torch.nn.Conv1d(16, 32, 2, dilation=4), (4, 16, 64)),
    (torch.nn.Conv2d(24, 24, 3, 1, 1, groups=24), (4, 24, 16, 16)),
])  # fmt: skip
def test_gradients_of_convolutions_take_the_memory_that_is_foretold(layer, shape):
    model = torch.nn.Sequential(torch.nn.Conv2d(shape[1], shape[1], 1) if len(shape) == 4 else torch.nn.Conv1d(shape[1], shape[1], 1), layer)
    check_memory(mw.torch.capture(model, torch.randn(shape), lambda output: output.square().mean()).text)


@pytest.mark.parametrize("layer", [
    torch.nn.MaxPool2d(3, 2, 1), torch.nn.MaxPool2d(2), torch.nn.MaxPool2d(3, 1, 1, dilation=1), torch.nn.AvgPool2d(3, 2, 1),
    torch.nn.AvgPool2d(2), torch.nn.MaxPool2d(3, 2, ceil_mode=True), torch.nn.LPPool2d(2.0, 2),
], ids=str)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_take_the_memory_that_is_foretold(layer, dtype):
    model = torch.nn.Sequential(torch.nn.Linear(20, 20), layer).to(dtype)
    check_memory(mw.torch.capture(model, torch.randn(4, 8, 20, 20, dtype=dtype), lambda output: output.square().mean()).text)


# Places of rows and columns, of which every sample and every channel has the same, and places of all elements.
@pytest.mark.parametrize("chosen", [":, :, rows, columns", "samples, channels, rows, columns"])
def test_what_is_put_at_places_takes_the_memory_that_is_foretold(chosen):
    class Puts(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.Parameter(torch.randn(4, 5, 8, 8))

        def forward(self, rows, columns):
            samples, channels = torch.arange(4)[:, None, None, None], torch.arange(5)[:, None, None]
            return eval(f"self.held[{chosen}]", {}, locals())

    batch = (torch.randint(0, 8, (4, 5, 16, 1)), torch.randint(0, 8, (4, 5, 1, 16))) if "samples" in chosen else (
        torch.randint(0, 8, (16, 1)), torch.randint(0, 8, (1, 16)))
    check_memory(mw.torch.capture(Puts(), batch, lambda output: output.square().mean()).text)


def check_memory(text):
    program = _core.Program(text, "step")
    run = Source(program.torch_source(), 0, torch.device("cpu")).function("run")
    arguments = [drawn(ty) for _, ty in program.arguments]
    # Those who call hold results until the end; what kernels need for each thread is foretold of one.
    held, threads = [], torch.get_num_threads()
    torch.set_num_threads(1)
    measured = processes.most_allocated(lambda: held.append(run(list(arguments))))
    torch.set_num_threads(threads)
    assert measured == pytest.approx(program.torch_bytes(), rel=0.01)


def test_ops_that_are_not_known_are_called_as_they_were_recorded():
    text = "\n".join([
        'aten 1 "calls"', 'location 0 "_calls#0" "" 0', '%0 = argument "left" : f32[3,4]', '%1 = argument "right" : f32[5,4]',
        '%2 = argument "square" : f32[2,3,3]', "%3 = aten._cdist_forward.default(%0, %1, 1.0, none) : f32[3,5] @0",
        "%4 %5 = aten.linalg_inv_ex.default(%2, false) : f32[2,3,3] i32[2] @0", 'result "far" %3', 'result "inverse" %4', "",
    ])  # fmt: skip
    program = _core.Program(text, "calls")
    run = Source(program.torch_source(), 0, torch.device("cpu")).function("run")
    left, right, square = torch.randn(3, 4), torch.randn(5, 4), torch.randn(2, 3, 3)
    far, inverse = run([left, right, square])
    torch.testing.assert_close(far, torch.cdist(left, right, p=1.0))
    torch.testing.assert_close(inverse, torch.linalg.inv(square))
