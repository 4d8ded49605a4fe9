"""Recording what PyTorch runs: every op below autograd, with its operands, where it stands and in which module."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import math
import operator
import os
import re
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from meshwright import _core
from meshwright.torch.decompose import OWN
from meshwright.torch.rules import has_rule, rule_of

# Names of element types in programs.
DTYPES = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "ui8",
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.complex64: "complex<f32>",
    torch.complex128: "complex<f64>",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
    torch.float8_e4m3fnuz: "f8E4M3FNUZ",
    torch.float8_e5m2fnuz: "f8E5M2FNUZ",
    torch.float8_e8m0fnu: "f8E8M0FNU",
}
OF_NAMES = {name: dtype for dtype, name in DTYPES.items()}
# Constants up to so many bytes are written into the program; larger ones are arguments of it.
LARGEST_LITERAL = 1 << 16
# Ops that ask about a tensor and compute nothing; so do marks of profilers.
_QUESTIONS = ("prim.device.default", "aten.is_same_size.default", "aten.sym_size.int", "aten.sym_stride.int")
_IDENTITIES = itertools.count()
_TORCH = os.path.dirname(torch.__file__)
_HERE = os.path.dirname(__file__)


@dataclasses.dataclass
class Unknown:
    """An op that the compiler does not know and PyTorch has no decomposition for."""

    # The scope, file and line where it was met first.
    place: tuple[str, str, int]
    # Why a decomposition that is there did not work, if so.
    failure: str | None
    count: int = 0

    def told(self, name: str) -> str:
        """What a user should know of it."""
        scope, file, line = self.place
        place = ", ".join(part for part in (f"in `{scope}`" if scope else "", f"{file}:{line}" if file else "") if part)
        failed = f"; its decomposition failed with {self.failure}" if self.failure else ""
        return (
            f"`{name}` is not known, and so it is whole on every device ({self.count} times, first {place or 'outside of modules'})"
            f'{failed}\n\nhint: `meshwright.torch.register_rule("{name}", ...)` says how it may be cut'
        )


class Recorder(TorchDispatchMode):
    """Writes every op that reaches it as a line of text, in the form that `_core.Program` reads.

    It stands below autograd and functionalization: ops have no side effects, views are ops like others, and what runs
    is what PyTorch runs op by op. An op that the compiler has no row for is recorded as PyTorch's own decomposition of
    it, in a scope that keeps these ops together as the one kernel they are.
    """

    def __init__(self) -> None:
        super().__init__()
        # Tensors that outlive a recorder, such as those of a batch, keep the numbers that it gave them.
        self.identity = next(_IDENTITIES)
        self.known = frozenset(_core.aten_ops())
        self.decompositions = torch._decomp.global_decomposition_table["post_autograd"] | OWN
        self.lines: list[str] = []
        self.arguments: list[str] = []
        self.constants: dict[str, torch.Tensor] = {}
        self.values = 0
        self.kept: list[Any] = []
        self.modules: list[str] = []
        # The op that is being decomposed, if any.
        self.inside: str | None = None
        self.locations: dict[tuple[str, str, int], int] = {}
        # Of every node of autograd by its number, the scope and place of what it is the gradient of.
        self.places: dict[int, tuple[str, str, int]] = {}
        # Nodes of autograd that have run, in their order.
        self.nodes: dict[int, int] = {}
        self.calls: collections.Counter[str] = collections.Counter()
        # Ops that the compiler does not know, with how often and where they were met.
        self.unknown: dict[str, Unknown] = {}
        # What PyTorch's counter counts besides what is computed.
        self.ungrouped_flops = 0
        # Why decompositions did not work, by op.
        self.failures: dict[str, str] = {}
        self.scope_prefix = ""

    # What is recorded.

    def argument(self, name: str, tensor: torch.Tensor) -> None:
        number = self._number_of(tensor)
        self.arguments.append(f"%{number} = argument {_quoted(name)} : {type_text(tensor)}")

    def result(self, name: str, tensor: torch.Tensor, alias: str | None = None) -> None:
        donated = f" {_quoted(alias)}" if alias is not None else ""
        self.lines.append(f"result {_quoted(name)} {self._operand(tensor)}{donated}")

    def text(self, name: str) -> str:
        places = [
            f"location {number} {_quoted(scope)} {_quoted(file)} {line}"
            for (scope, file, line), number in self.locations.items()
        ]
        return "\n".join([f"aten 1 {_quoted(name)}", *places, *self.arguments, *self.lines, ""])

    # Modes.

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func)
        if name in _QUESTIONS or func.namespace == "profiler":
            return func(*args, **kwargs)
        if _is_of_shapes(name, args, kwargs):
            # Functionalization asks for shapes so; whoever goes on with the numbers is refused.
            return pytree.tree_map_only(torch.Tensor, _moved, func(*args, **kwargs))
        if name == "aten._local_scalar_dense.default":
            constant = getattr(args[0], "constant", None)
            if constant is not None:
                return constant.item()
            drawn = getattr(args[0], "_meshwright_drawn", None)
            if drawn is not None:
                return drawn
        if name not in self.known and not has_rule(name) and not func._schema.is_mutable:
            decomposed = self._decompose(func, name, args, kwargs)
            if decomposed is not NotImplemented:
                return _known(func, args, kwargs, decomposed)
        out = func(*args, **kwargs)
        self._record(func, name, args, kwargs, out)
        _draw(name, args, out)
        return out if func._schema.is_mutable else _known(func, args, kwargs, out)

    def _decompose(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        decomposition = self.decompositions.get(func) or getattr(func, "impl_aten", None)
        outer, lines, values = self.inside, len(self.lines), self.values
        if self.inside is None:
            self.inside = self._call(name)
        try:
            with self:
                if decomposition is not None:
                    return decomposition(*args, **kwargs)
                return func.decompose(*args, **kwargs)
        except (NotImplementedError, RuntimeError, TypeError) as error:
            # The op is recorded as it is. That it could have been more is part of the warning.
            del self.lines[lines:]
            self.values = values
            if decomposition is not None:
                self.failures[name] = f"{type(error).__name__}: {error}".splitlines()[0]
            return NotImplemented
        finally:
            self.inside = outer

    def _record(self, func: Any, name: str, args: Any, kwargs: Any, out: Any) -> None:
        if name == "aten.convolution_backward.default":
            self.ungrouped_flops += _ungrouped_flops(*_in_order(func, args, kwargs))
        call = self.inside or self._call(name)
        place = self._place(call)
        if name not in self.known and not has_rule(name):
            self._note_unknown(name, place)
        operands = [self._operand(argument) for argument in _in_order(func, args, kwargs)]
        results = [*out] if isinstance(out, (tuple, list)) else [out]
        mutated = _mutated(func, name, args, kwargs)
        if mutated:
            results = [*results, *mutated] if name in _IN_PLACE_STATISTICS else mutated
            results = [result for result in results if isinstance(result, torch.Tensor)]
        numbers = [self._number_of(result) if isinstance(result, torch.Tensor) else None for result in results]
        left = " ".join("_" if number is None else f"%{number}" for number in numbers)
        types = " ".join(type_text(result) if isinstance(result, torch.Tensor) else "_" for result in results)
        rule = f" rule {_quoted(rule_of(name, args, out))}" if has_rule(name) else ""
        self.lines.append(f"{left} = {name}({', '.join(operands)}) : {types} @{place}{rule}")

    def _note_unknown(self, name: str, place: int) -> None:
        if name not in self.unknown:
            (scope, file, line), _ = next(row for row in self.locations.items() if row[1] == place)
            modules = "/".join(part for part in scope.split("/") if not part.startswith("_"))
            self.unknown[name] = Unknown((modules, file, line), self.failures.get(name))
        self.unknown[name].count += 1

    def _number_of(self, tensor: Any) -> int:
        """A new number for what a tensor is from now on."""
        number = self.values
        self.values += 1
        tensor._meshwright = (self.identity, number)
        # Tensors must not die while their numbers are looked up by what they hold.
        return number

    def _operand(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            known = getattr(value, "_meshwright", None)
            if known is not None and known[0] == self.identity:
                return f"%{known[1]}"
            return self._constant(value)
        if value is None or isinstance(value, (torch.device, torch.layout, torch.memory_format, torch.Generator)):
            return _MEMORY_FORMATS.get(value, "none") if isinstance(value, torch.memory_format) else "none"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, (int, torch.SymInt)):
            return str(int(value))
        if isinstance(value, (float, torch.SymFloat)):
            return repr(float(value))
        if isinstance(value, complex):
            return f"({value.real!r} {value.imag!r})"
        if isinstance(value, str):
            return _quoted(value)
        if isinstance(value, torch.dtype):
            return DTYPES[value]
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(self._operand(inner) for inner in value)}]"
        raise _core.Error(f"an op reads a `{type(value).__name__}`, which has no place in a program")

    def _constant(self, tensor: torch.Tensor) -> str:
        """A tensor that the step did not make: what a model holds besides parameters and buffers."""
        if getattr(tensor, "_meshwright_moved", False):
            raise _core.Error("a tensor is moved to the device `meta` while the model runs")
        constant = getattr(tensor, "constant", None)
        real = constant if constant is not None else tensor
        is_here = not hasattr(tensor, "fake_mode") or constant is not None
        is_here = is_here and real.device.type != "meta"
        number = self._number_of(tensor)
        self.kept.append(tensor)
        if is_here:
            with contextlib.ExitStack() as stack:
                stack.enter_context(torch.utils._python_dispatch._disable_current_modes())
                if real.numel() * real.element_size() <= LARGEST_LITERAL:
                    self.lines.append(f"%{number} = constant 0x{as_bytes(real).hex()} : {type_text(real)}")
                    return f"%{number}"
        name = f"constants.{len(self.constants)}"
        self.constants[name] = real
        self.arguments.append(f"%{number} = argument {_quoted(name)} : {type_text(tensor)}")
        return f"%{number}"

    # Where ops stand.

    def _call(self, name: str) -> str:
        """An op's own part of its scope. Ops alike in one module differ by their numbers."""
        short = name.split(".")[1]
        scope = "/".join(self.modules)
        count = self.calls[f"{scope}/{short}"]
        self.calls[f"{scope}/{short}"] += 1
        return f"_{short}#{count}"

    def _place(self, call: str) -> int:
        node = torch._C._current_autograd_node()
        if node is None:
            number = torch.autograd._get_sequence_nr() - 1
            file, line = _line()
            place = ("/".join([*([self.scope_prefix] if self.scope_prefix else []), *self.modules]), file, line)
            self.places.setdefault(number, place)
            scope = place[0]
        else:
            scope, file, line = self.places.get(node._sequence_nr(), ("", "", 0))
            scope = f"transpose({scope})" if scope else ""
            number = self.nodes.setdefault(node._sequence_nr(), len(self.nodes))
            # What a node reads is there until all of its ops have run, so they stand together.
            call = f"_{_NO_WORD.sub('_', node.name())}#{number}/{call}"
        key = (f"{scope}/{call}" if scope else call, file, line)
        return self.locations.setdefault(key, len(self.locations))

    @contextlib.contextmanager
    def modules_of(self, model: torch.nn.Module) -> Iterator[None]:
        """Scopes are the modules that are being called, each by its path inside of the one around it."""
        paths = {module: path for path, module in model.named_modules()}
        call = torch.nn.Module.__call__
        stack: list[str] = []

        def scoped(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
            path = paths.get(module)
            if not path:
                return call(module, *args, **kwargs)
            outer = stack[-1] if stack else ""
            inner = path[len(outer) + 1 :] if outer and path.startswith(f"{outer}.") else path
            stack.append(path)
            self.modules.append(inner)
            try:
                return call(module, *args, **kwargs)
            finally:
                stack.pop()
                self.modules.pop()

        torch.nn.Module.__call__ = scoped  # type: ignore[method-assign]
        try:
            yield
        finally:
            torch.nn.Module.__call__ = call  # type: ignore[method-assign]


def _is_of_shapes(name: str, args: Any, kwargs: Any) -> bool:
    """Whether an op moves a tensor to the device `meta`, or goes on with such ones alone."""
    device = kwargs.get("device")
    if name == "aten._to_copy.default" and device is not None and torch.device(device).type == "meta":
        return True
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    return bool(tensors) and all(hasattr(tensor, "_meshwright_moved") for tensor in tensors)


def _moved(tensor: torch.Tensor) -> torch.Tensor:
    tensor._meshwright_moved = True  # type: ignore[attr-defined]
    return tensor


def _known(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What an op gives, with the number that it is where all that it was made of are such: models count with tensors, and cut others
    there. PyTorch forgets numbers where it takes ops apart."""
    if not isinstance(out, FakeTensor) or out.constant is not None or out.numel() != 1:
        return out
    # What is drawn is no constant, and another device need not be here.
    if torch.Tag.nondeterministic_seeded in func.tags or out.device.type != "cpu":
        return out
    given = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if given and all(_number(tensor) is not None for tensor in given):
        real_args, real_kwargs = pytree.tree_map_only(torch.Tensor, _number, (args, kwargs))
        with unset_fake_temporarily():
            out.constant = func(*real_args, **real_kwargs)
        # Whoever writes to it makes it unknown again.
        out.fake_mode.fake_tensor_converter.add_constant_storage_mapping(out)
    return out


def _number(tensor: torch.Tensor) -> torch.Tensor | None:
    return tensor.constant if isinstance(tensor, FakeTensor) else tensor if tensor.numel() == 1 else None


# A single random number between zero and one that code asks for is half of that: layers that are left out by chance, less
# often than that, are there.
_DRAWN = 0.5
_COMPARED = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge}


def _draw(name: str, args: Any, out: Any) -> None:
    """Remembers what a random number is, and what comparing it with another gives."""
    _, op, overload = name.split(".")
    if op == "rand" and out.ndim == 0:
        out._meshwright_drawn = _DRAWN
    elif op in _COMPARED and overload == "Scalar" and hasattr(args[0], "_meshwright_drawn"):
        out._meshwright_drawn = _COMPARED[op](args[0]._meshwright_drawn, args[1])


_NO_WORD = re.compile(r"\W")
_MEMORY_FORMATS = {torch.contiguous_format: '"contiguous"', torch.preserve_format: '"preserve"'}
# Kernels that update running statistics without saying so in their schema.
_IN_PLACE_STATISTICS = {
    "aten.native_batch_norm.default": (3, 4, 5),
    "aten.cudnn_batch_norm.default": (3, 4, 5),
    "aten.miopen_batch_norm.default": (3, 4, 5),
}


def _mutated(func: Any, name: str, args: Any, kwargs: Any) -> list[Any]:
    """The tensors that an op writes to, below functionalization."""
    if name in _IN_PLACE_STATISTICS:
        mean, variance, training = (args[index] for index in _IN_PLACE_STATISTICS[name])
        return [mean, variance] if training and mean is not None else []
    if not func._schema.is_mutable:
        return []
    given = dict(zip((argument.name for argument in func._schema.arguments), args)) | kwargs
    written = [argument.name for argument in func._schema.arguments if argument.alias_info and argument.alias_info.is_write]
    return [given[name] for name in written if given.get(name) is not None]


def _ungrouped_flops(gradient, images, kernel, _biases, _strides, _padding, _dilation, transposed, _more, groups, wanted) -> int:
    """What `FlopCounterMode` counts too much of a convolution's gradient: that of the kernel as if every output was made of
    all inputs, also where each group of outputs is made of inputs of its own."""
    if not wanted[1]:
        return 0
    positions = math.prod((images if transposed else gradient).shape[2:])
    whole = 2 * math.prod(kernel.shape[2:]) * positions * images.shape[0] * images.shape[1] * gradient.shape[1]
    return whole - whole // groups


def shape_and_type(text: str) -> tuple[tuple[int, ...], torch.dtype]:
    """Sizes and the name of a type have an `x` behind each size, and a name may have one inside."""
    sizes, name = re.fullmatch(r"tensor<((?:\d+x)*)(.*)>", text).groups()
    return tuple(map(int, sizes.split("x")[:-1])), OF_NAMES[name]


def type_text(tensor: torch.Tensor) -> str:
    if tensor.layout is not torch.strided:
        raise _core.Error(
            f"the step has a tensor of the layout `{tensor.layout}`, and programs have dense ones\n\n"
            "hint: leave out `sparse=True`, by which tables of embeddings have such gradients"
        )
    if tensor.dtype not in DTYPES:
        raise _core.Error(f"programs have no elements of type `{tensor.dtype}`")
    return f"{DTYPES[tensor.dtype]}[{','.join(str(int(size)) for size in tensor.shape)}]"


def _in_order(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """All arguments in the order of the schema, those that were left out by their defaults."""
    given = list(args)
    for argument in func._schema.arguments[len(args) :]:
        given.append(kwargs[argument.name] if argument.name in kwargs else argument.default_value)
    return given


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def as_bytes(tensor: torch.Tensor) -> bytes:
    flat = tensor.detach().cpu().contiguous().reshape(-1)
    if flat.numel() == 0:
        return b""
    return flat.view(torch.uint8).numpy().tobytes()


def _line() -> tuple[str, int]:
    """The innermost line that is neither PyTorch's nor this package's."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_TORCH) and not file.startswith(_HERE) and not file.startswith("<"):
            return file, frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return "", 0
