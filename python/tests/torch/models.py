"""Whole models as people use them, from their configurations and small enough for the reference interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torchvision
import transformers


class Case(NamedTuple):
    model: torch.nn.Module
    batch: Any
    loss_fn: Callable[..., Any] | None = None
    # The learning rate with which it is trained.
    rate: float = 1e-3


def _tokens(vocabulary: int = 32, batch: int = 2, length: int = 8) -> torch.Tensor:
    return torch.randint(0, vocabulary, (batch, length))


def gpt2(batch: int = 2) -> Case:
    config = transformers.GPT2Config(
        n_layer=2, n_embd=16, n_head=4, vocab_size=32, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    tokens = _tokens(batch=batch)
    return Case(transformers.GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens})


def deep(batch: int = 2) -> Case:
    """A GPT-2 of enough layers for some of them to be computed again."""
    config = transformers.GPT2Config(
        n_layer=6, n_embd=32, n_head=4, vocab_size=64, n_positions=16, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    tokens = _tokens(64, batch, 16)
    return Case(transformers.GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens})


def bert(batch: int = 2) -> Case:
    config = transformers.BertConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=4, intermediate_size=32, vocab_size=32,
        max_position_embeddings=16, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    tokens, labels = _tokens(batch=batch), _tokens(batch=batch)
    labels[0, :3] = -100
    mask = torch.ones_like(tokens)
    mask[1, -2:] = 0
    return Case(
        transformers.BertForMaskedLM(config), {"input_ids": tokens, "labels": labels, "attention_mask": mask}
    )


def llama(batch: int = 2) -> Case:
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        vocab_size=32,
    )  # fmt: skip
    tokens = _tokens(batch=batch)
    return Case(transformers.LlamaForCausalLM(config), {"input_ids": tokens, "labels": tokens})


def mixtral(batch: int = 2) -> Case:
    config = transformers.MixtralConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        vocab_size=32, num_local_experts=4, output_router_logits=True,
    )  # fmt: skip
    tokens = _tokens(batch=batch)
    return Case(transformers.MixtralForCausalLM(config), {"input_ids": tokens, "labels": tokens})


def qwen_moe(batch: int = 2) -> Case:
    """Experts whose loads are no part of the loss."""
    config = transformers.Qwen2MoeConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, intermediate_size=32,
        moe_intermediate_size=16, shared_expert_intermediate_size=16, vocab_size=32, num_experts=4, num_experts_per_tok=2,
    )  # fmt: skip
    tokens = _tokens(batch=batch)
    return Case(transformers.Qwen2MoeForCausalLM(config), {"input_ids": tokens, "labels": tokens})


def gpt_oss(batch: int = 2) -> Case:
    """Experts with biases, whose matrices lie the other way and whose gates are every other column."""
    config = transformers.GptOssConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=16,
        vocab_size=32, num_local_experts=4, num_experts_per_tok=2, sliding_window=4, pad_token_id=0, eos_token_id=1,
        layer_types=["sliding_attention", "full_attention"],
    )  # fmt: skip
    tokens = _tokens(batch=batch)
    return Case(transformers.GptOssForCausalLM(config), {"input_ids": tokens, "labels": tokens})


def fnet(batch: int = 2) -> Case:
    """Fourier transforms in the place of attention."""
    config = transformers.FNetConfig(
        num_hidden_layers=2, hidden_size=16, intermediate_size=32, vocab_size=32, max_position_embeddings=16,
        hidden_dropout_prob=0,
    )  # fmt: skip
    return Case(transformers.FNetForMaskedLM(config), {"input_ids": _tokens(batch=batch), "labels": _tokens(batch=batch)})


def clip(batch: int = 2) -> Case:
    """A loss that compares all samples with each other. Biases of keys have no gradient but roundings."""
    text = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "vocab_size": 32, "max_position_embeddings": 16, "eos_token_id": 31, "bos_token_id": 30, "pad_token_id": 1}
    vision = {"num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 16, "patch_size": 4}
    model = transformers.CLIPModel(transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=8))
    images = torch.randn(batch, 3, 16, 16)
    return Case(model, {"input_ids": _tokens(batch=batch), "pixel_values": images, "return_loss": True})


def t5(batch: int = 2) -> Case:
    config = transformers.T5Config(
        num_layers=2, d_model=16, d_kv=8, num_heads=2, d_ff=32, vocab_size=32, dropout_rate=0,
        decoder_start_token_id=0,
    )  # fmt: skip
    return Case(transformers.T5ForConditionalGeneration(config), {"input_ids": _tokens(batch=batch), "labels": _tokens(batch=batch)})


def vit(batch: int = 2) -> Case:
    config = transformers.ViTConfig(
        num_hidden_layers=2, hidden_size=16, num_attention_heads=2, intermediate_size=32, image_size=16, patch_size=4,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=5,
    )  # fmt: skip
    inputs = {"pixel_values": torch.randn(batch, 3, 16, 16), "labels": torch.arange(1, batch + 1) % 5}
    return Case(transformers.ViTForImageClassification(config), inputs)


def _classes(output: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(output, torch.arange(output.shape[0]) % 5)


def resnet50(batch: int = 2) -> Case:
    # At its start, PyTorch's own gradients in f32 are off by up to a third from those in f64: where a norm is taken over
    # few places, roundings decide which of the activations are on. At a rate of 1e-3 what two ways to add differ by grows a
    # hundredfold from step to step. Of images of 33 the last norms have four places of each; of 32 they have one, and one
    # rounding of an image then moves PyTorch's own gradients in f64 by 1e-4.
    model = torchvision.models.resnet50(num_classes=5).double()
    return Case(model, (torch.randn(batch, 3, 33, 33).double(),), _classes, rate=1e-6)


class Narrow(torchvision.models.ResNet):
    """A ResNet of the same kinds of blocks, with an eighth of their channels and fewer of each."""

    def __init__(self, classes: int) -> None:
        super().__init__(torchvision.models.resnet.Bottleneck, [2, 2, 1, 1])
        self.fc = torch.nn.Linear(256, classes)

    def _make_layer(self, block: Any, planes: int, *args: Any, **kwargs: Any) -> torch.nn.Sequential:
        return super()._make_layer(block, planes // 8, *args, **kwargs)


def resnet(batch: int = 2) -> Case:
    return Case(Narrow(5).double(), (torch.randn(batch, 3, 33, 33).double(),), _classes, rate=1e-6)


class Twice(torch.nn.Sequential):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            torch.nn.Conv2d(inputs, outputs, 3, padding=1),
            torch.nn.GroupNorm(2, outputs),
            torch.nn.SiLU(),
            torch.nn.Conv2d(outputs, outputs, 3, padding=1),
            torch.nn.BatchNorm2d(outputs),
            torch.nn.ReLU(inplace=True),
        )


class UNet(torch.nn.Module):
    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.first, self.second, self.third = Twice(3, width), Twice(width, 2 * width), Twice(2 * width, 4 * width)
        self.pool = torch.nn.MaxPool2d(2)
        self.up_second = torch.nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.back_second = Twice(4 * width, 2 * width)
        self.up_first = torch.nn.Upsample(scale_factor=2, mode="bilinear")
        self.narrow = torch.nn.Conv2d(2 * width, width, 1)
        self.back_first = Twice(2 * width, width)
        self.head = torch.nn.Conv2d(width, 2, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        first = self.first(image)
        second = self.second(self.pool(first))
        third = self.third(self.pool(second))
        second = self.back_second(torch.cat([self.up_second(third), second], 1))
        first = self.back_first(torch.cat([self.narrow(self.up_first(second)), first], 1))
        return self.head(first)


def unet(batch: int = 2) -> Case:
    # Biases before norms have no gradient but roundings, which are there in f32.
    return Case(UNet().double(), torch.randn(batch, 3, 16, 16).double(), lambda output: output.square().mean())


def _square(output: torch.Tensor) -> torch.Tensor:
    return output.square().mean()


def encoder(batch: int = 2) -> Case:
    """Attention that puts sequences before batches on its way."""
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    inner = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
    # The square of what was normalized is always the same.
    model = torch.nn.Sequential(inner, torch.nn.Linear(16, 4))
    return Case(model, torch.randn(batch, 6, 16), _square)


class Recurrent(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.head = torch.nn.LSTM(8, 16, 2, batch_first=True), torch.nn.Linear(16, 4)

    def forward(self, sequence: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(sequence)[0])


def lstm(batch: int = 2) -> Case:
    return Case(Recurrent(), torch.randn(batch, 6, 8), _square)


class Second(torch.nn.Module):
    """Samples along the second dimension, as PyTorch's own layers have them unless told otherwise."""

    def __init__(self) -> None:
        super().__init__()
        self.attends = torch.nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0)
        self.inner, self.head = torch.nn.LSTM(16, 16), torch.nn.Linear(16, 4)

    def forward(self, sequence: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        last = self.inner(self.attends(sequence))[0][-1]
        return torch.nn.functional.cross_entropy(self.head(last), labels)


def second(batch: int = 2) -> Case:
    return Case(Second(), {"sequence": torch.randn(6, batch, 16), "labels": torch.arange(batch) % 4})


def convnext(batch: int = 2) -> Case:
    block = torchvision.models.convnext.CNBlockConfig
    model = torchvision.models.ConvNeXt([block(8, 16, 1), block(16, None, 1)], num_classes=5)
    return Case(model, torch.randn(batch, 3, 32, 32), _square)


class Translator(torch.nn.Module):
    """Attention of one sequence to another, both with one table of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32)
        self.inner = torch.nn.Transformer(16, 4, 2, 2, 32, dropout=0.0, batch_first=True)

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = torch.nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        made = self.head(self.inner(self.table(source), self.table(target), tgt_mask=mask))
        return torch.nn.functional.cross_entropy(made.flatten(0, 1), target.flatten())


def translator(batch: int = 2) -> Case:
    return Case(Translator(), {"source": _tokens(batch=batch, length=6), "target": _tokens(batch=batch, length=5)})


class Shared(torch.nn.Module):
    """A layer at two places, and a head that is the table of embeddings."""

    def __init__(self) -> None:
        super().__init__()
        layer = torch.nn.Linear(16, 16)
        self.table, self.head = torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32, bias=False)
        self.layers = torch.nn.ModuleList([layer, torch.nn.Linear(16, 16), layer])
        self.head.weight = self.table.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        made = self.table(tokens)
        for layer in self.layers:
            made = made + torch.tanh(layer(made))
        return torch.nn.functional.cross_entropy(self.head(made).flatten(0, 1), tokens.flatten())


def shared(batch: int = 2) -> Case:
    return Case(Shared(), _tokens(batch=batch))


class Einsum(torch.nn.Module):
    """Sequences before batches, in products that `einsum` makes of them: stacks of a single matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = torch.nn.Embedding(32, 16), torch.nn.Linear(16, 32)
        self.inner, self.outer = (torch.nn.Parameter(torch.randn(2, 16, 4, 4) / 4) for _ in range(2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        made = self.table(tokens.T)
        for inner, outer in zip(self.inner, self.outer):
            heads = torch.einsum("ibh,hnd->ibnd", made, inner)
            scores = torch.einsum("ibnd,jbnd->bnij", heads, heads).softmax(-1)
            made = made + torch.einsum("ibnd,hnd->ibh", torch.einsum("bnij,jbnd->ibnd", scores, heads), outer)
        return torch.nn.functional.cross_entropy(self.head(made).transpose(0, 1).flatten(0, 1), tokens.flatten())


def einsum(batch: int = 2) -> Case:
    return Case(Einsum(), _tokens(batch=batch))


class Bags(torch.nn.Module):
    """What recommends: sums of embeddings, and how these are to each other."""

    def __init__(self) -> None:
        super().__init__()
        self.bottom = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
        self.bags = torch.nn.ModuleList([torch.nn.EmbeddingBag(20, 8, mode="sum") for _ in range(3)])
        self.top = torch.nn.Sequential(torch.nn.Linear(14, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def forward(self, dense: torch.Tensor, chosen: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        first = self.bottom(dense)
        each = torch.stack([first, *(bag(chosen[:, number]) for number, bag in enumerate(self.bags))], 1)
        left, right = torch.tril_indices(4, 4, -1)
        pairs = torch.bmm(each, each.mT)[:, left, right]
        made = self.top(torch.cat([first, pairs], 1)).squeeze(1)
        return torch.nn.functional.binary_cross_entropy_with_logits(made, labels)


def bags(batch: int = 2) -> Case:
    inputs = {"dense": torch.randn(batch, 4), "chosen": torch.randint(0, 20, (batch, 3, 2)), "labels": torch.arange(batch) % 2.0}
    return Case(Bags(), inputs)


class Spectrum(torch.nn.Module):
    """Frequencies times numbers of their own, which are complex."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(2, 8), torch.nn.Linear(8, 1)
        self.inner = torch.nn.Parameter(torch.randn(2, 8, 8, 3, 3, 2) / 8)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        made = self.up(image).movedim(-1, 1)
        for inner in torch.view_as_complex(self.inner):
            waves = torch.fft.rfft2(made)
            kept = torch.zeros_like(waves)
            kept[:, :, :3, :3] = torch.einsum("bixy,ioxy->boxy", waves[:, :, :3, :3], inner) * (1 + 0.5j)
            made = torch.relu(torch.fft.irfft2(kept, s=made.shape[-2:]) + made)
        return self.down(made.movedim(1, -1))


def spectrum(batch: int = 2) -> Case:
    return Case(Spectrum(), torch.randn(batch, 8, 8, 2), _square)


class Remembers(torch.nn.Module):
    """Compares samples with those of earlier steps, which the forward pass overwrites and the backward pass reads."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))
        self.register_buffer("earlier", torch.nn.functional.normalize(torch.randn(16, 8), dim=-1))

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        made = torch.nn.functional.normalize(self.inner(input), dim=-1)
        own = torch.nn.functional.normalize(self.inner(input * 0.9), dim=-1).detach()
        scores = torch.cat([(made * own).sum(-1, keepdim=True), made @ self.earlier.mT.clone()], 1)
        self.earlier.copy_(torch.cat([own, self.earlier[: -len(own)]]))
        return torch.nn.functional.cross_entropy(5 * scores, torch.zeros(len(made), dtype=torch.int64))


def remembers(batch: int = 2) -> Case:
    return Case(Remembers(), torch.randn(batch, 8))


class Frozen(torch.nn.Module):
    """Large images go through layers that are not trained, and a small head learns."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.ReLU())
        self.inner.requires_grad_(False)
        self.middle, self.head = torch.nn.Linear(8, 16), torch.nn.Linear(16, 4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(torch.tanh(self.middle(self.inner(images).mean((2, 3)))))


def frozen(batch: int = 2) -> Case:
    return Case(Frozen(), torch.randn(batch, 3, 8, 8), _square)


MODELS = {make.__name__: make for make in (gpt2, deep, bert, llama, mixtral, qwen_moe, gpt_oss, fnet, clip, t5, vit, resnet50, resnet, unet, encoder, lstm, second, convnext, translator, shared, einsum, bags, spectrum, remembers, frozen)}
