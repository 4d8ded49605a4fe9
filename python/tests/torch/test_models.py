"""Programs of whole models compute what PyTorch computes: loss, gradients and buffers."""

import models
import pytest
import torch

import meshwright as mw
from meshwright.torch.capture import loss_of
from meshwright.torch.rounding import rounding_alone

# The reference interpreter knows no complex numbers; these run in `test_running.py`.
COMPLEX = {"fnet", "spectrum"}


@pytest.mark.parametrize("name", sorted(models.MODELS.keys() - COMPLEX))
def test_loss_and_gradients_are_those_of_pytorch(name):
    torch.manual_seed(0)
    case = models.MODELS[name]()
    is_wide = all(parameter.dtype == torch.float64 for parameter in case.model.parameters())
    comparison = mw.torch.check(case.model, case.batch, case.loss_fn, tolerance=1e-9 if is_wide else 1e-4)
    assert comparison, comparison


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", models.MODELS)
def test_models_import_whole(name):
    """Every op is known: warnings are errors here. Weights need not be there, and the update is part of the step."""
    with torch.device("meta"):
        case = models.MODELS[name]()
    model = case.model
    optimizer = torch.optim.AdamW(model.parameters())
    captured = mw.torch.capture(model, case.batch, case.loss_fn, optimizer)
    assert not captured.unknown
    names = [name for name, _ in captured.program.arguments]
    # What is no part of the loss, as a pooler that nobody asks, has no state either.
    updated = [path for path, _ in model.named_parameters() if f"opt.exp_avg.{path}" in names]
    trained = mw.torch.capture(model, case.batch, case.loss_fn).program.results
    assert [f"grads.{path}" for path in updated] == [name for name, _ in trained if name.startswith("grads.")]
    for path, _ in model.named_parameters():
        assert f"params.{path}" in names


def roundings(case):
    """The parameters whose gradients are rounding alone."""
    loss_of(case.model(**case.batch), case.batch, case.loss_fn).backward()
    gradients = {path: parameter.grad for path, parameter in case.model.named_parameters() if parameter.grad is not None}
    return set(rounding_alone(case.model, case.batch, case.loss_fn, gradients))


def test_gradients_of_what_a_softmax_does_not_see_are_rounding_alone():
    torch.manual_seed(0)
    assert roundings(models.clip(8)) == {f"{model}_model.encoder.layers.0.self_attn.k_proj.bias" for model in ("text", "vision")}


def test_small_gradients_have_digits_of_their_own():
    class Faint(torch.nn.Linear):
        """Of its bias next to nothing is in what it gives."""

        def forward(self, input):
            return torch.nn.functional.linear(input, self.weight).square().sum() + 1e-9 * self.bias.square().sum()

    torch.manual_seed(0)
    case = models.Case(Faint(4, 4), {"input": torch.randn(8, 4)})
    assert roundings(case) == set()
    gradients = [parameter.grad.abs().max() for parameter in (case.model.weight, case.model.bias)]
    assert 0.0 < gradients[1] < 1e-6 * gradients[0]
