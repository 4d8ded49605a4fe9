"""Profiles of captured models beside what PyTorch itself needs."""

import sys
from pathlib import Path

import pytest
import transformers

sys.path.append(str(Path(__file__).parents[2] / "benches"))
import torch
import torch_capture

import meshwright as mw

# PyTorch's counter of 2.13 leaves out a part of attention.
COUNTS_ATTENTION = torch.__version__ >= (2, 15)


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "t5", "resnet50", "unet"])
def test_profile_is_what_the_allocator_sees(name):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    case = torch_capture.MEASURED[name]()
    saved, peak, flops = torch_capture.measured(case)
    profile = mw.torch.profile(case.model, case.batch, case.loss_fn)
    assert profile.flops == flops or not COUNTS_ATTENTION and profile.flops > flops
    assert profile.saved_activation_bytes == pytest.approx(saved, rel=0.01)
    assert profile.forward_backward_peak_bytes == pytest.approx(peak, rel=0.03)
    assert "parameters" in str(profile)


SMALL = {"num_hidden_layers": 2, "hidden_size": 64, "vocab_size": 256}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 128}


def qwen3():
    """Heads are normed, by weights that are repeated for all of them."""
    return torch_capture.causal(transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SMALL, **HEADS)), 256, 4, 32)


def mamba():
    """It has one form that runs, and another one for compilers."""
    return torch_capture.causal(transformers.MambaForCausalLM(transformers.MambaConfig(**SMALL, state_size=8)), 256, 4, 32)


def groups():
    """The counter takes gradients of kernels in groups for those of whole ones, also where images are small."""
    convolutions = [torch.nn.Conv2d(8, 16, 5, 2, 2, groups=4), torch.nn.ConvTranspose2d(16, 8, 3, 2, 1, 1, groups=2)]
    model = torch.nn.Sequential(*convolutions, torch.nn.Conv2d(8, 8, 3, padding=1, groups=8))
    return torch_capture.models.Case(model, torch.randn(2, 8, 4, 4), lambda output: output.square().mean())


@pytest.mark.parametrize("make", [qwen3, mamba, groups])
def test_other_models_are_what_pytorch_sees(make):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    case = make()
    saved, peak, flops = torch_capture.measured(case)
    profile = mw.torch.profile(case.model, case.batch, case.loss_fn)
    assert profile.flops == flops or not COUNTS_ATTENTION and profile.flops > flops
    assert profile.saved_activation_bytes == saved
    # Gradients of Mamba's steps are added up in place, which profiles do not know; scratch of kernels in groups neither.
    assert make is not qwen3 or profile.forward_backward_peak_bytes == pytest.approx(peak, rel=0.03)
