"""Small modules that do odd things compute what PyTorch computes."""

import modules
import pytest
import torch

import meshwright as mw


@pytest.mark.filterwarnings("error:.*is not known")
@pytest.mark.parametrize("name", modules.CASES)
def test_module(name):
    torch.manual_seed(0)
    model, batch = modules.CASES[name]()
    # Numbers of 16 bits differ by their last one.
    tolerance = 2e-2 if name in ("autocast", "mixed_types") else 1e-4
    comparison = mw.torch.check(model, batch, modules.loss, tolerance=tolerance)
    assert comparison, str(comparison)
