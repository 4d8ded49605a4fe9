"""The built-in models once more, in plain PyTorch.

A twin is a module whose parameters have the names of the built-in model, but for `.weight` where that says
`.scale`; it takes the batch in the order of the built-in model and gives the loss. `settings` are those of the
built-in model, as attributes.
"""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint


def parameter(*sizes):
    return nn.Parameter(torch.randn(sizes) / math.sqrt(sizes[-1]))


def fused_attention(query, key, value, causal):
    return F.scaled_dot_product_attention(query, key, value, is_causal=causal, enable_gqa=True)


def plain_attention(query, key, value, causal):
    share = query.shape[1] // key.shape[1]
    if share > 1:
        key, value = (x.repeat_interleave(share, dim=1) for x in (key, value))
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -math.inf)
    return scores.softmax(dim=-1) @ value


ATTENTION = {"fused": fused_attention, "plain": plain_attention}


def heads(x, count):
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def merged(x):
    return x.transpose(1, 2).flatten(2)


class JointAttention(nn.Module):
    """Queries, keys and values by one projection."""

    def __init__(self, settings, causal):
        super().__init__()
        self.settings, self.causal = settings, causal
        self.qkv = nn.Linear(settings.hidden, 3 * settings.hidden)
        self.out = nn.Linear(settings.hidden, settings.hidden)

    def forward(self, x):
        query, key, value = (heads(part, self.settings.heads) for part in self.qkv(x).chunk(3, dim=-1))
        return self.out(merged(ATTENTION[self.settings.attention](query, key, value, self.causal)))


class FeedForward(nn.Module):
    def __init__(self, settings, approximate):
        super().__init__()
        self.approximate = approximate
        self.up = nn.Linear(settings.hidden, settings.ffn)
        self.down = nn.Linear(settings.ffn, settings.hidden)

    def forward(self, x):
        return self.down(F.gelu(self.up(x), approximate=self.approximate))


class Block(nn.Module):
    """A layer of GPT or ViT: norms come before the parts."""

    def __init__(self, settings, causal, approximate, epsilon):
        super().__init__()
        self.norm1 = nn.LayerNorm(settings.hidden, epsilon)
        self.attn = JointAttention(settings, causal)
        self.norm2 = nn.LayerNorm(settings.hidden, epsilon)
        self.mlp = FeedForward(settings, approximate)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Stack(nn.ModuleList):
    """Layers one after the other, computed again in the backward pass where that is set."""

    def __init__(self, settings, layers):
        super().__init__(layers)
        self.remat = settings.remat

    def forward(self, x, *context):
        for layer in self:
            x = checkpoint(layer, x, *context, use_reentrant=False) if self.remat else layer(x, *context)
        return x


def token_batch(settings):
    tokens = torch.randint(settings.vocab, (2, settings.batch, settings.seq))
    return tokens[0].clone(), tokens[1].clone()


def token_losses(logits, targets, **options):
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), **options)


class Gpt(nn.Module):
    batch = staticmethod(token_batch)

    def __init__(self, settings):
        super().__init__()
        self.embedding = parameter(settings.vocab, settings.hidden)
        self.positions = parameter(settings.seq, settings.hidden)
        self.layers = Stack(settings, (Block(settings, True, "tanh", 1e-5) for _ in range(settings.layers)))
        self.norm = nn.LayerNorm(settings.hidden)
        self.head = None if settings.tied else nn.Linear(settings.hidden, settings.vocab, bias=False)

    def forward(self, tokens, targets):
        x = self.layers(F.embedding(tokens, self.embedding) + self.positions)
        x = self.norm(x)
        return token_losses(F.linear(x, self.embedding) if self.head is None else self.head(x), targets)


class BertAttention(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.query, self.key, self.value, self.out = (nn.Linear(settings.hidden, settings.hidden) for _ in range(4))

    def forward(self, x):
        parts = (heads(part(x), self.settings.heads) for part in (self.query, self.key, self.value))
        return self.out(merged(ATTENTION[self.settings.attention](*parts, False)))


class BertBlock(nn.Module):
    """Norms come after the sums."""

    def __init__(self, settings):
        super().__init__()
        self.attn = BertAttention(settings)
        self.norm1 = nn.LayerNorm(settings.hidden, 1e-12)
        self.mlp = FeedForward(settings, "none")
        self.norm2 = nn.LayerNorm(settings.hidden, 1e-12)

    def forward(self, x):
        x = self.norm1(x + self.attn(x))
        return self.norm2(x + self.mlp(x))


class BertHead(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.transform = nn.Linear(settings.hidden, settings.hidden)
        self.norm = nn.LayerNorm(settings.hidden, 1e-12)
        self.bias = parameter(settings.vocab)

    def forward(self, x, embedding):
        return F.linear(self.norm(F.gelu(self.transform(x))), embedding, self.bias)


class Bert(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.embedding = parameter(settings.vocab, settings.hidden)
        self.positions = parameter(settings.seq, settings.hidden)
        self.segments = parameter(2, settings.hidden)
        self.norm = nn.LayerNorm(settings.hidden, 1e-12)
        self.layers = Stack(settings, (BertBlock(settings) for _ in range(settings.layers)))
        self.head = BertHead(settings)

    @staticmethod
    def batch(settings):
        tokens, targets = token_batch(settings)
        return tokens, torch.randint(2, tokens.shape), targets, torch.randint(2, tokens.shape).float()

    def forward(self, tokens, segments, targets, mask):
        x = F.embedding(tokens, self.embedding) + self.positions + F.embedding(segments, self.segments)
        logits = self.head(self.layers(self.norm(x)), self.embedding)
        losses = token_losses(logits, targets, reduction="none")
        return (losses * mask.flatten()).sum() / mask.sum()


def rotation(settings):
    """Cosines and sines of (seq, width / 2)."""
    width = settings.head_width
    frequency = settings.rope_theta ** (torch.arange(width // 2) * (-2 / width))
    angle = torch.outer(torch.arange(settings.seq).float(), frequency)
    return angle.cos(), angle.sin()


def rotated(x, cosine, sine):
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], dim=-1)


class LlamaAttention(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        inner, shared = (count * settings.head_width for count in (settings.heads, settings.kv_heads))
        self.query = nn.Linear(settings.hidden, inner, bias=False)
        self.key = nn.Linear(settings.hidden, shared, bias=False)
        self.value = nn.Linear(settings.hidden, shared, bias=False)
        self.out = nn.Linear(inner, settings.hidden, bias=False)

    def forward(self, x, cosine, sine):
        query = rotated(heads(self.query(x), self.settings.heads), cosine, sine)
        key = rotated(heads(self.key(x), self.settings.kv_heads), cosine, sine)
        value = heads(self.value(x), self.settings.kv_heads)
        return self.out(merged(ATTENTION[self.settings.attention](query, key, value, True)))


class GatedFeedForward(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.gate = nn.Linear(settings.hidden, settings.ffn, bias=False)
        self.up = nn.Linear(settings.hidden, settings.ffn, bias=False)
        self.down = nn.Linear(settings.ffn, settings.hidden, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class LlamaBlock(nn.Module):
    def __init__(self, settings):
        super().__init__()
        self.norm1 = nn.RMSNorm(settings.hidden, 1e-5)
        self.attn = LlamaAttention(settings)
        self.norm2 = nn.RMSNorm(settings.hidden, 1e-5)
        self.mlp = GatedFeedForward(settings)

    def forward(self, x, cosine, sine):
        x = x + self.attn(self.norm1(x), cosine, sine)
        return x + self.mlp(self.norm2(x))


class Llama(nn.Module):
    batch = staticmethod(token_batch)

    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.embedding = parameter(settings.vocab, settings.hidden)
        self.layers = Stack(settings, (LlamaBlock(settings) for _ in range(settings.layers)))
        self.norm = nn.RMSNorm(settings.hidden, 1e-5)
        self.head = nn.Linear(settings.hidden, settings.vocab, bias=False)

    def forward(self, tokens, targets):
        x = self.layers(F.embedding(tokens, self.embedding), *rotation(self.settings))
        return token_losses(self.head(self.norm(x)), targets)


def image_batch(settings):
    images = torch.randn(settings.batch, 3, settings.image, settings.image)
    return images, torch.randint(settings.classes, (settings.batch,))


class Vit(nn.Module):
    batch = staticmethod(image_batch)

    def __init__(self, settings):
        super().__init__()
        count = (settings.image // settings.patch) ** 2
        self.patch = nn.Conv2d(3, settings.hidden, settings.patch, settings.patch)
        self.register_parameter("class", parameter(settings.hidden))
        self.positions = parameter(count + 1, settings.hidden)
        self.layers = Stack(settings, (Block(settings, False, "none", 1e-6) for _ in range(settings.layers)))
        self.norm = nn.LayerNorm(settings.hidden, 1e-6)
        self.head = nn.Linear(settings.hidden, settings.classes)

    def forward(self, images, labels):
        patches = self.patch(images).flatten(2).transpose(1, 2)
        token = self.get_parameter("class").expand(len(images), 1, -1)
        x = self.layers(torch.cat([token, patches], dim=1) + self.positions)
        return F.cross_entropy(self.head(self.norm(x[:, 0])), labels)


def convolution(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False)


class Unit(nn.Module):
    """A convolution and the norm behind it."""

    def __init__(self, inputs, outputs, size, stride):
        super().__init__()
        self.conv = convolution(inputs, outputs, size, stride)
        self.norm = nn.BatchNorm2d(outputs)

    def forward(self, x):
        return self.norm(self.conv(x))


class ResidualBlock(nn.Module):
    """Convolutions by rows of (outputs, size, stride), beside a shortcut."""

    def __init__(self, inputs, rows):
        super().__init__()
        self.count = len(rows)
        stride, width = math.prod(row[2] for row in rows), inputs
        for index, (outputs, size, step) in enumerate(rows):
            self.add_module(f"conv{index}", convolution(width, outputs, size, step))
            self.add_module(f"norm{index}", nn.BatchNorm2d(outputs))
            width = outputs
        self.shortcut = None if stride == 1 and inputs == width else Unit(inputs, width, 1, stride)

    def forward(self, x):
        y = x
        for index in range(self.count):
            y = self.get_submodule(f"norm{index}")(self.get_submodule(f"conv{index}")(y))
            if index < self.count - 1:
                y = F.relu(y)
        return F.relu((x if self.shortcut is None else self.shortcut(x)) + y)


def bottleneck_rows(settings, channels, stride):
    return [(channels, 1, 1), (channels * settings.width, 3, stride), (4 * channels, 1, 1)]


def basic_rows(settings, channels, stride):
    return [(channels, 3, stride), (channels, 3, 1)]


class Resnet(nn.Module):
    batch = staticmethod(image_batch)
    rows_of_block = staticmethod(bottleneck_rows)
    groups_of_depth = {50: [3, 4, 6, 3]}

    def __init__(self, settings):
        super().__init__()
        self.stem = Unit(3, settings.channels, 7, 2)
        self.groups = nn.ModuleList()
        inputs = settings.channels
        for group, blocks in enumerate(self.groups_of_depth.get(settings.layers, [settings.layers] * 4)):
            built = nn.ModuleList()
            for block in range(blocks):
                stride = 2 if group > 0 and block == 0 else 1
                rows = self.rows_of_block(settings, settings.channels << group, stride)
                built.append(ResidualBlock(inputs, rows))
                inputs = rows[-1][0]
            self.groups.append(built)
        self.head = nn.Linear(inputs, settings.classes)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.stem(images)), 3, 2, 1)
        for group in self.groups:
            for block in group:
                x = block(x)
        return F.cross_entropy(self.head(x.mean(dim=(2, 3))), labels)


class BasicResnet(Resnet):
    """With blocks of two convolutions, as ResNet-18 and ResNet-34 have them."""

    rows_of_block = staticmethod(basic_rows)
    groups_of_depth = {18: [2, 2, 2, 2], 34: [3, 4, 6, 3]}
