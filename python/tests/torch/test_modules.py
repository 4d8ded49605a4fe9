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
    comparison = mw.torch.check(model, batch, modules.loss)
    assert comparison, str(comparison)
