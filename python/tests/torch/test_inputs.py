"""What cannot be captured or planned is refused with what is wrong and what to do."""

import pytest
import torch

import meshwright as mw


def network():
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))


def mean(output):
    return output.square().mean()


def frozen():
    return network().requires_grad_(False)


class Given:
    """A batch that PyTorch does not look into."""

    def __init__(self, tensor):
        self.tensor = tensor


BATCH = torch.zeros(4, 8)


@pytest.mark.parametrize(
    "model, batch, loss_fn, told",
    [
        (network(), torch.zeros(4, 9), mean, r"`Sequential\(<Tensor>\)` fails with `RuntimeError"),
        (network(), {"x": BATCH}, mean, r"`Sequential\(x=<Tensor>\)` fails with `TypeError"),
        (network(), [[BATCH]], mean, r"`Sequential\(<list>\)` fails with `TypeError"),
        (network(), BATCH.to_sparse(), mean, "`batch` has the layout `torch.sparse_coo`"),
        (network(), Given(BATCH), mean, "`batch` is a `Given`, whose tensor `tensor` would be no input"),
        (torch.nn.Embedding(8, 4, sparse=True), torch.zeros(4, dtype=torch.int64), mean, "a tensor of the layout `torch.sparse_coo`"),
        (network(), BATCH, None, "not a single number"),
        (network(), BATCH, lambda output: None, "not a single number"),
        (network(), BATCH, lambda output: output.nothing(), "`loss_fn` fails with `AttributeError"),
        (network(), BATCH, lambda output, batch, more: output, "`loss_fn` fails with `TypeError"),
        (torch.nn.LazyLinear(4), BATCH, mean, "`weight` has no shape yet"),
        (frozen(), BATCH, mean, "no parameter has a part in the loss"),
        (torch.nn.ReLU(), BATCH, mean, "no parameter has a part in the loss"),
        (mean, BATCH, None, "not a `torch.nn.Module`"),
    ],
)
@pytest.mark.parametrize("call", [mw.torch.capture, mw.torch.profile])
def test_models_and_batches_are_refused(call, model, batch, loss_fn, told):
    with pytest.raises(mw.Error, match=told):
        call(model, batch, loss_fn)


@pytest.mark.parametrize(
    "given, told",
    [
        ({"cluster": "8xzz9"}, "there is no device `zz9`"),
        ({"cluster": 8}, "the cluster is `int`"),
        ({"cluster": "nowhere.toml"}, "cannot read `nowhere.toml`"),
        ({"memory": "12 bananas"}, "cannot read `12 bananas`"),
        ({"memory": -5}, "cannot read `-5B`"),
        ({"memory": 1.5}, "cannot read `1.5`"),
        ({"mesh": {"data": 3}}, "4 devices"),
        ({"mesh": "data=x"}, "is no axis"),
        ({"engine": "steam"}, "there is no engine `steam`"),
        ({"microbatches": 0}, "at least one microbatch"),
        ({"microbatches": 3}, "not cut into 3"),
        ({"tactics": "nowhere.toml"}, "cannot read `nowhere.toml`"),
        ({"mesh": {"data": 4}, "tactics": [mw.data("model")]}, "there is no axis `model`"),
    ],
)
def test_wishes_are_refused(given, told):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(mw.Error, match=told):
        mw.torch.plan(model, optimizer, BATCH, mean, **{"cluster": "4xh100", **given})


class InGroups(torch.optim.SGD):
    """Counts steps where nobody would look for state."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["steps"] = group.get("steps", 0) + 1
        return super().step(closure)


@pytest.mark.parametrize(
    "make, told",
    [
        (lambda model: None, "not a `torch.optim.Optimizer`"),
        (lambda model: "adam", "not a `torch.optim.Optimizer`"),
        (lambda model: torch.optim.LBFGS(model.parameters()), "needs no closure"),
        (lambda model: torch.optim.SGD(network().parameters()), "parameters that the model does not have"),
        (lambda model: InGroups(model.parameters(), 0.1), "`InGroups` changes `steps` of its groups in every step"),
    ],
)
def test_optimizers_are_refused(make, told):
    model = network()
    with pytest.raises(mw.Error, match=told):
        mw.torch.plan(model, make(model), BATCH, mean, cluster="4xh100")



class FailsCompiled(torch.nn.Linear):
    def forward(self, input):
        if torch.compiler.is_compiling():
            raise ValueError("nobody has tried that")
        return super().forward(input)


def test_models_that_fail_where_they_are_compiled_are_taken_as_they_run():
    assert mw.torch.check(FailsCompiled(8, 4), BATCH + 1, mean)


@pytest.mark.parametrize("asked, words", [
    ({"other": 1}, "the batch has no tensor `other`"),
    ({"input": 3}, "`batch.input` has no dimension 3"),
    (-1, "`batch.input` has no dimension -1"),
])  # fmt: skip
def test_dimensions_of_samples_that_are_not_there_are_refused(asked, words):
    model = torch.nn.Linear(4, 4)
    with pytest.raises(mw.Error, match=f"batch_dim: {words}"):
        mw.torch.capture(model, {"input": torch.randn(3, 2, 4)}, mean, batch_dim=asked)


def test_samples_are_found_and_moved_to_the_front():
    class Mean(torch.nn.Linear):
        """Sequences, whose samples lie along the second dimension, less what they have in common."""

        def forward(self, input):
            return super().forward(input - input.mean(0))

    model, batch = Mean(4, 4), {"input": torch.randn(6, 8, 4)}
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def moved(**options):
        captured = mw.torch.capture(model, batch, mean, optimizer, **options)
        return captured.dims, dict(captured.program.arguments)["batch.input"]

    assert moved(batch_dim=None) == ({"batch.input": 1}, "tensor<8x6x4xf32>")
    assert moved(batch_dim=1) == moved(batch_dim={"input": 1}) == moved(batch_dim=None)
    assert moved() == ({}, "tensor<6x8x4xf32>")


def test_moved_samples_are_an_argument_and_nothing_else():
    """Also where they are too many to be written into the program."""
    model, batch = torch.nn.Linear(4, 4), {"input": torch.randn(6, 1000, 4)}
    captured = mw.torch.capture(model, batch, mean, batch_dim=1)
    assert not captured.constants
    assert [name for name, _ in captured.program.arguments] == ["params.weight", "params.bias", "batch.input"]


def test_a_step_is_captured_the_same_however_often():
    """What a model holds besides parameters outlives what recorded it."""
    model, batch = torch.nn.Linear(4, 4), torch.randn(8, 4)
    held = torch.randn(4)

    def loss(output):
        return (output * held).square().mean()

    texts = {mw.torch.capture(model, batch, loss).text for _ in range(10)}
    assert len(texts) == 1
