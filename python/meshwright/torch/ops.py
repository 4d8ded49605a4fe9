"""What sources of local programs call besides PyTorch itself."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from math import inf, nan
from typing import Any

import torch

from meshwright import _core
from meshwright.torch.collectives import (
    all_gather, all_gathers, all_reduce, all_reduces, all_to_all, broadcast, permute, reduce_scatter, reduce_scatters,
)  # fmt: skip
from meshwright.torch.record import OF_NAMES

__all__ = [
    "all_gather", "all_gathers", "all_reduce", "all_reduces", "all_to_all", "attention", "attention_grad", "batch_norm_grad", "batch_norm_inference",
    "batch_norm_training", "broadcast", "called", "cholesky", "chosen_products", "convolution", "cube_root", "dtype", "extreme", "extreme_window", "gather", "inf", "leading_zeros",
    "nan", "pad", "part", "permute", "population_count", "product", "put_part", "put_part_", "quotient", "random_normal",
    "random_uniform", "reduce_scatter", "reduce_scatters", "reduce_window", "remainder", "round_away", "scatter", "select_and_scatter", "sort",
    "summed_products", "take", "top_k", "torch",
]  # fmt: skip

Tensor = torch.Tensor
Numbers = Sequence[int]


# Numbers of Python.


def quotient(left: int, right: int) -> int:
    """Towards zero, as programs divide."""
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def remainder(left: int, right: int) -> int:
    return left - quotient(left, right) * right


# Elements.


def cube_root(value: Tensor) -> Tensor:
    return value.sign() * value.abs().pow(1 / 3)


def round_away(value: Tensor) -> Tensor:
    return value.sign() * (value.abs() + 0.5).floor()


def leading_zeros(value: Tensor) -> Tensor:
    bits = value.element_size() * 8
    found = torch.full_like(value, bits)
    for bit in range(bits):
        found = torch.where((value >> bit) & 1 == 1, bits - 1 - bit, found)
    return found


def population_count(value: Tensor) -> Tensor:
    return sum(((value >> bit) & 1 for bit in range(value.element_size() * 8)), torch.zeros_like(value))


def random_uniform(low: Any, high: Any, shape: Numbers, dtype: torch.dtype, chance: torch.Generator) -> Tensor:
    return torch.rand(shape, dtype=dtype, device=chance.device, generator=chance) * (high - low) + low


def random_normal(mean: Any, deviation: Any, shape: Numbers, dtype: torch.dtype, chance: torch.Generator) -> Tensor:
    return torch.randn(shape, dtype=dtype, device=chance.device, generator=chance) * deviation + mean


# Shapes.


def pad(value: Tensor, number: Any, low: Numbers, high: Numbers, interior: Numbers) -> Tensor:
    """More elements around each dimension, fewer where amounts are below zero, and some between any two."""
    if any(interior):
        sizes = [size + max(size - 1, 0) * between for size, between in zip(value.shape, interior)]
        wide = value.new_empty(sizes)
        wide[...] = number
        wide[tuple(slice(None, None, between + 1) for between in interior)] = value
        value = wide
    if not any(low) and not any(high):
        return value
    if torch.is_tensor(number):
        sizes = [size + before + after for size, before, after in zip(value.shape, low, high)]
        wide = number.expand(sizes).contiguous()
        own = tuple(slice(max(-before, 0), size - max(-after, 0)) for size, before, after in zip(value.shape, low, high))
        inner = value[own]
        wide[tuple(slice(max(before, 0), max(before, 0) + size) for before, size in zip(low, inner.shape))] = inner
        return wide
    amounts = [amount for before, after in zip(reversed(low), reversed(high)) for amount in (before, after)]
    return torch.nn.functional.pad(value, amounts, value=number)


def part(value: Tensor, starts: Sequence[Any], sizes: Numbers) -> Tensor:
    """A view of some sizes that begins somewhere, as far inside as it must."""
    for dim, (start, size) in enumerate(zip(starts, sizes)):
        most = value.shape[dim] - size
        if most:
            value = value.narrow(dim, min(max(int(start), 0), most), size)
    return value


def put_part(value: Tensor, update: Tensor, starts: Sequence[Any]) -> Tensor:
    return put_part_(value.clone(memory_format=torch.contiguous_format), update, starts)


def put_part_(value: Tensor, update: Tensor, starts: Sequence[Any]) -> Tensor:
    part(value, starts, update.shape).copy_(update)
    return value


# Reductions and order.


def product(value: Tensor, dims: Numbers) -> Tensor:
    for dim in sorted(dims, reverse=True):
        value = value.prod(dim, dtype=value.dtype)
    return value


def extreme(values: Tensor, positions: Tensor, kind: str, dim: int) -> tuple[Tensor, Tensor]:
    """The largest or least elements of a dimension, and what stands in their places among positions."""
    found, places = values.max(dim) if kind == "max" else values.min(dim)
    return found, positions.gather(dim, places.unsqueeze(dim)).squeeze(dim)


def sort(values: Sequence[Tensor], dim: int, descending: bool, stable: bool) -> tuple[Tensor, ...]:
    """All tensors in the order of the first."""
    ordered, places = torch.sort(values[0], dim=dim, descending=descending, stable=stable)
    return (ordered, *(value.gather(dim, places) for value in values[1:]))


def top_k(value: Tensor, count: int) -> tuple[Tensor, Tensor]:
    found, places = torch.topk(value, count)
    return found, places.to(torch.int32)


def cholesky(value: Tensor, lower: bool) -> Tensor:
    return torch.linalg.cholesky(value, upper=not lower)


# Where other tensors say.


def take(value: Tensor, indices: Tensor, dim: int) -> Tensor:
    """Slices of a dimension, whose dimensions come in its place. Indices outside count as the nearest inside."""
    indices = indices.clamp(0, value.shape[dim] - 1)
    if dim == 0 and value.ndim == 2:
        return torch.nn.functional.embedding(indices, value)
    taken = value.index_select(dim, indices.reshape(-1))
    return taken.reshape(*value.shape[:dim], *indices.shape, *value.shape[dim + 1 :])


def gather(
    value: Tensor, indices: Tensor, *, offset: Numbers, collapsed: Numbers, batching: Numbers, index_batching: Numbers,
    index_map: Numbers, vector: int, sizes: Numbers,
) -> Tensor:  # fmt: skip
    """Slices that begin where vectors of indices say, as far inside as they must."""
    starts = indices.unsqueeze(-1) if vector == indices.ndim else indices.movedim(vector, -1)
    rank = starts.ndim - 1 + len(offset)
    batch = [dim for dim in range(rank) if dim not in offset]
    places = _places(value, starts, batch, offset, collapsed, batching, index_batching, index_map, vector, sizes, True)
    return value[tuple(places)]


def scatter(
    value: Any, shape: Numbers, indices: Tensor, updates: Tensor, kind: str, *, window: Numbers, inserted: Numbers,
    batching: Numbers, index_batching: Numbers, index_map: Numbers, vector: int,
) -> Tensor:  # fmt: skip
    """A tensor, or a number everywhere, with updates in windows that begin where vectors of indices say. Those that
    are not wholly inside are left out."""
    starts = indices.unsqueeze(-1) if vector == indices.ndim else indices.movedim(vector, -1)
    batch = [dim for dim in range(updates.ndim) if dim not in window]
    sizes, wide = [], iter(window)
    for dim in range(len(shape)):
        sizes.append(1 if dim in inserted or dim in batching else updates.shape[next(wide)])
    if _are_rows(shape, window, inserted, batching, index_map, updates):
        return _scatter_rows(value, shape, starts, updates, kind, index_map)
    # The place behind the last is for what is left out.
    line = updates.new_empty(math.prod(shape) + 1)
    made = line[:-1].view(tuple(shape))
    made[...] = value
    inside = torch.ones((), dtype=torch.bool, device=updates.device)
    for number, dim in enumerate(index_map):
        start = starts[..., number]
        inside = inside & (start >= 0) & (start + sizes[dim] <= shape[dim])
    inside = _spread(inside.expand(starts.shape[:-1]), batch, updates.ndim)
    places = _places(made, starts, batch, window, inserted, batching, index_batching, index_map, vector, sizes, True)
    strides = [math.prod(shape[dim + 1 :]) for dim in range(len(shape))]
    flat = sum((place * stride for place, stride in zip(places, strides)), torch.zeros((), dtype=torch.int64, device=updates.device))
    flat = torch.where(inside, flat, made.numel()).expand(updates.shape).reshape(-1)
    if kind == "sum":
        line.index_add_(0, flat, updates.reshape(-1))
    elif kind == "replace":
        line[flat] = updates.reshape(-1)
    else:
        line.scatter_reduce_(0, flat, updates.reshape(-1), {"max": "amax", "min": "amin", "product": "prod"}[kind])
    return made


def _are_rows(
    shape: Numbers, window: Numbers, inserted: Numbers, batching: Numbers, index_map: Numbers, updates: Tensor
) -> bool:
    """Whether indices are those of the first dimensions, and windows all of the others, as the gradient of a table of
    embeddings is."""
    count, rank = len(inserted), updates.ndim
    inner = rank - (len(shape) - count)
    is_outer = sorted(inserted) == sorted(index_map) == list(range(count)) and not batching
    return is_outer and list(window) == list(range(inner, rank)) and tuple(updates.shape[inner:]) == tuple(shape[count:])


def _scatter_rows(value: Any, shape: Numbers, starts: Tensor, updates: Tensor, kind: str, index_map: Numbers) -> Tensor:
    """Rows that are changed where their numbers are told. The row behind the last is for what is left out."""
    outer = shape[: len(index_map)]
    count, width = math.prod(outer), math.prod(shape[len(index_map) :])
    rows = torch.zeros((), dtype=torch.int64, device=updates.device)
    inside = torch.ones((), dtype=torch.bool, device=updates.device)
    for number, dim in enumerate(index_map):
        start = starts[..., number]
        inside = inside & (start >= 0) & (start < shape[dim])
        rows = rows + start.to(torch.int64) * math.prod(outer[dim + 1 :])
    rows = torch.where(inside, rows, count).expand(starts.shape[:-1]).reshape(-1)
    if kind == "sum" and not torch.is_tensor(value) and value == 0.0 and updates.is_floating_point():
        made = torch.ops.aten.embedding_dense_backward(updates.reshape(-1, width), rows, count + 1, count, False)
        return made[:count].reshape(shape)
    made = updates.new_empty((count + 1, width))
    made[:count] = value.reshape(count, width) if torch.is_tensor(value) else value
    given = updates.reshape(-1, width)
    if kind == "sum":
        made.index_add_(0, rows, given)
    elif kind == "replace":
        made[rows] = given
    else:
        made[count:] = 0
        made.index_reduce_(0, rows, given, {"max": "amax", "min": "amin", "product": "prod"}[kind])
    return made[:count].reshape(shape)


def _spread(value: Tensor, dims: Sequence[int], rank: int) -> Tensor:
    """A tensor whose dimensions are some of more."""
    sizes = [1] * rank
    for dim, size in zip(dims, value.shape):
        sizes[dim] = size
    return value.reshape(sizes)


def _places(
    value: Tensor, starts: Tensor, batch: Sequence[int], window: Numbers, absent: Numbers, batching: Numbers,
    index_batching: Numbers, index_map: Numbers, vector: int, sizes: Numbers, clamped: bool,
) -> list[Tensor]:  # fmt: skip
    """For every dimension of a tensor, where the elements of windows lie."""
    rank = len(batch) + len(window)
    wide = iter(window)
    places = []
    for dim in range(value.ndim):
        place = torch.zeros((1,) * rank, dtype=torch.int64, device=value.device)
        if dim in index_map:
            start = starts[..., list(index_map).index(dim)].to(torch.int64)
            start = start.clamp(0, value.shape[dim] - sizes[dim]) if clamped else start
            place = place + _spread(start, batch, rank)
        if dim in batching:
            index_dim = index_batching[list(batching).index(dim)]
            own = batch[index_dim - (index_dim > vector)]
            place = place + _spread(torch.arange(value.shape[dim], device=value.device), [own], rank)
        elif dim not in absent:
            place = place + _spread(torch.arange(sizes[dim], device=value.device), [next(wide)], rank)
        places.append(place)
    return places


# Matrices that rows choose.


def chosen_products(left: Tensor, table: Tensor, indices: Tensor) -> Tensor:
    """Of every row the product with the matrix of its index, all rows of a matrix at once. Indices outside count as the
    nearest inside."""
    made = left.new_empty(*left.shape[:-1], table.shape[-1])
    indices = indices.clamp(0, len(table) - 1)
    if ends := _ends(indices, len(table)):
        for matrix, start, end in zip(table, [0, *ends], ends):
            torch.matmul(left[start:end], matrix, out=made[start:end])
        return made
    for number, rows in _together(indices, len(table)):
        made[rows] = torch.matmul(left[rows], table[number])
    return made


def summed_products(left: Tensor, right: Tensor, indices: Tensor, count: int) -> Tensor:
    """For so many indices the sum of the products of all rows that have it."""
    if ends := _ends(indices, count):
        made = left.new_empty(count, left.shape[1], right.shape[2])
        for number, start, end in zip(range(count), [0, *ends], ends):
            torch.mm(_side_by_side(left[start:end]), right[start:end].reshape(-1, right.shape[2]), out=made[number])
        return made
    made = left.new_zeros(count, left.shape[1], right.shape[2])
    for number, rows in _together(indices, count):
        made[number].addmm_(_side_by_side(left[rows]), right[rows].reshape(-1, right.shape[2]))
    return made


def _side_by_side(matrices: Tensor) -> Tensor:
    return matrices.transpose(0, 1).reshape(matrices.shape[1], -1)


def _together(indices: Tensor, count: int) -> Iterator[tuple[int, Tensor]]:
    """The rows of each index, never more at a time than if all had as many: what is copied to have them together is then
    known before it is known where they are."""
    most = max(-(-len(indices) // count), 1)
    for number in range(count):
        for rows in (indices == number).nonzero().squeeze(-1).split(most):
            if len(rows):
                yield number, rows


def _ends(indices: Tensor, count: int) -> list[int] | None:
    """Where the rows of each index end, if they lie in the order of their indices, as sorted tokens do: nothing is copied
    then to have them together. Rows outside of all would have to be left out."""
    if not bool((indices[1:] >= indices[:-1]).all()) or len(indices) and not 0 <= int(indices[0]) <= int(indices[-1]) < count:
        return None
    return torch.searchsorted(indices, torch.arange(count, device=indices.device), right=True).tolist()


# Windows.


def _windows(value: Tensor, sizes: Numbers, strides: Numbers, dilation: Numbers) -> Tensor:
    """A view with the dimensions of windows behind those of places."""
    value = value.contiguous()
    spans = [(size - 1) * gap + 1 for size, gap in zip(sizes, dilation)]
    places = [(size - span) // stride + 1 for size, span, stride in zip(value.shape, spans, strides)]
    own = value.stride()
    steps = [own[dim] * strides[dim] for dim in range(value.ndim)]
    inner = [own[dim] * dilation[dim] for dim in range(value.ndim)]
    return value.as_strided([*places, *sizes], [*steps, *inner])


def reduce_window(
    value: Tensor, initial: Any, kind: str, sizes: Numbers, strides: Numbers, base_dilation: Numbers, dilation: Numbers,
    padding: Sequence[tuple[int, int]],
) -> Tensor:  # fmt: skip
    interior = [gap - 1 for gap in base_dilation]
    value = pad(value, initial, [low for low, _ in padding], [high for _, high in padding], interior)
    dims = [dim for dim, size in enumerate(sizes) if size > 1]
    if kind == "sum" and dims and all(sizes[dim] == value.shape[dim] - sizes[dim] + 1 for dim in dims) and len(dims) == 1:
        # All sums from the first on are one pass.
        if padding[dims[0]] == (sizes[dims[0]] - 1, 0) and strides[dims[0]] == dilation[dims[0]] == 1:
            return value.narrow(dims[0], sizes[dims[0]] - 1, sizes[dims[0]]).cumsum(dims[0], dtype=value.dtype)
    windows = _windows(value, sizes, strides, dilation)
    inner = list(range(value.ndim, 2 * value.ndim))
    if kind == "sum":
        return windows.sum(inner, dtype=value.dtype)
    if kind == "product":
        return product(windows, inner)
    return {"max": torch.amax, "min": torch.amin, "all": torch.all, "any": torch.any}[kind](windows, inner)


def extreme_window(
    values: Tensor, positions: Tensor, kind: str, sizes: Numbers, strides: Numbers, base_dilation: Numbers, dilation: Numbers,
    padding: Sequence[tuple[int, int]],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The largest or least elements of windows, the first of several, and what stands in their places among positions."""
    lows, highs, interior = [low for low, _ in padding], [high for _, high in padding], [gap - 1 for gap in base_dilation]
    outside = -inf if kind == "max" else inf
    windows = _windows(pad(values, outside, lows, highs, interior), sizes, strides, dilation).flatten(values.ndim)
    chosen = (windows.argmax(-1) if kind == "max" else windows.argmin(-1)).unsqueeze(-1)
    made = windows.gather(-1, chosen).squeeze(-1)
    del windows
    places = _windows(pad(positions, 0, lows, highs, interior), sizes, strides, dilation).flatten(values.ndim)
    return made, places.gather(-1, chosen).squeeze(-1)


def select_and_scatter(
    value: Tensor, source: Tensor, initial: Any, kind: str, sizes: Numbers, strides: Numbers,
    padding: Sequence[tuple[int, int]],
) -> Tensor:  # fmt: skip
    """Adds each element of the source where its window has the largest or least element, the first of several."""
    outside = -inf if kind == "max" else inf
    lows = [low for low, _ in padding]
    padded = pad(value, outside, lows, [high for _, high in padding], [0] * value.ndim)
    windows = _windows(padded, sizes, strides, [1] * value.ndim)
    flat = windows.reshape(*source.shape, -1)
    chosen = flat.argmax(-1) if kind == "max" else flat.argmin(-1)
    strides_of = [math.prod(padded.shape[dim + 1 :]) for dim in range(value.ndim)]
    index = torch.zeros_like(chosen)
    for dim in reversed(range(value.ndim)):
        inside, chosen = chosen % sizes[dim], chosen // sizes[dim]
        start = torch.arange(source.shape[dim], device=value.device) * strides[dim]
        index = index + (_spread(start, [dim], value.ndim) + inside) * strides_of[dim]
    line = padded.new_zeros(padded.numel()).index_add_(0, index.reshape(-1), source.reshape(-1))
    made = line.reshape(padded.shape)[tuple(slice(low, low + size) for low, size in zip(lows, value.shape))]
    return made + initial if torch.is_tensor(initial) or initial else made


def convolution(
    value: Tensor, kernel: Tensor, *, strides: Numbers, padding: Sequence[tuple[int, int]], dilation: Numbers,
    kernel_dilation: Numbers, reversal: Sequence[bool], input_order: Numbers, kernel_order: Numbers, output_order: Numbers,
    groups: int, batch_groups: int, dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    """A convolution whose dimensions lie as the orders say: batch and feature first, then those of space."""
    value = value.permute(*input_order).to(dtype)
    kernel = kernel.permute(*kernel_order).to(dtype)
    if any(reversal):
        kernel = kernel.flip([dim + 2 for dim, is_turned in enumerate(reversal) if is_turned])
    if batch_groups > 1:
        # Groups of the batch are groups of features of a smaller batch.
        batch, feature, *space = value.shape
        value = value.reshape(batch_groups, batch // batch_groups, feature, *space).transpose(0, 1)
        value = value.reshape(batch // batch_groups, batch_groups * feature, *space)
        groups = batch_groups
    lows, highs = [low for low, _ in padding], [high for _, high in padding]
    even = lows == highs and min(lows, default=0) >= 0 and all(gap == 1 for gap in dilation)
    if not even:
        value = pad(value, 0.0, [0, 0, *lows], [0, 0, *highs], [0, 0, *(gap - 1 for gap in dilation)])
        lows = [0] * len(lows)
    if groups == 1 and value.shape[2:] == kernel.shape[2:] and not any(lows):
        # Each sample is one window. A convolution would copy both to an order of its own, and more than that.
        made = (value.flatten(1) @ kernel.flatten(1).mT).reshape(len(value), len(kernel), *[1] * len(lows))
    elif not lows:
        made = torch.einsum("bgi,goi->bgo", value.reshape(len(value), groups, -1), kernel.reshape(groups, len(kernel) // groups, -1))
        made = made.reshape(len(value), -1)
    else:
        made = torch.ops.aten.convolution(
            value, kernel, None, list(strides), lows, list(kernel_dilation), False, [0] * len(lows), groups
        )
    back = [0] * len(output_order)
    for place, dim in enumerate(output_order):
        back[dim] = place
    return made.permute(*back)


# Norms and attention.


def _features(value: Tensor, like: Tensor, dim: int) -> Tensor:
    return _spread(value, [dim], like.ndim)


def batch_norm_training(
    value: Tensor, scale: Tensor, offset: Tensor, epsilon: float, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    others = [other for other in range(value.ndim) if other != dim]
    variance, mean = torch.var_mean(value, others, correction=0)
    return batch_norm_inference(value, scale, offset, mean, variance, epsilon, dim), mean, variance


def batch_norm_inference(
    value: Tensor, scale: Tensor, offset: Tensor, mean: Tensor, variance: Tensor, epsilon: float, dim: int
) -> Tensor:
    factor = scale * torch.rsqrt(variance + epsilon)
    return (value * _features(factor, value, dim)).add_(_features(offset - mean * factor, value, dim))


def batch_norm_grad(
    value: Tensor, scale: Tensor, mean: Tensor, variance: Tensor, gradient: Tensor, epsilon: float, dim: int
) -> tuple[Tensor, Tensor, Tensor]:
    others = [other for other in range(value.ndim) if other != dim]
    count = value.numel() // value.shape[dim]
    inverse = torch.rsqrt(variance + epsilon)
    centered = value - _features(mean, value, dim)
    of_offset = gradient.sum(others)
    of_scale = (gradient * centered).sum(others) * inverse
    inner = centered.mul_(_features(of_scale * inverse / count, value, dim)).add_(_features(of_offset / count, value, dim))
    inner = torch.sub(gradient, inner, out=inner).mul_(_features(scale * inverse, value, dim))
    return inner, of_scale, of_offset


def attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, causal: bool, statistics: bool
) -> Any:
    if _is_fused(query, key, value, bias, causal):
        query, key, value = _inner(query), _inner(_repeated(query, key)), _inner(_repeated(query, value))
        made = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            query, key, value, 0.0, causal, scale=scale
        )
    else:
        made = _plain_attention(query, key, value, bias, scale, causal)
    return (made[0], made[1]) if statistics else made[0]


def attention_grad(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, output: Tensor, statistics: Tensor, gradient: Tensor,
    scale: float, causal: bool, of_bias: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    if not of_bias and _is_fused(query, key, value, bias, causal):
        wide_key, wide_value = _inner(_repeated(query, key)), _inner(_repeated(query, value))
        of_query, of_key, of_value = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
            _inner(gradient), _inner(query), wide_key, wide_value, _inner(output), statistics, 0.0, causal, scale=scale
        )  # fmt: skip
        return of_query, _summed(of_key, key), _summed(of_value, value)
    wide_key, wide_value = _repeated(query, key), _repeated(query, value)
    weights = _weights(_scores(query, wide_key, bias, scale, causal), statistics)
    wide = gradient.to(weights.dtype)
    of_value = _finished(_summed(torch.matmul(weights.mT, wide), value), value)
    of_scores = torch.matmul(wide, wide_value.to(weights.dtype).mT)
    of_scores.sub_((output.to(weights.dtype) * wide).sum(-1, keepdim=True)).mul_(weights)
    del weights, wide, wide_value
    of_query = _finished(torch.matmul(of_scores, wide_key.to(of_scores.dtype)).mul_(scale), query)
    del wide_key
    of_key = _finished(_summed(torch.matmul(of_scores.mT, query.to(of_scores.dtype)).mul_(scale), key), key)
    if not of_bias:
        return of_query, of_key, of_value
    assert bias is not None
    cut = [dim for dim in range(4) if bias.shape[dim] == 1 and of_scores.shape[dim] > 1]
    return of_query, of_key, of_value, (of_scores.sum(cut, keepdim=True) if cut else of_scores).to(bias.dtype)


def _finished(made: Tensor, like: Tensor) -> Tensor:
    """In the type of another tensor and, where it is of the same shape, in the order in which that lies, as PyTorch's own
    kernels have it: heads are merged again without a copy then."""
    if made.shape != like.shape:
        return made.to(like.dtype)
    if made.dtype == like.dtype and like.is_contiguous():
        return made
    return torch.empty_like(like).copy_(made)


def _is_fused(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, causal: bool) -> bool:
    """Whether PyTorch's kernel for CPUs takes it, which also gives the statistics."""
    is_square = not causal or query.shape[-2] == key.shape[-2]
    has_sizes = min(query.numel(), key.numel(), value.numel()) > 0 and value.shape[-1] == query.shape[-1]
    # A query that sees no key gets zeros here, which that kernel does not promise.
    return query.device.type == "cpu" and is_square and has_sizes and bias is None


def _inner(value: Tensor) -> Tensor:
    """With the elements of a head next to each other, which the kernel takes for granted."""
    return value if value.stride(-1) == 1 or value.shape[-1] == 1 else value.contiguous()


def _repeated(query: Tensor, value: Tensor) -> Tensor:
    """Keys or values of groups for all heads of these."""
    times = query.shape[1] // value.shape[1]
    return value if times == 1 else value.repeat_interleave(times, 1)


def _summed(gradient: Tensor, like: Tensor) -> Tensor:
    batch, heads, length, width = gradient.shape
    if heads == like.shape[1]:
        return gradient
    return gradient.reshape(batch, like.shape[1], heads // like.shape[1], length, width).sum(2)


def _scores(query: Tensor, key: Tensor, bias: Tensor | None, scale: float, causal: bool) -> Tensor:
    wide = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = torch.matmul(query.to(wide), key.to(wide).mT).mul_(scale)
    if bias is not None:
        scores = scores.masked_fill_(bias.logical_not(), -inf) if bias.dtype == torch.bool else scores.add_(bias.to(wide))
    if causal:
        queries, keys = scores.shape[-2:]
        unseen = torch.ones(queries, keys, dtype=torch.bool, device=scores.device).triu_(keys - queries + 1)
        scores.masked_fill_(unseen, -inf)
    return scores


def _weights(scores: Tensor, statistics: Tensor) -> Tensor:
    """What scores become, in their place; zeros for a query that sees no key."""
    return scores.sub_(statistics.unsqueeze(-1)).exp_().masked_fill_(torch.isneginf(statistics).unsqueeze(-1), 0.0)


def _plain_attention(
    query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None, scale: float, causal: bool
) -> tuple[Tensor, Tensor]:
    scores = _scores(query, _repeated(query, key), bias, scale, causal)
    statistics = torch.logsumexp(scores, -1)
    weights = _weights(scores, statistics)
    output = torch.matmul(weights, _repeated(query, value).to(weights.dtype))
    return _finished(output, query), statistics


# Ops that programs have no word for.


def called(name: str, arguments: Sequence[Any], results: Numbers) -> tuple[Tensor, ...]:
    """Those results of an op of PyTorch, or of a user, that are tensors. It is given all arguments in their order."""
    op = functools.reduce(getattr, name.split("."), torch.ops)
    schema = op._schema
    if schema.is_mutable:
        raise _core.Error(f"`{name}` writes to what it is given\n\nhint: write the model without this op")
    named = {own.name: given for own, given in zip(schema.arguments, arguments) if own.kwarg_only}
    made = op(*(given for own, given in zip(schema.arguments, arguments) if not own.kwarg_only), **named)
    made = made if isinstance(made, (tuple, list)) else (made,)
    return tuple(made[number] for number in results)


def dtype(name: str) -> torch.dtype:
    return OF_NAMES[name]
