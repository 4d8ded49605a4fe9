"""Profiles of captured models beside what PyTorch itself needs."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benches"))
import torch
import torch_capture

import meshwright as mw


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "t5", "resnet50", "unet"])
def test_profile_is_what_the_allocator_sees(name):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    case = torch_capture.MEASURED[name]()
    saved, peak, flops = torch_capture.measured(case)
    profile = mw.torch.profile(case.model, case.batch, case.loss_fn)
    assert profile.flops == flops
    assert profile.saved_activation_bytes == pytest.approx(saved, rel=0.01)
    assert profile.forward_backward_peak_bytes == pytest.approx(peak, rel=0.03)
    assert "parameters" in str(profile)
