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
    held = list(model.named_parameters(remove_duplicate=False))
    tolerance = 2e-2 if name in ("autocast", "mixed_types") else 1e-4
    comparison = mw.torch.check(model, batch, modules.loss, tolerance=tolerance)
    assert comparison, str(comparison)
    assert all(one is other for (_, one), (_, other) in zip(held, model.named_parameters(remove_duplicate=False)))
