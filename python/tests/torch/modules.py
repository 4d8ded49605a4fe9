"""Small modules that do odd things, each with what it is called with."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

CASES: dict[str, Callable[[], tuple[nn.Module, Any]]] = {}


def case(make: Callable[[], tuple[nn.Module, Any]]) -> Callable[[], tuple[nn.Module, Any]]:
    CASES[make.__name__] = make
    return make


class Does(nn.Module):
    """A module of some inner ones that computes by a function of itself and its inputs; the loss is made of that."""

    def __init__(self, function: Callable[..., Any], **inner: Any) -> None:
        super().__init__()
        self.function = function
        for name, value in inner.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def loss(output: Any) -> torch.Tensor:
    """Weighs every element in its own way, so that gradients differ from place to place."""
    leaves = torch.utils._pytree.tree_leaves(output)
    floats = [leaf.float() for leaf in leaves if torch.is_tensor(leaf) and leaf.is_floating_point()]
    weights = [torch.linspace(-1, 1.5, leaf.numel()).reshape(leaf.shape) for leaf in floats]
    return sum((leaf * weight).sum() for leaf, weight in zip(floats, weights))


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(*shape))


def of(function: Callable[..., Any], *shape: int, **inner: Any) -> tuple[nn.Module, Any]:
    """A function of a parameter and an input of the same shape."""
    return Does(lambda self, x: function(self.w * x + x), w=weight(*shape), **inner), torch.randn(*shape)


# Layers.

@case
def embedding_bag():
    return nn.EmbeddingBag(10, 4, mode="mean"), (torch.randint(0, 10, (3, 5)),)

@case
def embedding_bags_of_one_size():
    def run(self, index, weights):
        return self.most(index), self.mean(index), self.sum(index, per_sample_weights=weights)
    model = Does(run, most=nn.EmbeddingBag(10, 4, mode="max", padding_idx=2), mean=nn.EmbeddingBag(10, 4, padding_idx=-8),
                 sum=nn.EmbeddingBag(10, 3, mode="sum"))
    return model, (torch.tensor([[1, 2, 9], [2, 2, 2], [0, 4, 4], [7, 2, 1]]), torch.rand(4, 3))

@case
def embedding_bags_in_a_line():
    def run(self, index, offsets):
        return self.most(index, offsets), self.mean(index, offsets)
    model = Does(run, most=nn.EmbeddingBag(10, 4, mode="max"), mean=nn.EmbeddingBag(10, 4, padding_idx=3))
    return model, (torch.tensor([1, 2, 9, 3, 3, 0, 4, 4]), torch.tensor([0, 3, 5]))

@case
def embedding_padded():
    return Does(lambda self, x: self.table(x), table=nn.Embedding(10, 4, padding_idx=2)), torch.tensor([[1, 2, 2, 9]])

@case
def group_norm():
    return nn.GroupNorm(2, 6), torch.randn(2, 6, 3, 3)

@case
def instance_norm():
    return nn.InstanceNorm2d(4, affine=True, track_running_stats=True), torch.randn(2, 4, 5, 5)

@case
def batch_norm_1d():
    return nn.BatchNorm1d(5), torch.randn(6, 5)

@case
def batch_norm_evaluated():
    return nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5)).eval(), torch.randn(6, 4)

@case
def rms_norm():
    return nn.RMSNorm(6), torch.randn(3, 6)

@case
def layer_norm_two_dims():
    return nn.LayerNorm((3, 4)), torch.randn(2, 3, 4)

@case
def local_response_norm():
    return nn.Sequential(nn.Conv2d(2, 6, 1), nn.LocalResponseNorm(3)), torch.randn(2, 2, 4, 4)

@case
def conv_1d_dilated():
    return nn.Conv1d(3, 6, 3, dilation=2, groups=3, padding="same"), torch.randn(2, 3, 9)

@case
def conv_3d():
    return nn.Conv3d(2, 3, 2, stride=2, padding=1), torch.randn(1, 2, 5, 4, 6)

@case
def conv_circular():
    return nn.Conv2d(2, 3, 3, padding=1, padding_mode="circular"), torch.randn(1, 2, 5, 5)

@case
def conv_transpose_grouped():
    return nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2), torch.randn(2, 4, 5, 5)

@case
def conv_transpose_1d_dilated():
    return nn.ConvTranspose1d(3, 2, 3, stride=2, dilation=2), torch.randn(2, 3, 6)

@case
def lstm_cell_loop():
    def run(self, x):
        h = c = x.new_zeros(x.shape[0], 5)
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
        return h, c
    return Does(run, cell=nn.LSTMCell(3, 5)), torch.randn(2, 4, 3)

@case
def lstm():
    return nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True), torch.randn(2, 5, 3)

@case
def gru():
    return nn.GRU(3, 4), torch.randn(5, 2, 3)

@case
def elman():
    return nn.RNN(3, 4, nonlinearity="relu"), torch.randn(5, 2, 3)

@case
def multihead_attention():
    return nn.MultiheadAttention(8, 2, batch_first=True), [torch.randn(2, 5, 8)] * 3

@case
def transformer_layer():
    return nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True), torch.randn(2, 5, 8)

@case
def transformer_whole():
    model = nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True)
    return model, (torch.randn(2, 5, 8), torch.randn(2, 4, 8))

@case
def attention_causal():
    return of(lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), 2, 2, 5, 4)

@case
def attention_with_bias_gradient():
    def run(self, x):
        return F.scaled_dot_product_attention(self.w * x, x, x, attn_mask=self.bias)
    return Does(run, w=weight(4), bias=weight(1, 2, 5, 5)), torch.randn(2, 2, 5, 4)

@case
def attention_grouped_queries():
    def run(self, x):
        return F.scaled_dot_product_attention(self.w * x, x[:, :2], x[:, :2], enable_gqa=True, scale=0.3)
    return Does(run, w=weight(4)), torch.randn(2, 4, 5, 4)

@case
def attention_with_mask():
    mask = torch.rand(5, 6) > 0.3
    mask[:, 0] = True
    def run(self, x):
        return F.scaled_dot_product_attention(self.w * x[..., :5, :], x, x, attn_mask=self.mask)
    return Does(run, w=weight(4), mask=mask), torch.randn(2, 2, 6, 4)

@case
def attention_causal_rectangle():
    def run(self, x):
        return F.scaled_dot_product_attention(self.w * x[..., :3, :], x, x, is_causal=True)
    return Does(run, w=weight(4)), torch.randn(2, 2, 6, 4)

@case
def attention_three_dims():
    return of(lambda x: F.scaled_dot_product_attention(x, x, x), 2, 5, 4)

@case
def bilinear():
    return nn.Bilinear(3, 4, 5), (torch.randn(2, 3), torch.randn(2, 4))

@case
def weight_norm():
    return nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)), torch.randn(2, 3)

@case
def tied_weights():
    def run(self, x):
        return F.linear(self.table(x), self.head.weight)
    model = Does(run, table=nn.Embedding(7, 4), head=nn.Linear(4, 7, bias=False))
    model.head.weight = model.table.weight
    return model, torch.randint(0, 7, (2, 3))

@case
def layer_at_two_places():
    inner = nn.Linear(4, 4)
    return nn.Sequential(inner, nn.Tanh(), nn.Linear(4, 4), inner), torch.randn(3, 4)

# Pools and sizes.

@case
def max_pool_overlapping():
    return of(lambda x: F.max_pool2d(x, 3, 2, 1), 2, 3, 7, 7)

@case
def max_pool_ceil_dilated():
    return of(lambda x: F.max_pool2d(x, 2, 2, 0, 2, ceil_mode=True), 1, 2, 8, 8)

@case
def max_pool_1d_and_3d():
    return Does(lambda self, x, y: (F.max_pool1d(self.a * x, 2), F.max_pool3d(self.b * y, 2)), a=weight(1), b=weight(1)), (
        torch.randn(2, 3, 6), torch.randn(1, 2, 4, 4, 4))

@case
def max_pool_indices_and_unpool():
    def run(self, x):
        pooled, indices = F.max_pool2d(self.w * x, 2, return_indices=True)
        return F.max_unpool2d(pooled, indices, 2)
    return Does(run, w=weight(1)), torch.randn(1, 2, 4, 4)

@case
def avg_pools():
    return of(lambda x: (F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                         F.avg_pool2d(x, 2, 2, ceil_mode=True), F.avg_pool1d(x[0], 2)), 2, 3, 7, 7)

@case
def adaptive_pools():
    return of(lambda x: (F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x, 3), F.adaptive_avg_pool2d(x, 1)),
              1, 2, 7, 5)

@case
def lp_pool():
    return of(lambda x: F.lp_pool2d(x.abs() + 0.1, 2, 2), 1, 2, 4, 4)

@case
def pixel_shuffles():
    return of(lambda x: (F.pixel_shuffle(x, 2), F.pixel_unshuffle(x, 2), F.channel_shuffle(x, 2)), 1, 8, 4, 4)

@case
def interpolations():
    return of(lambda x: (F.interpolate(x, scale_factor=2), F.interpolate(x, size=(7, 3)),
                         F.interpolate(x, size=(7, 9), mode="bilinear"),
                         F.interpolate(x, scale_factor=1.5, mode="bilinear", align_corners=True),
                         F.interpolate(x, size=(5, 5), mode="nearest-exact")), 1, 2, 4, 5)

@case
def interpolation_bicubic():
    return of(lambda x: F.interpolate(x, size=(6, 7), mode="bicubic"), 1, 2, 4, 5)

@case
def grid_sample():
    def run(self, x):
        grid = F.affine_grid(self.angle[None], [1, 2, 4, 4], align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)
    angle = nn.Parameter(torch.tensor([[0.9, 0.1, 0.05], [-0.1, 0.8, 0.02]]))
    return Does(run, angle=angle), torch.randn(1, 2, 4, 4)

@case
def folds():
    return of(lambda x: F.fold(F.unfold(x, 2, stride=2), (4, 4), 2, stride=2), 1, 2, 4, 4)

@case
def pads():
    return of(lambda x: (F.pad(x, (1, 2), "reflect"), F.pad(x, (1, 2), "replicate"), F.pad(x, (1, -1, 0, 2), value=3.0),
                         F.pad(x, (1, 1), "circular")), 2, 3, 5)

# Moving elements.

@case
def gather_and_scatter():
    def run(self, x, index):
        w = self.w * x
        picked = w.gather(1, index)
        return picked, torch.zeros_like(w).scatter(1, index, picked), w.scatter_add(1, index, picked * 2)
    return Does(run, w=weight(4, 6)), (torch.randn(4, 6), torch.stack([torch.randperm(6)[:3] for _ in range(4)]))

@case
def gather_of_a_part():
    def run(self, x, index):
        return (self.w * x).gather(0, index), torch.zeros(4, 6).scatter_add(0, index, (self.w * x)[:2, :3])
    return Does(run, w=weight(4, 6)), (torch.randn(4, 6), torch.tensor([[0, 3, 1], [2, 0, 0]]))

@case
def scatter_reduce():
    def run(self, x, index):
        w = self.w * x
        return (torch.zeros(3, 4).scatter_reduce(0, index, w, "sum"),
                torch.full((3, 4), -9.0).scatter_reduce(0, index, w, "amax"))
    return Does(run, w=weight(5, 4)), (torch.randn(5, 4), torch.randint(0, 3, (5, 4)))

@case
def positions_that_count():
    """Along dimensions, from 0 on, which is no choice: alone, together, turned around, beside others, and not all of one."""
    def run(self, x, index):
        w = self.w * x
        first, second, third = (torch.arange(size) for size in w.shape)
        put = torch.zeros(3, 4, 5).index_put((first[:, None], index), w[:, :2], accumulate=True)
        return (w[first, index[:, 0]], w[first[:, None], index], w[first[:, None, None], second[None, :, None], third],
                w[:, second[:, None], third], w[third[None, :3, None] % 3, second[:, None, None], third[None, None, :]],
                w[first, first], w[first[:2], second[1:3]], w[first[None, :], second[:, None]], put)
    return Does(run, w=weight(3, 4, 5)), [torch.randn(3, 4, 5), torch.randint(0, 4, (3, 2))]

@case
def index_select_add_copy_fill():
    def run(self, x, index):
        w = self.w * x
        return (w.index_select(1, index), w.index_add(1, index, w[:, :2], alpha=0.5), w.index_copy(1, index, w[:, :2]),
                w.index_fill(1, index, 2.0))
    return Does(run, w=weight(3, 4)), (torch.randn(3, 4), torch.tensor([3, 1]))

@case
def brackets():
    def run(self, x, rows, columns):
        w = self.w * x
        return w[rows], w[:, columns], w[rows, columns], w[rows[:, None], :, columns], w[..., -1], w[::2, None, 1:3]
    return Does(run, w=weight(4, 5, 6)), (torch.randn(4, 5, 6), torch.tensor([0, -1, 2]), torch.tensor([1, 1, -2]))

@case
def brackets_assigned():
    def run(self, x, rows):
        w = self.w * x
        out = torch.zeros(4, 5)
        out[rows] = w[rows] * 2
        out[:, 1] += 3
        out[1:3, ::2] *= w[1:3, ::2]
        out.index_put_((rows, rows), torch.ones(2), accumulate=True)
        return out
    return Does(run, w=weight(4, 5)), (torch.randn(4, 5), torch.tensor([3, 0]))

@case
def views_in_place():
    def run(self, x):
        y = (self.w * x).clone()
        half = y.view(2, 2, 6)[:, 0]
        half.mul_(2).add_(1)
        y.t()[0].zero_()
        y.diagonal().fill_(3)
        y[..., 1:].clamp_(min=-0.5)
        return y, half.sum()
    return Does(run, w=weight(4, 6)), torch.randn(4, 6)

@case
def views():
    return of(lambda x: (x.unfold(1, 2, 2), x.diagonal(offset=1), x.movedim(0, 1), x.flatten().unflatten(0, (3, 8)),
                         x.expand(2, 4, 6), x.as_strided((2, 3), (6, 2), 1), x.narrow(1, 1, 3), torch.vsplit(x, 2),
                         x.tensor_split(4, dim=1), x.chunk(4, 1), x.swapaxes(0, 1), x.ravel()), 4, 6)

@case
def copies():
    return of(lambda x: (x.roll(2), x.roll((1, -1), (0, 1)), x.flip(0, 1), x.repeat(2, 1, 2), x.tile(2),
                         torch.rot90(x), x.repeat_interleave(3, 0), torch.stack([x, x], -1), torch.cat([x, x.t().reshape(4, 6)]),
                         x.tril(-1), x.triu(1), torch.diag(x[0]), torch.block_diag(x, x), torch.kron(x, x[:1, :2]),
                         torch.meshgrid(x[0], x[1], indexing="ij"), torch.cartesian_prod(x[0], x[1])), 4, 6)

# Numbers.

@case
def einsums():
    return of(lambda x: (torch.einsum("bij,bkj->bik", x, x), torch.einsum("bii->b", x), torch.einsum("bij->j", x),
                         torch.einsum("bij,cjk->bcik", x, x)), 2, 3, 3)

@case
def products():
    return of(lambda x: (x @ x, x[0] @ x, torch.bmm(x, x), x[0, 0] @ x[0, 1], x @ x[0, 0], torch.baddbmm(x, x, x, beta=0.5, alpha=2),
                         torch.addmm(x[0], x[0], x[1], beta=0), torch.tensordot(x, x, ([2], [1])), torch.outer(x[0, 0], x[0, 1]),
                         torch.chain_matmul(x[0], x[1], x[0]), torch.linalg.multi_dot([x[0], x[1]]), torch.cross(x, x.flip(0), dim=-1)), 2, 3, 3)

@case
def orders():
    return of(lambda x: (x.topk(2), x.topk(2, dim=0, largest=False), x.sort(1, descending=True), x.argsort(0).float(),
                         x.kthvalue(2)[0], x.median(1)[0], x.max(1), x.min(0)[0], x.argmax(1), x.amax(), x.max()), 4, 5)

@case
def sums():
    return of(lambda x: (x.cumsum(1), x.cumprod(0), x.logsumexp(1), x.prod(1), x.mean(0, keepdim=True), x.var(1), x.std(),
                         x.var(0, correction=0), x.norm(), x.norm(p=1, dim=1), torch.linalg.vector_norm(x, 3, dim=0), x.sum((0, 1)),
                         torch.std_mean(x, 1), x.logcumsumexp(1), x.nansum(), torch.trapezoid(x), x.diff(), x.cummax(1)[0],
                         x.count_nonzero().float(), torch.aminmax(x, dim=1)), 4, 5)

@case
def choices():
    return of(lambda x: (torch.where(x > 0, x, 0.1 * x), x.masked_fill(x < 0, -1e9).clamp(-5, 5), x.clamp(max=0.5), x.clip(min=x.mean()),
                         torch.maximum(x, -x), torch.fmin(x, x * x), x.relu(), torch.where(x.isnan(), 0.0, x), x.nan_to_num(), x.abs().clamp_min(0.3),
                         torch.lerp(x, x * x, 0.3), torch.addcmul(x, x, x, value=0.5), torch.addcdiv(x, x, x.abs() + 1)), 4, 5)

@case
def activations():
    names = ("relu relu6 elu selu celu gelu silu mish softplus softsign hardtanh hardswish hardsigmoid leaky_relu logsigmoid tanhshrink "
             "softshrink hardshrink sigmoid tanh").split()
    return of(lambda x: [getattr(F, name)(x) for name in names] + [F.gelu(x, approximate="tanh"), F.glu(x), F.softmin(x, -1), F.log_softmax(x, 0),
              F.threshold(x, 0.1, 2.0), F.prelu(x, torch.tensor(0.2)), F.normalize(x), F.cosine_similarity(x, x.flip(0))], 4, 6)

@case
def functions():
    names = "exp expm1 exp2 sin cos tan sinh cosh tanh atan asinh erf erfc sigmoid square neg sign sgn floor ceil round trunc frac".split()
    positive = "log log1p log2 log10 sqrt rsqrt reciprocal lgamma digamma".split()
    inside = "asin acos atanh erfinv".split()
    def run(x):
        y, z = x.abs() + 0.5, x.tanh() * 0.5
        found = [getattr(torch, name)(x) for name in names] + [getattr(torch, name)(y) for name in positive]
        found += [getattr(torch, name)(z) for name in inside]
        return found + [y.pow(x), 2.0**x, x**3, y**-0.5, torch.atan2(x, y), torch.hypot(x, y), torch.fmod(x, 0.7), torch.remainder(x, 0.7),
                        torch.div(x, 0.7, rounding_mode="trunc"), torch.copysign(y, x), torch.logaddexp(x, y), torch.xlogy(x, y),
                        torch.sinc(x), torch.logit(torch.sigmoid(x)), torch.rsub(x, 2.0, alpha=3)]
    return of(run, 3, 4)

@case
def whole_numbers():
    def run(self, x, n):
        return self.w * x * ((n // 3 + n % 4 - (n & 5) + (n | 2) + (n ^ 3) + (n << 1) + (n >> 1) + ~n).float() + n.float() / 3
                             + torch.floor_divide(n, -2) + (n > 2) + (n.bool() & True).float())
    return Does(run, w=weight(6)), (torch.randn(6), torch.tensor([-7, -1, 0, 3, 5, 8]))

@case
def counted_and_made():
    def run(self, x):
        n = x.shape[1]
        return (self.w * x + torch.arange(n) / n, self.w * torch.linspace(0, 1, n), x * torch.eye(n)[0] * self.w, torch.ones_like(x) * self.w,
                self.w * x.new_full((n,), 2), F.one_hot(torch.arange(n), n).float() @ self.w, self.w * torch.tensor([1.0, 2.0, 3.0, 4.0]),
                torch.bucketize(x, torch.tensor([-1.0, 0.0, 1.0])).float() * self.w)
    return Does(run, w=weight(4)), torch.randn(3, 4)

@case
def mixed_types():
    def run(self, x, n):
        w = self.w.bfloat16()
        return (w * 2.5 + n, (w.float() * x.double()).float(), x.half() * 3, w @ w.t(), n * 0.5 * self.w[0, 0], (x > 0) * self.w, torch.tensor(2) * w,
                F.layer_norm(w, (4,)), w.softmax(-1), w.sum(), F.gelu(w), F.silu(w), w.mean(0))
    return Does(run, w=weight(4, 4)), (torch.randn(4, 4), torch.arange(4))

@case
def autocast():
    def run(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.second(F.gelu(self.first(x))).float()
    return Does(run, first=nn.Linear(4, 8), second=nn.Linear(8, 3)), torch.randn(2, 4)

@case
def linear_algebra():
    def run(self, x):
        a = x @ x.t() + torch.eye(3) * self.w.abs()
        return torch.trace(a), a.tril()
    return Does(run, w=weight(1)), torch.randn(3, 3)

# Losses.

@case
def losses():
    def run(self, x, target, classes):
        w = self.w * x
        return [F.mse_loss(w, target), F.l1_loss(w, target), F.smooth_l1_loss(w, target), F.huber_loss(w, target, delta=0.5),
                F.binary_cross_entropy_with_logits(w, target.sigmoid()), F.binary_cross_entropy(w.sigmoid(), target.sigmoid()),
                F.kl_div(w.log_softmax(1), target.softmax(1), reduction="batchmean"), F.poisson_nll_loss(w, target.abs()),
                F.cross_entropy(w, classes), F.cross_entropy(w, classes, label_smoothing=0.1),
                F.cross_entropy(w, target.softmax(1)), F.nll_loss(w.log_softmax(1), classes, weight=torch.arange(1.0, 6.0), ignore_index=2),
                F.multi_margin_loss(w, classes), F.soft_margin_loss(w, target.sign()), F.hinge_embedding_loss(w, target.sign()),
                F.cosine_embedding_loss(w, target, torch.ones(4)), F.triplet_margin_loss(w, target, target.flip(0)),
                F.margin_ranking_loss(w[:, 0], w[:, 1], torch.ones(4)), F.cross_entropy(w.reshape(2, 5, 2), classes.reshape(2, 2)),
                F.cross_entropy(w, classes, reduction="none", ignore_index=1)]
    return Does(run, w=weight(4, 5)), (torch.randn(4, 5), torch.randn(4, 5), torch.tensor([0, 4, 2, 1]))

@case
def ctc():
    """Targets of all lengths, with letters twice in a row."""
    def run(self, scores, target, steps, lengths):
        scores = (self.w * scores).log_softmax(2)
        every = F.ctc_loss(scores, target, steps, lengths, reduction="none", zero_infinity=True)
        return every, F.ctc_loss(scores, target, steps, torch.tensor([2, 1, 0, 3]), blank=4)

    target = torch.tensor([[1, 1, 2], [3, -1, -1], [-1, -1, -1], [2, 2, 2]])
    batch = {"scores": torch.randn(7, 4, 5), "target": target, "steps": torch.tensor([7, 5, 6, 5]), "lengths": torch.tensor([3, 1, 0, 3])}
    return Does(run, w=weight(7, 4, 5)), batch

@case
def ctc_without_a_way():
    def run(self, scores, target, steps, lengths):
        return F.ctc_loss((self.w * scores).log_softmax(2), target, steps, lengths, reduction="none", zero_infinity=True)

    target = torch.tensor([[1, 1, 2], [3, 1, 2]])
    return Does(run, w=weight(3, 2, 5)), {"scores": torch.randn(3, 2, 5), "target": target, "steps": torch.tensor([3, 3]), "lengths": torch.tensor([3, 3])}

# What goes in and comes out.

@dataclasses.dataclass
class Output:
    loss: torch.Tensor
    hidden: torch.Tensor


torch.utils._pytree.register_dataclass(Output) if hasattr(torch.utils._pytree, "register_dataclass") else None


@case
def dictionary_in_and_out():
    def run(self, x, *, scale, options=None):
        hidden = self.inner(x) * scale["by"]
        return {"hidden": hidden, "all": [hidden + options, {"more": hidden * 2}]}
    return Does(run, inner=nn.Linear(3, 4)), {"x": torch.randn(2, 3), "scale": {"by": torch.tensor(2.0)}, "options": 3}

@case
def dataclass_out():
    return Does(lambda self, x: Output(self.inner(x).sum(), self.inner(x)), inner=nn.Linear(3, 4)), torch.randn(2, 3)

@case
def buffers_that_change():
    def run(self, x):
        self.count += 1
        self.average.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.w * (x - self.average) / self.count
    return Does(run, w=weight(4), average=torch.randn(4), count=torch.tensor(3.0)), torch.randn(2, 4)

@case
def frozen_and_unused():
    model = Does(lambda self, x: self.used(self.frozen(x)), used=nn.Linear(4, 4), frozen=nn.Linear(4, 4), unused=nn.Linear(4, 4))
    model.frozen.requires_grad_(False)
    return model, torch.randn(2, 4)

@case
def tensors_in_attributes():
    model = Does(lambda self, x: self.inner(x) * self.held[0], inner=nn.Linear(4, 4))
    model.held = [torch.randn(4)]
    return model, torch.randn(2, 4)

@case
def checkpointed():
    def run(self, x):
        return torch.utils.checkpoint.checkpoint(lambda y: torch.tanh(self.inner(y)), x, use_reentrant=False)
    return Does(run, inner=nn.Linear(4, 4)), torch.randn(2, 4)

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x * 3

@case
def own_function():
    return Does(lambda self, x: Doubled.apply(self.inner(x)), inner=nn.Linear(4, 4)), torch.randn(2, 4)

@case
def branches_on_shapes():
    def run(self, x):
        for index in range(x.shape[0]):
            x = self.inner(x) if index % 2 else x.sin()
        return x if x.ndim == 2 else x.flatten(1)
    return Does(run, inner=nn.Linear(4, 4)), torch.randn(3, 4)

@case
def cuts_where_tensors_say():
    def run(self, x):
        return self.inner(x) * self.w[4 - self.held[0] : 4 + self.held[0]]
    model = Does(run, inner=nn.Linear(4, 4), w=weight(8, 4))
    model.held = [torch.tensor(2)]
    return model, torch.randn(4, 4)

@case
def gradients_inside():
    def run(self, x):
        with torch.enable_grad():
            y = x.clone().requires_grad_()
            energy = self.inner(y).tanh().sum()
            (force,) = torch.autograd.grad(energy, y, create_graph=True)
        return force
    return Does(run, inner=nn.Linear(4, 4)), torch.randn(3, 4)

@case
def mapped():
    def run(self, x):
        return torch.vmap(lambda row: (row * self.w).softmax(0))(x)
    return Does(run, w=weight(4)), torch.randn(3, 4)
