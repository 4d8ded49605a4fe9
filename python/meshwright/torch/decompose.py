"""Decompositions of ops that PyTorch has none for, in ops that have rows in the compiler's table."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any

import torch

aten = torch.ops.aten
# Ops by what they are decomposed by. These run below autograd, on tensors without memory.
OWN: dict[Any, Callable[..., Any]] = {}


def _decomposes(*ops: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        OWN.update(dict.fromkeys(ops, function))
        return function

    return register


@contextlib.contextmanager
def _differentiable() -> Iterator[None]:
    """Autograd works here, though it is behind us when ops are recorded."""
    keys = torch._C.DispatchKey
    with contextlib.ExitStack() as stack:
        for key in (keys.AutogradFunctionality, keys.ADInplaceOrView):
            stack.enter_context(torch._C._SetExcludeDispatchKeyGuard(key, False))
        stack.enter_context(torch.enable_grad())
        yield


def _pulled(function: Callable[..., Any], inputs: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    """The gradients of inputs from the gradient of what a function makes of them."""
    with _differentiable():
        leaves = [leaf.detach().requires_grad_() for leaf in inputs]
        return torch.autograd.grad(function(*leaves), leaves, gradient)


def _known(op: Any) -> Callable[..., Any]:
    return torch._decomp.global_decomposition_table["post_autograd"][op]


# Bags of embeddings.


@_decomposes(aten._embedding_bag.default, aten._embedding_bag_forward_only.default)
def _embedding_bag(
    weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
    if include_last_offset:
        offsets = offsets[:-1]
    bags = offsets.shape[0]
    places = torch.arange(indices.shape[0], device=indices.device)
    bag = (places[:, None] >= offsets[None, :]).sum(1) - 1
    real = torch.ones_like(indices) if padding_idx < 0 else (indices != padding_idx).to(indices.dtype)
    count = torch.zeros(bags, dtype=indices.dtype, device=indices.device).scatter_add(0, bag, real)
    rows = weight[indices]
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    wide = bag[:, None].expand_as(rows)
    if mode == 2:
        rows = torch.where(real[:, None] > 0, rows, float("-inf"))
        start = torch.full((bags, weight.shape[1]), float("-inf"), dtype=weight.dtype, device=weight.device)
        output = start.scatter_reduce(0, wide, rows, "amax")
        output = torch.where(count[:, None] > 0, output, 0.0)
        is_most = (rows == output[bag]) & (real[:, None] > 0)
        most = torch.full((bags, weight.shape[1]), -1, dtype=indices.dtype, device=weight.device)
        most = most.scatter_reduce(0, wide, torch.where(is_most, indices[:, None], -1), "amax")
        return output, bag, count, most
    rows = rows * real[:, None]
    output = torch.zeros((bags, weight.shape[1]), dtype=weight.dtype, device=weight.device).scatter_add(0, wide, rows)
    if mode == 1:
        output = output / count.clamp(min=1)[:, None]
    return output, bag, count, count


@_decomposes(aten._embedding_bag_dense_backward.default)
def _embedding_bag_backward(
    gradient: Any, indices: Any, bag: Any, count: Any, most: Any, rows: int, scale_grad_by_freq: bool, mode: int,
    per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    zeros = torch.zeros((rows, gradient.shape[1]), dtype=gradient.dtype, device=gradient.device)
    if mode == 2:
        gradient = torch.where(most >= 0, gradient, 0.0)
        return zeros.scatter_add(0, most.clamp(min=0), gradient)
    if mode == 1:
        gradient = gradient / count.clamp(min=1)[:, None]
    parts = gradient[bag]
    if per_sample_weights is not None:
        parts = parts * per_sample_weights[:, None]
    if padding_idx >= 0:
        parts = parts * (indices != padding_idx)[:, None]
    return zeros.scatter_add(0, indices[:, None].expand_as(parts), parts)


@_decomposes(aten._embedding_bag_backward.default)
def _embedding_bag_any_backward(
    gradient: Any, indices: Any, offsets: Any, bag: Any, count: Any, most: Any, rows: int, scale_grad_by_freq: bool,
    mode: int, sparse: bool, per_sample_weights: Any, padding_idx: int = -1,
) -> Any:  # fmt: skip
    given = (gradient, indices, bag, count, most, rows, scale_grad_by_freq, mode, per_sample_weights, padding_idx)
    return _embedding_bag_backward(*given)


@_decomposes(aten._embedding_bag_per_sample_weights_backward.default)
def _embedding_bag_weights(
    gradient: Any, weight: Any, indices: Any, offsets: Any, bag: Any, mode: int, padding_idx: int = -1
) -> Any:
    found = (gradient[bag] * weight[indices]).sum(1)
    return found if padding_idx < 0 else found * (indices != padding_idx)


# Products and norms.


@_decomposes(aten._grouped_mm.default)
def _grouped_mm(left: Any, right: Any, offsets: Any = None, bias: Any = None, out_dtype: Any = None) -> Any:
    """Products of matrices one after the other, as experts do them: rows, columns or what is summed are in groups, each of
    which ends at an offset."""
    if offsets is None:
        return torch.bmm(left, right)
    is_summed = left.ndim == 2 and right.ndim == 2
    count = left.shape[1] if is_summed else right.shape[1] if left.ndim == 3 else left.shape[0]
    places = torch.arange(count, device=left.device)
    group = (places[:, None] >= offsets[None, :]).sum(1).clamp(max=offsets.shape[0] - 1)
    if is_summed:
        parts = torch.bmm(left.t()[:, :, None], right[:, None, :])
        zeros = torch.zeros((offsets.shape[0], *parts.shape[1:]), dtype=parts.dtype, device=parts.device)
        made = zeros.index_add(0, group, parts)
    elif left.ndim == 3:
        made = torch.bmm(left.index_select(0, group), right.t()[:, :, None])[:, :, 0].t()
    else:
        made = torch.bmm(left[:, None, :], right.index_select(0, group))[:, 0, :]
    return made if out_dtype is None else made.to(out_dtype)


@_decomposes(aten._trilinear.default)
def _trilinear(
    first: Any, second: Any, third: Any, expand1: list[int], expand2: list[int], expand3: list[int], sumdim: list[int],
    unroll_dim: int = 1,
) -> Any:  # fmt: skip
    for dim in expand1:
        first = first.unsqueeze(dim)
    for dim in expand2:
        second = second.unsqueeze(dim)
    for dim in expand3:
        third = third.unsqueeze(dim)
    product = first * second * third
    return product.sum(sumdim) if sumdim else product


@_decomposes(aten._weight_norm_interface_backward.default)
def _weight_norm_backward(gradient: Any, direction: Any, size: Any, norms: Any, dim: int) -> Any:
    def whole(direction: Any, size: Any) -> Any:
        dims = [other for other in range(direction.ndim) if other != dim]
        return direction * (size / direction.square().sum(dims, keepdim=True).sqrt())

    return _pulled(whole, (direction, size), gradient)


# Losses.

# What stands for the logarithm of zero: gradients of what is infinite are no numbers.
_NEVER = -1e30


def _ctc_losses(scores: Any, targets: Any, steps: Any, lengths: Any, blank: int) -> Any:
    """Of every sample how unlikely its target is: all ways to write it with blanks, added up step by step."""
    count, longest = targets.shape
    places = torch.arange(2 * longest + 1, device=scores.device)
    targets = torch.where(places[:longest] < lengths[:, None], targets, blank)
    blanks = torch.full_like(targets, blank)
    written = torch.cat([torch.stack([blanks, targets], 2).reshape(count, -1), blanks.new_full((count, 1), blank)], 1)
    # A blank between two letters may be left out where these differ.
    may_skip = torch.nn.functional.pad(written[:, 2:] != written[:, :-2], (2, 0))
    found = scores.gather(2, written.expand(scores.shape[0], -1, -1))
    ways = torch.where(places < 2, found[0], _NEVER)
    for step in range(1, scores.shape[0]):
        before = torch.nn.functional.pad(ways, (2, 0), value=_NEVER)
        skipped = torch.where(may_skip, before[:, :-2], _NEVER)
        more = torch.logsumexp(torch.stack([ways, before[:, 1:-1], skipped]), 0) + found[step]
        ways = torch.where(step < steps[:, None], more, ways)
    ends = torch.stack([2 * lengths, (2 * lengths - 1).clamp(min=0)], 1)
    last = ways.gather(1, ends)
    # A target without letters has one end.
    other = torch.where(lengths > 0, last[:, 1], _NEVER)
    return -torch.logsumexp(torch.stack([last[:, 0], other]), 0)


@_decomposes(aten._ctc_loss.Tensor)
def _ctc_loss(
    scores: Any, targets: Any, steps: Any, lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> tuple[Any, Any]:
    if scores.ndim != 3 or targets.ndim != 2:
        raise NotImplementedError("targets that lie one behind the other end where only a run knows")
    losses = _ctc_losses(scores, targets, steps, lengths, blank)
    losses = torch.where(losses > -0.1 * _NEVER, 0.0 if zero_infinity else math.inf, losses)
    return losses, losses


@_decomposes(aten._ctc_loss_backward.Tensor)
def _ctc_loss_backward(
    gradient: Any, scores: Any, targets: Any, steps: Any, lengths: Any, losses: Any, _ways: Any, blank: int,
    zero_infinity: bool = False,
) -> Any:  # fmt: skip
    found = _pulled(lambda scores: _ctc_losses(scores, targets, steps, lengths, blank), (scores,), gradient)[0]
    # PyTorch takes scores to be what `log_softmax` gives, whose own gradient is part of this one.
    times = torch.arange(scores.shape[0], device=scores.device)
    is_over = (times[:, None] >= steps)[:, :, None]
    found = found + torch.where(is_over, 0.0, scores.exp() * gradient[:, None])
    is_possible = losses != 0 if zero_infinity else losses < math.inf
    return torch.where(is_possible[:, None] | is_over, found, 0.0 if zero_infinity else math.nan)


@_decomposes(aten.multi_margin_loss.default)
def _multi_margin_loss(
    scores: Any, target: Any, power: float = 1, margin: float = 1, weight: Any = None, reduction: int = 1
) -> Any:
    rows, places = scores.reshape(-1, scores.shape[-1]), target.reshape(-1, 1)
    below = (margin - rows.gather(1, places) + rows).clamp(min=0) ** power
    if weight is not None:
        below = below * weight[places]
    is_other = torch.arange(rows.shape[1], device=rows.device) != places
    found = (below * is_other).sum(1) / rows.shape[1]
    return (found.reshape(target.shape), found.mean(), found.sum())[reduction]


@_decomposes(aten.multi_margin_loss_backward.default)
def _multi_margin_loss_backward(
    gradient: Any, scores: Any, target: Any, power: float, margin: float, weight: Any = None, reduction: int = 1
) -> Any:
    forward = lambda scores: _multi_margin_loss(scores, target, power, margin, weight, reduction)  # noqa: E731
    return _pulled(forward, (scores,), gradient)[0]


# Elements.


@_decomposes(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def _shrink_backward(gradient: Any, tensor: Any, bound: float) -> Any:
    return torch.where(tensor.abs() <= bound, 0.0, gradient)


@_decomposes(aten.hypot.default)
def _hypot(left: Any, right: Any) -> Any:
    return (left.square() + right.square()).sqrt()


@_decomposes(aten._efficientzerotensor.default)
def _zeros(size: list[int], dtype: Any = None, device: Any = None, **rest: Any) -> Any:
    return torch.zeros(size, dtype=dtype, device=device)


@_decomposes(aten.polygamma.default)
def _polygamma(order: int, tensor: Any) -> Any:
    if order != 1:
        raise NotImplementedError("only the first derivative of `digamma` is known")
    # Below a half by reflection; above by its series, some steps further on, where few terms are enough.
    is_low = tensor < 0.5
    place = torch.where(is_low, 1 - tensor, tensor)
    found = sum(1 / (place + step).square() for step in range(8))
    over = 1 / (place + 8)
    square = over.square()
    series = 1 / 6 - square * (1 / 30 - square * (1 / 42 - square * (1 / 30 - square * (5 / 66))))
    found = found + over + square / 2 + over * square * series
    reflected = (math.pi / torch.sin(math.pi * tensor)).square() - found
    return torch.where(is_low, reflected, found)


@_decomposes(aten.signbit.default)
def _signbit(tensor: Any) -> Any:
    is_below = tensor < 0
    # Zero has a sign, which one over it shows.
    return is_below | ((tensor == 0) & (tensor.reciprocal() < 0)) if tensor.is_floating_point() else is_below


@_decomposes(aten.fmin.default)
def _fmin(left: Any, right: Any) -> Any:
    return torch.where(right.isnan() | (left <= right), left, right)


@_decomposes(aten.fmax.default)
def _fmax(left: Any, right: Any) -> Any:
    return torch.where(right.isnan() | (left >= right), left, right)


# Order and running sums.


@_decomposes(aten.histc.default)
def _histc(tensor: Any, bins: int = 100, least: float = 0, most: float = 0) -> Any:
    if least == most:
        # The range is that of the numbers, which only a run has.
        return NotImplemented
    place = ((tensor - least) * (bins / (most - least))).floor().clamp(max=bins - 1).where(tensor != most, bins - 1)
    is_inside = (tensor >= least) & (tensor <= most)
    is_there = (place.flatten()[:, None] == torch.arange(bins, device=tensor.device)) & is_inside.flatten()[:, None]
    return is_there.to(tensor.dtype).sum(0)


@_decomposes(aten.kthvalue.default)
def _kthvalue(tensor: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    values, indices = torch.sort(tensor, stable=True, dim=dim)
    values, indices = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    return (values, indices) if keepdim else (values.squeeze(dim), indices.squeeze(dim))


@_decomposes(aten.median.dim, aten.nanmedian.dim)
def _median(tensor: Any, dim: int, keepdim: bool = False) -> Any:
    return _kthvalue(tensor, (tensor.shape[dim] + 1) // 2, dim, keepdim)


@_decomposes(aten.median.default)
def _median_of_all(tensor: Any) -> Any:
    return _kthvalue(tensor.reshape(-1), (tensor.numel() + 1) // 2, 0)[0]


@_decomposes(aten.logcumsumexp.default)
def _logcumsumexp(tensor: Any, dim: int) -> Any:
    most = tensor.amax(dim, keepdim=True)
    return (tensor - most).exp().cumsum(dim).log() + most


@_decomposes(aten.cummax.default)
def _cummax(tensor: Any, dim: int) -> Any:
    return _running(tensor, dim, torch.Tensor.ge)


@_decomposes(aten.cummin.default)
def _cummin(tensor: Any, dim: int) -> Any:
    return _running(tensor, dim, torch.Tensor.le)


def _running(tensor: Any, dim: int, holds: Callable[..., Any]) -> Any:
    """The first or last of all so far, whichever `holds` prefers, step by step, and where it is."""
    parts = tensor.unbind(dim)
    values, places = [parts[0]], [torch.zeros(parts[0].shape, dtype=torch.int64, device=tensor.device)]
    for number, part in enumerate(parts[1:], 1):
        is_new = holds(part, values[-1])
        values.append(torch.where(is_new, part, values[-1]))
        places.append(torch.where(is_new, number, places[-1]))
    return torch.stack(values, dim), torch.stack(places, dim)


# Pools and images.


@_decomposes(aten.adaptive_max_pool2d.default)
def _adaptive_max_pool2d(image: Any, size: list[int]) -> Any:
    height, width = image.shape[-2:]
    positions = torch.arange(height * width, device=image.device).reshape(height, width)
    values, places = [], []
    for row in _parts(height, size[0]):
        for column in _parts(width, size[1]):
            part = image[..., row, column].flatten(-2)
            value, place = part.max(-1)
            values.append(value)
            places.append(positions[row, column].flatten()[place])
    shape = (*image.shape[:-2], *size)
    return torch.stack(values, -1).reshape(shape), torch.stack(places, -1).reshape(shape)


def _parts(length: int, count: int) -> list[slice]:
    return [slice(part * length // count, -(-(part + 1) * length // count)) for part in range(count)]


@_decomposes(aten.adaptive_max_pool2d_backward.default)
def _adaptive_max_pool2d_backward(gradient: Any, image: Any, places: Any) -> Any:
    zeros = torch.zeros_like(image).flatten(-2)
    return zeros.scatter_add(-1, places.flatten(-2), gradient.flatten(-2)).reshape(image.shape)


@_decomposes(aten.upsample_bicubic2d_backward.default)
def _bicubic_backward(
    gradient: Any, output: list[int], shape: list[int], aligned: bool, height: float | None = None,
    width: float | None = None,
) -> Any:  # fmt: skip
    image = torch.zeros(shape, dtype=gradient.dtype, device=gradient.device)
    forward = _known(aten.upsample_bicubic2d.default)
    return _pulled(lambda image: forward(image, output, aligned, height, width), (image,), gradient)[0]


@_decomposes(aten.grid_sampler_2d_backward.default)
def _grid_sampler_backward(
    gradient: Any, image: Any, grid: Any, mode: int, padding: int, aligned: bool, wanted: list[bool]
) -> Any:
    forward = _known(aten.grid_sampler_2d.default)
    found = _pulled(lambda image, grid: forward(image, grid, mode, padding, aligned), (image, grid), gradient)
    return found[0] if wanted[0] else None, found[1]


@_decomposes(
    aten.replication_pad1d_backward.default, aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)  # fmt: skip
def _replication_pad_backward(gradient: Any, tensor: Any, padding: list[int]) -> Any:
    def padded(tensor: Any) -> Any:
        for number in range(len(padding) // 2):
            dim, (low, high) = tensor.ndim - 1 - number, padding[2 * number : 2 * number + 2]
            places = torch.arange(-low, tensor.shape[dim] + high, device=tensor.device).clamp(0, tensor.shape[dim] - 1)
            tensor = tensor.index_select(dim, places)
        return tensor

    return _pulled(padded, (tensor,), gradient)[0]
