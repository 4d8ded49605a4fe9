"""Who knows what a case computes: StableHLO's reference interpreter, XLA, or mpmath."""

import re

import jax
import mpmath
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

from op_cases import FLOATS, GIVEN, NAME, NUMPY, TRUTH, XLA, widened

stablehlo.register_stablehlo_passes()


def expected(cases):
    """The results of every case, in order."""
    answers = {id(case): ask(case) for case in cases if case.oracle != XLA}
    questions = [case for case in cases if case.oracle == XLA]
    # Compiling is slow, so many cases share a program.
    for start in range(0, len(questions), 40):
        some = questions[start : start + 40]
        texts = [widened(case) if case.widen else (case.text, case.inputs) for case in some]
        for case, results in zip(some, evaluate_with_xla(texts)):
            answers[id(case)] = rounded(case, results)
    return [answers[id(case)] for case in cases]


def ask(case):
    if case.oracle == GIVEN:
        return case.results
    if case.oracle == TRUTH:
        return evaluate_precisely(case)
    text, inputs = widened(case) if case.widen else (case.text, case.inputs)
    return rounded(case, evaluate_with_reference(text, inputs))


def magnitudes(case):
    """The same op on absolute values: how large its terms are, whatever cancels."""
    text, inputs = widened(case)
    inputs = [np.abs(value) if NAME[value.dtype] in FLOATS else value for value in inputs]
    return evaluate_with_xla([(text, inputs)])[0] if case.oracle == XLA else evaluate_with_reference(text, inputs)


def rounded(case, results):
    """Once, to the types of the case."""
    with np.errstate(over="ignore"):
        return [value.astype(NUMPY[dtype], copy=False) for value, dtype in zip(results, result_dtypes(case.text))]


def result_dtypes(text):
    returned = re.search(r"\n    return (.*)\n", text).group(1)
    return re.findall(r"tensor<(?:\d+x)*(\w+)>", returned)


def parse(text):
    parsed = ir.Module.parse(text)
    if "chlo." in text:
        PassManager.parse("builtin.module(func.func(chlo-legalize-to-stablehlo))").run(parsed.operation)
    return parsed


def evaluate_with_reference(text, inputs):
    with mlir.make_ir_context():
        parsed = parse(text)
        attributes = [ir.Attribute.parse(literal(value)) for value in inputs]
        return [array(attribute) for attribute in stablehlo.eval_module(parsed, attributes)]


def literal(value):
    dtype = NAME[value.dtype]
    ty = "tensor<" + "".join(f"{size}x" for size in value.shape) + dtype + ">"
    if value.size == 0:
        return f"dense<> : {ty}"
    if dtype == "i1":
        # Booleans are packed in a literal's bytes.
        return f"dense<{str(value.tolist()).lower()}> : {ty}"
    return f'dense<"0x{np.array(value, order="C").tobytes().hex().upper()}"> : {ty}'


def array(attribute):
    """The values of a literal. Python's bindings do not read bf16, so its bits are asked for."""
    shape, dtype = tuple(attribute.type.shape), str(attribute.type.element_type)
    if dtype == "bf16":
        sizes = "".join(f"{size}x" for size in shape)
        source, bits = f"tensor<{sizes}bf16>", f"tensor<{sizes}ui16>"
        line = f'%b = "stablehlo.bitcast_convert"(%a) : ({source}) -> {bits}'
        text = f"func.func @main(%a: {source}) -> {bits} {{ {line} return %b : {bits} }}"
        [attribute] = stablehlo.eval_module(ir.Module.parse(text), [attribute])
        return array(attribute).view(NUMPY[dtype])
    if 0 in shape:
        return np.zeros(shape, NUMPY[dtype])
    return np.array(attribute).astype(NUMPY[dtype], copy=False).reshape(shape)


def evaluate_with_xla(questions):
    """Answers many questions with one program: each becomes a function that the program calls."""
    functions, calls, arguments, types, names, inputs = [], [], [], [], [], []
    for index, (text, values) in enumerate(questions):
        head, returned = re.search(r"func.func @main\((.*)\) -> \((.*)\) \{", text).groups()
        own = [argument.split(": ")[1] for argument in re.split(r", (?=%)", head)] if head else []
        results = re.findall(r"tensor<[^>]*>+", returned)
        body = text.replace("func.func @main", f"func.func private @case{index}")
        functions.append(body.removeprefix("module {\n").removesuffix("}\n"))
        first = len(arguments)
        arguments += own
        inputs += values
        operands = ", ".join(f"%a{first + position}" for position in range(len(own)))
        call = f"%r{index}:{len(results)} = call @case{index}({operands})"
        calls.append(f"{call} : ({', '.join(own)}) -> ({', '.join(results)})")
        types.append(results)
        names += [f"%r{index}#{position}" for position in range(len(results))]
    flat = ", ".join(ty for row in types for ty in row)
    head = ", ".join(f"%a{index}: {ty}" for index, ty in enumerate(arguments))
    lines = "\n    ".join([*calls, f"return {', '.join(names)} : {flat}"])
    program = f"module {{\n{''.join(functions)}  func.func @main({head}) -> ({flat}) {{\n    {lines}\n  }}\n}}\n"
    device = jax.devices("cpu")[0]
    with mlir.make_ir_context(), jax.enable_x64(True):
        bytecode = mlir.module_to_bytecode(parse(program))
        devices = xla_client.DeviceList((device,))
        executable = device.client.compile_and_load(bytecode, devices, xla_client.CompileOptions())
        buffers = [jax.device_put(value, device) for value in inputs]
        found = executable.execute_sharded(buffers).disassemble_into_single_device_arrays()
        found = iter([np.asarray(value[0]) for value in found])
    return [[next(found) for _ in row] for row in types]


PRECISE = {
    "chlo.acos": mpmath.acos,
    "chlo.acosh": mpmath.acosh,
    "chlo.asin": mpmath.asin,
    "chlo.asinh": mpmath.asinh,
    "chlo.atan": mpmath.atan,
    "chlo.atanh": mpmath.atanh,
    "chlo.bessel_i1e": lambda x: mpmath.besseli(1, x) * mpmath.exp(-abs(x)),
    "chlo.digamma": mpmath.digamma,
    "chlo.erf": mpmath.erf,
    "chlo.erf_inv": mpmath.erfinv,
    # The library cannot do arguments whose result is far below the smallest float.
    "chlo.erfc": lambda x: mpmath.erfc(min(x, 1000)),
    "chlo.lgamma": lambda x: mpmath.loggamma(x).real,
    "chlo.polygamma": lambda order, x: mpmath.polygamma(int(order), x),
    "chlo.zeta": mpmath.zeta,
    "stablehlo.cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
}


def evaluate_precisely(case):
    """Many digits, rounded once. Where the answer is not a finite number, which one it is and the sign
    of a zero are the business of the op's expansion, which is asked in f64."""
    [kinds] = evaluate_with_reference(*widened(case))
    function = PRECISE[case.op]
    results = np.empty(kinds.size)
    rows = zip(*(value.astype(np.float64).ravel() for value in case.inputs))
    with mpmath.workprec(160):
        for index, (row, kind) in enumerate(zip(rows, kinds.ravel())):
            ordinary = np.isfinite(kind) and np.all(np.isfinite(row))
            value = float(function(*map(mpmath.mpf, row))) if ordinary else kind
            results[index] = kind if value == kind == 0 else value
    return rounded(case, [results.reshape(kinds.shape)])
