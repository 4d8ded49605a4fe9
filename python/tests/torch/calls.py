"""Calls of ATen ops with what PyTorch makes of them, one for each row of the compiler's table.

PyTorch tests its own functions with samples (`op_db`). What these and their gradients call below autograd are calls of nearly
all rows; the rest is written here.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten
# Samples of a function that are looked at, and the most elements that a tensor of a call has.
SAMPLES, LARGEST = 6, 4096


class Call(NamedTuple):
    op: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Any

    def tensors(self) -> Iterator[torch.Tensor]:
        return (leaf for leaf in pytree.tree_leaves((self.args, self.kwargs)) if torch.is_tensor(leaf))


class Calls(TorchDispatchMode):
    """Keeps the first call of every op that is asked for."""

    def __init__(self, wanted: Iterable[str]) -> None:
        super().__init__()
        self.wanted, self.found = set(wanted), {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = str(func)
        if name not in self.wanted or name in self.found:
            return func(*args, **kwargs)
        given = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, kwargs))
        out = func(*args, **kwargs)
        call = Call(func, *given, pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.detach().clone(), out))
        tensors = [*call.tensors()]
        is_small = all(0 < tensor.numel() <= LARGEST for tensor in tensors) and all(
            tensor.device.type == "cpu" and tensor.layout == torch.strided for tensor in tensors
        )
        if is_small:
            self.found[name] = call
        return out


def calls(wanted: Iterable[str]) -> dict[str, Call]:
    """Calls by the names of their ops."""
    torch.manual_seed(0)
    with warnings.catch_warnings(), Calls(wanted) as mode:
        warnings.simplefilter("ignore")
        mode.found.update({str(op): _called(op, *given) for op, *given in WRITTEN})
        for info in op_db:
            if mode.wanted <= set(mode.found):
                break
            _run(info)
    return mode.found


def _run(info: Any) -> None:
    dtype = next((dtype for dtype in (torch.float32, torch.int64, torch.bool) if dtype in info.dtypes), None)
    if dtype is None:
        return
    with torch.utils._python_dispatch._disable_current_modes():
        samples = [sample for sample, _ in zip(info.sample_inputs("cpu", dtype, requires_grad=False), range(SAMPLES))]
    for sample in samples:
        try:
            leaves = [sample.input, *sample.args, *sample.kwargs.values()]
            floats = [leaf.requires_grad_() for leaf in leaves if torch.is_tensor(leaf) and leaf.is_floating_point()]
            out = info.op(sample.input, *sample.args, **sample.kwargs)
            made = [leaf for leaf in pytree.tree_leaves(out) if torch.is_tensor(leaf) and leaf.requires_grad]
            if made and floats:
                torch.autograd.grad(made, floats, [torch.randn_like(leaf) for leaf in made], allow_unused=True)
        except (AssertionError, RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
            # Some samples want what is not here, such as another device or library.
            continue


def _aten(name: str, *args: Any, **kwargs: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """An op by its name, such as `add.Tensor`, and what it is called with."""
    op = aten if not name.startswith("prims.") else torch.ops.prims
    for part in name.removeprefix("prims.").split("."):
        op = getattr(op, part)
    return op, args, kwargs


def _called(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    with torch.utils._python_dispatch._disable_current_modes():
        given = pytree.tree_map_only(torch.Tensor, torch.Tensor.clone, (args, kwargs))
        return Call(op, *given, op(*args, **kwargs))


_FLOATS, _OTHERS = torch.linspace(-1.5, 1.7, 12).reshape(3, 4), torch.linspace(2.0, -1.0, 12).reshape(3, 4)
_WHOLE, _FEW, _FLAGS = torch.arange(12).reshape(3, 4), torch.arange(12).reshape(3, 4) % 3, _FLOATS > 0
_IMAGE, _VOLUME = torch.linspace(-1, 1, 18).reshape(1, 2, 3, 3), torch.linspace(-1, 1, 54).reshape(1, 2, 3, 3, 3)
_LARGER, _BULK = torch.linspace(-1, 1, 40).reshape(1, 2, 5, 4), torch.linspace(-1, 1, 200).reshape(1, 2, 5, 4, 5)
_FEATURES = torch.linspace(0.5, 1.5, 2)
# What PyTorch's samples do not call.
WRITTEN = [
    *(_aten(f"__{way}shift__.{kind}", _WHOLE, by) for way in "lr" for kind, by in (("Scalar", 2), ("Tensor", _FEW))),
    *(_aten(f"bitwise_{way}_shift.Tensor_Scalar", _WHOLE, 1) for way in ("left", "right")),
    *(_aten(f"bitwise_{kind}.Scalar", _WHOLE, 5) for kind in ("and", "or", "xor")),
    _aten("_neg_view.default", _FLOATS),
    _aten("_reshape_alias.default", _FLOATS, [4, 3], [3, 1]),
    _aten("alias.default", _FLOATS),
    _aten("avg_pool1d.default", _FLOATS[None], [2], [1], [1]),
    _aten("bernoulli.p", _FLOATS, 0.5),
    _aten("clamp_max.default", _FLOATS, 0.3),
    _aten("copy.default", _FLOATS, _WHOLE),
    _aten("div.Scalar_mode", _FLOATS, 0.4, rounding_mode="floor"),
    _aten("fill.Tensor", _FLOATS, torch.tensor(2.5)),
    _aten("fmod.Scalar", _FLOATS, 0.4),
    _aten("lift_fresh_copy.default", _FLOATS),
    _aten("native_batch_norm.default", _IMAGE, _FEATURES, -_FEATURES, torch.zeros(2), torch.ones(2), True, 0.1, 1e-5),
    _aten("native_dropout.default", _FLOATS, 0.5, True),
    _aten("normal_functional.default", _FLOATS),
    _aten("prims.convert_element_type.default", _FLOATS, torch.float64),
    _aten("prims.iota.default", 5, start=1, step=2, dtype=torch.int64, device="cpu", requires_grad=False),
    _aten("randperm.default", 5),
    _aten("slice_scatter.default", _FLOATS, _OTHERS[:, :2], 1, 1, 3),
    _aten("uniform.default", _FLOATS),
    _aten("_upsample_nearest_exact2d.default", _IMAGE, [5, 4]),
    _aten("_upsample_nearest_exact2d_backward.default", _LARGER, [5, 4], [1, 2, 3, 3]),
    *(_aten(f"{name}3d.default", _VOLUME, [5, 4, 5]) for name in ("_upsample_nearest_exact", "upsample_nearest")),
    *(
        _aten(f"{name}3d_backward.default", _BULK, [5, 4, 5], [1, 2, 3, 3, 3])
        for name in ("_upsample_nearest_exact", "upsample_nearest")
    ),
    _aten("where.Scalar", _FLAGS, 1.0, 2.0),
    _aten("where.ScalarOther", _FLAGS, _FLOATS, 2.0),
    _aten("where.ScalarSelf", _FLAGS, 1.0, _FLOATS),
]
_KERNELS = "a kernel of another device, compared in test_attention.py"
# Rows that no call here reaches, and where they are compared.
ELSEWHERE = {
    f"aten._scaled_dot_product_{kind}_attention{backward}.default": _KERNELS
    for kind in ("cudnn", "efficient", "flash")
    for backward in ("", "_backward")
} | {f"aten.{name}.default": "of complex numbers, with which no interpreter counts, compared in test_running.py" for name in ("_conj", "_conj_physical")} | {f"meshwright.attention{backward}.default": "traced only, compared in test_modules.py" for backward in ("", "_backward")}
# Whose numbers nobody can foretell: their shapes and types are compared.
RANDOM = {
    *(f"aten.{name}" for name in ("bernoulli.default", "bernoulli.p", "native_dropout.default", "normal_functional.default")),
    *(f"aten.{name}" for name in ("rand.default", "rand_like.default", "randn.default", "randn_like.default")),
    *(f"aten.{name}" for name in ("randint.default", "randint.low", "randint_like.default", "randperm.default", "uniform.default")),
    *(f"aten.{name}.default" for name in ("empty_like", "empty_strided", "new_empty", "new_empty_strided")),
    "aten.empty.memory_format",
}
# Results, by number, that nobody reads and PyTorch says nothing of.
UNSAID: dict[str, tuple[int, ...]] = {}
