"""Scaled dot-product attention as one op, whichever kernel PyTorch would choose for it."""

from __future__ import annotations

import math
import unittest.mock
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from meshwright.torch.functional import apart

# The op is only ever traced, so it needs shapes and a derivative but no kernel.
_LIBRARY = torch.library.Library("meshwright", "DEF")
_LIBRARY.define(
    "attention(Tensor query, Tensor key, Tensor value, Tensor? bias, float scale, bool causal) -> (Tensor, Tensor)"
)
_LIBRARY.define(
    "attention_backward(Tensor gradient, Tensor query, Tensor key, Tensor value, Tensor? bias, Tensor output, "
    "Tensor statistics, float scale, bool causal, bool bias_gradient) -> (Tensor, Tensor, Tensor, Tensor)"
)


def _forward_shapes(query: Any, key: Any, value: Any, bias: Any, scale: float, causal: bool) -> Any:
    statistics = torch.float64 if query.dtype == torch.float64 else torch.float32
    # Heads lie inside of the sequence, as kernels write them, so that bringing them together again copies nothing.
    batch, heads, length, _ = query.shape
    output = query.new_empty((batch, length, heads, value.shape[-1])).transpose(1, 2)
    return output, query.new_empty(query.shape[:-1], dtype=statistics)


def _backward_shapes(
    gradient: Any, query: Any, key: Any, value: Any, bias: Any, output: Any, statistics: Any, scale: float,
    causal: bool, bias_gradient: bool,
) -> Any:  # fmt: skip
    of_bias = torch.empty_like(bias) if bias_gradient else query.new_empty(0)
    return torch.empty_like(query), torch.empty_like(key), torch.empty_like(value), of_bias


torch.library.register_fake("meshwright::attention", _forward_shapes, lib=_LIBRARY)
torch.library.register_fake("meshwright::attention_backward", _backward_shapes, lib=_LIBRARY)


def _setup(ctx: Any, inputs: Any, output: Any) -> None:
    query, key, value, bias, ctx.scale, ctx.causal = inputs
    ctx.save_for_backward(query, key, value, bias, *output)
    ctx.set_materialize_grads(False)


def _gradient(ctx: Any, gradient: Any, _: Any) -> Any:
    query, key, value, bias, output, statistics = ctx.saved_tensors
    bias_gradient = bias is not None and ctx.needs_input_grad[3]
    *gradients, of_bias = torch.ops.meshwright.attention_backward(
        gradient, query, key, value, bias, output, statistics, ctx.scale, ctx.causal, bias_gradient
    )
    return (*gradients, of_bias if bias_gradient else None, None, None)


torch.library.register_autograd("meshwright::attention", _gradient, setup_context=_setup, lib=_LIBRARY)


class AttentionAsOp(TorchFunctionMode):
    """While it is active, attention without dropout is the op above: the kernels that PyTorch chooses from differ in
    what they take, so that a mask that needs a gradient, say, would be written out in small ops. Counts whose length is
    given do not depend on the numbers either, and bags of one size are rows, not parts of a line that begin at numbers.

    With `own_kernels`, attention that PyTorch has no kernel for on a CPU is written out as PyTorch does it.
    """

    def __init__(self, own_kernels: bool = False) -> None:
        super().__init__()
        attention = _attention_by_kernels if own_kernels else _attention
        self.replaced = {_FUSED: attention, _ONE_HOT: _one_hot, torch.bincount: _bincount}
        # A profile is of what PyTorch itself runs, which has a kernel for bags.
        self.replaced |= {} if own_kernels else {_BAGS: _bags}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self.replaced.get(func, func)(*args, **(kwargs or {}))

    def __enter__(self) -> Any:
        # Functions of PyTorch that call these are entered without the mode.
        functions, layers = torch.nn.functional, torch.nn.modules.transformer
        rows = [(functions, "scaled_dot_product_attention", self.replaced[_FUSED]), (functions, "one_hot", _one_hot)]
        rows.append((layers, "_detect_is_causal_mask", _is_told_causal))
        self.patches = [unittest.mock.patch.object(*row) for row in rows]
        for patch in self.patches:
            patch.start()
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        for patch in self.patches:
            patch.stop()
        super().__exit__(*error)


_ONE_HOT = torch.nn.functional.one_hot
_FUSED = torch.nn.functional.scaled_dot_product_attention
_BAGS = torch.nn.functional.embedding_bag


def _attention(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    is_plain = query.ndim >= 3 and key.ndim == query.ndim and value.ndim == query.ndim
    alike = is_plain and query.shape[:-3] == key.shape[:-3] == value.shape[:-3] and query.shape[-1] > 0
    grouped = is_plain and (query.shape[-3] == key.shape[-3] == value.shape[-3] or enable_gqa)
    # PyTorch lets query `q` see keys up to `q`, counted from the first; the op counts from the last.
    aligned = is_plain and (not is_causal or query.shape[-2] == key.shape[-2])
    if dropout_p or not (alike and grouped and aligned) or (is_causal and attn_mask is not None):
        options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal, "scale": scale}
        return _FUSED(query, key, value, enable_gqa=enable_gqa, **options)
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    leading = query.shape[:-3]
    flat = [tensor.reshape(-1, *tensor.shape[-3:]) if tensor.ndim != 4 else tensor for tensor in (query, key, value)]
    bias = _bias(attn_mask, leading, query)
    output, _ = torch.ops.meshwright.attention(*flat, bias, scale, is_causal)
    return output if query.ndim == 4 else output.reshape(*leading, *output.shape[-3:])


def _attention_by_kernels(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Attention as PyTorch runs it on a CPU: by its kernel, which adds masks, or written out in small ops."""
    options = {"is_causal": is_causal, "scale": scale, "enable_gqa": enable_gqa}
    if _has_no_kernel(query, key, value, attn_mask, dropout_p, options):
        return _FUSED(query, key, value, attn_mask, dropout_p, **options)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        hidden = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = hidden.masked_fill_(attn_mask.logical_not(), float("-inf"))
    return _attention(query, key, value, attn_mask, dropout_p, **options)


def _has_no_kernel(query: Any, key: Any, value: Any, mask: Any, dropout: float, options: dict[str, Any]) -> bool:
    """PyTorch says so itself, of small tensors alike."""
    with apart():
        small = [_small(tensor, tensor.shape[-1]) for tensor in (query, key, value)]
        return torch._fused_sdp_choice(*small, None if mask is None else _small(mask, _FEW), dropout, **options) == 0


# Enough to tell a dimension from one that spreads over others.
_FEW = 2


def _small(tensor: Any, width: int) -> Any:
    """A tensor alike in everything that kernels ask for, with few elements along all dimensions but the last."""
    shape = [*(min(size, _FEW) for size in tensor.shape[:-1]), min(width, tensor.shape[-1])]
    is_inner = len(shape) < 2 or shape[-1] == 1 or tensor.stride(-1) == 1
    made = torch.empty(shape if is_inner else [*shape[:-2], shape[-1], shape[-2]], dtype=tensor.dtype)
    return (made if is_inner else made.mT).requires_grad_(tensor.requires_grad)


def _bags(
    input: Any, weight: Any, offsets: Any = None, max_norm: Any = None, norm_type: float = 2, scale_grad_by_freq: bool = False,
    mode: str = "mean", sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:  # fmt: skip
    """Bags that are rows of a matrix are summed up where they are, so that they can be cut apart. PyTorch puts all of them into
    one line."""
    if input.ndim != 2 or max_norm is not None or scale_grad_by_freq:
        options = {"mode": mode, "sparse": sparse, "per_sample_weights": per_sample_weights, "padding_idx": padding_idx}
        options |= {"include_last_offset": include_last_offset, "scale_grad_by_freq": scale_grad_by_freq}
        return _BAGS(input, weight, offsets, max_norm, norm_type, **options)
    rows = torch.nn.functional.embedding(input, weight)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    real = None
    if padding_idx is not None:
        real = (input != padding_idx % weight.shape[0]).unsqueeze(-1)
        rows = rows.masked_fill(~real, float("-inf") if mode == "max" else 0.0)
    if mode == "max":
        most = rows.max(1).values
        return most if real is None else most.masked_fill(~real.any(1), 0.0)
    if mode == "sum":
        return rows.sum(1)
    return rows.mean(1) if real is None else rows.sum(1) / real.sum(1).clamp(min=1)


def _bincount(tensor: Any, weights: Any = None, minlength: int = 0) -> Any:
    """How often each number occurs. Where a least length is given, it is taken for the length."""
    if minlength == 0:
        return torch.bincount(tensor, weights, minlength)
    ones = torch.ones_like(tensor) if weights is None else weights
    return torch.zeros(minlength, dtype=ones.dtype, device=tensor.device).scatter_add(0, tensor, ones)


def _is_told_causal(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    """Layers of PyTorch would look at the numbers of a mask to find out whether it is causal. It hides what it hides anyway."""
    return bool(is_causal)


def _one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """Ones where numbers say. PyTorch would look whether these are below the number of classes."""
    if num_classes < 0:
        return _ONE_HOT(tensor, num_classes)
    return (tensor.unsqueeze(-1) == torch.arange(num_classes, device=tensor.device)).to(torch.int64)


def _bias(mask: Any, leading: Any, query: Any) -> Any:
    """A mask of four dimensions that broadcasts over the scores."""
    if mask is None:
        return None
    if len(leading) > 1:
        mask = mask.expand(*leading, *mask.shape[-3:]) if mask.ndim >= 3 else mask
        mask = mask.reshape(-1, *mask.shape[-3:]) if mask.ndim >= 3 else mask
    if len(leading) == 0 and mask.ndim == 3:
        mask = mask.unsqueeze(0)
    while mask.ndim < 4:
        mask = mask.unsqueeze(0)
    return mask if mask.dtype == torch.bool else mask.to(query.dtype)
