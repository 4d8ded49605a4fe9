"""Plans of modules, what they say to other tools, and what is refused."""

import json
import warnings

import models
import pytest
import torch
from optimizers import OPTIMIZERS

import meshwright as mw
from meshwright.torch import decompose
from meshwright.torch.plan import make_plan


def wide(layers=2):
    inner = [module for _ in range(layers) for module in (torch.nn.Linear(512, 512), torch.nn.ReLU())]
    with torch.device("meta"):
        return torch.nn.Sequential(*inner, torch.nn.Linear(512, 8))


def mean(output):
    return output.square().mean()


def planned(**options):
    model = wide()
    optimizer = torch.optim.AdamW(model.parameters())
    return mw.torch.plan(model, optimizer, torch.empty(64, 512, device="meta"), mean, **options)


def test_plans_are_like_those_of_other_engines(tmp_path):
    plan = planned(cluster="8xa100-80g")
    assert plan.engine == "pytorch"
    assert plan.peak_bytes <= plan.memory_limit
    plan.save(tmp_path / "plan.json")
    data = json.loads((tmp_path / "plan.json").read_text())
    names = [row["name"] for row in data["arguments"]]
    assert "params.0.weight" in names and "opt.exp_avg.4.bias" in names and "batch" in names


def test_tactics_decide_and_exports_tell():
    plan = planned(cluster="8xa100-80g", mesh={"data": 8}, tactics=[mw.data("data"), mw.zero3("data")])
    specs = plan.to_pspecs()
    assert "data" in specs["params.0.weight"]
    assert "data" in specs["opt.exp_avg.0.weight"]
    sharded = plan.to_fsdp2()
    assert sharded.mesh == {"data": 8}
    assert "0" in sharded.modules
    assert "fully_shard(model" in str(sharded)
    arguments = plan.to_megatron_args()
    assert arguments[:2] == ["--tensor-model-parallel-size", "1"]
    assert "--use-torch-fsdp2" in arguments
    assert not arguments.notes


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("runs", [False, True])
def test_matrices_that_are_updated_turned_have_stages(dtype, runs):
    layers = [module for sizes in ((8, 16), (16, 8)) for module in (torch.nn.Linear(*sizes, bias=False), torch.nn.Tanh())]
    model = torch.nn.Sequential(*layers).to(dtype)
    optimizer = torch.optim.Muon(model.parameters(), lr=0.1)
    options = {"mesh": {"data": 2}, "microbatches": 2, "cluster": "4xcpu", "runs": runs}
    for inner in (mw.data("data"), mw.auto()):
        plan = mw.torch.plan(model, optimizer, torch.zeros(8, 8, dtype=dtype), mean, tactics=[mw.stages(2), inner], **options)
        # All of the backward pass is one, and no part of the update.
        assert {stage for name, stage, *_ in plan.pieces if name.startswith("backward")} == {0, 1}


def test_buffers_that_another_stage_makes_are_refused():
    case = models.remembers(8)
    program = mw.torch.capture(case.model, case.batch, None, torch.optim.SGD(case.model.parameters(), 0.1), runs=True).program
    options = {"memory": None, "mesh": {"data": 2}, "microbatches": 1, "engine": "pytorch-cpu"}
    plan = make_plan(program, "4xcpu", tactics=[mw.stages(2), mw.data("data")], **options)
    names = [[name for name, _ in rows] for rows in (program.arguments, program.results)]
    with pytest.raises(mw.Error, match="holds `buffers.earlier` and never updates it\n\nhint: run the step without stages"):
        plan.piece_torch(0, *names)


def test_what_megatron_does_not_say_is_told():
    tactics = [mw.data("data"), mw.tile("model", {"params.0.weight": 0}), mw.tile("data", {"params.2.weight": 0})]
    plan = planned(cluster="8xa100-80g", mesh={"data": 4, "model": 2}, tactics=tactics)
    arguments = plan.to_megatron_args()
    assert arguments[:2] == ["--tensor-model-parallel-size", "2"]
    assert any("not cut for tensor parallelism; Megatron cuts all" in note for note in arguments.notes)
    assert any("not sharded over data; `--use-torch-fsdp2` shards all" in note for note in arguments.notes)
    assert "# " in str(arguments)


def test_megatron_tactics_are_tensor_parallel():
    case = models.gpt2()
    model = case.model.to("meta")
    plan = mw.torch.plan(
        model, torch.optim.AdamW(model.parameters()), case.batch, cluster="2xa100-80g", mesh={"model": 2},
        tactics=[mw.megatron("model")],
    )  # fmt: skip
    assert plan.to_megatron_args()[:2] == ["--tensor-model-parallel-size", "2"]
    assert plan.to_pspecs()["params.transformer.h.0.mlp.c_fc.weight"] == (None, "model")


class Gated(torch.nn.Module):
    """A gate and what it lets through, made by one matrix, as of layers of several models."""

    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 32), torch.nn.Linear(16, 8)

    def forward(self, x):
        gate, value = self.up(x).chunk(2, -1)
        return self.down(torch.sigmoid(gate) * value)


def test_megatron_tells_what_it_does_not_cut():
    model = Gated()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    tactics = {"mesh": {"model": 2}, "tactics": [mw.megatron("model")]}
    with pytest.raises(mw.Error, match="no pair of matrices is found to cut between\n\nhint: matrices that are kept as one"):
        mw.torch.plan(model, optimizer, torch.ones(4, 8), mean, cluster="2xcpu", **tactics)


def test_what_does_not_fit_is_refused():
    with pytest.raises(mw.DoesNotFit):
        planned(cluster="2xa100-80g", memory="1MiB")


def test_a_limit_binds_where_rows_choose_matrices():
    """A matrix for every row, which no process ever has, does not decide what fits."""
    case = models.mixtral(8)
    optimizer = torch.optim.AdamW(case.model.parameters())
    program = mw.torch.capture(case.model, case.batch, case.loss_fn, optimizer, runs=True).program
    asked = {"memory": None, "stages": None, "tactics": None, "mesh": None, "microbatches": None, "engine": "pytorch-cpu"}
    most = make_plan(program, "4xcpu", **asked).peak_bytes
    limit = int(0.8 * most)
    assert make_plan(program, "4xcpu", **{**asked, "memory": limit}).peak_bytes <= limit


def test_a_loss_is_a_number():
    with pytest.raises(mw.Error, match="not a single number"):
        mw.torch.capture(torch.nn.Linear(2, 2), torch.randn(3, 2))


def test_what_depends_on_numbers_is_refused():
    class Picks(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x[x.sum(1) > 0])

    with pytest.raises(mw.Error, match="only known when it runs"):
        mw.torch.capture(Picks(2, 2), torch.randn(3, 2), mean)


@torch.library.custom_op("meshwright_test::odd", mutates_args=())
def odd(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


odd.register_fake(torch.empty_like)
odd.register_autograd(lambda ctx, gradient: gradient)


class Odd(torch.nn.Linear):
    def forward(self, x):
        return odd(super().forward(x))


def test_an_unknown_op_is_whole_with_a_warning_until_it_has_a_rule():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), Odd(2, 2))
    told = r"`meshwright_test.odd.default` is not known.*\(1 times, first in `1`, .*test_plan.py:\d+\)\n\nhint: .*register_rule"
    with pytest.warns(UserWarning, match=told) as warned:
        captured = mw.torch.capture(model, torch.randn(3, 2), mean)
    assert len(warned) == 1
    assert captured.unknown == {"meshwright_test.odd.default": 1}
    mw.torch.register_rule("meshwright_test::odd", "(b d) -> (b d)")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = mw.torch.capture(Odd(2, 2), torch.randn(3, 2), mean).program
    assert "(b d) -> (b d)" in program.text


def test_a_decomposition_that_fails_is_told(monkeypatch):
    def broken(x, *rest):
        raise RuntimeError("out of order")

    monkeypatch.setitem(decompose.OWN, torch.ops.aten.logcumsumexp.default, broken)

    class Running(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x).logcumsumexp(0)

    with pytest.warns(UserWarning, match="decomposition failed with RuntimeError: out of order"):
        mw.torch.capture(Running(2, 2), torch.randn(3, 2), mean, backward=True)


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
def test_updates_are_those_of_pytorch(make):
    from meshwright.torch.check import difference, evaluate, given

    torch.manual_seed(0)
    model, batch = torch.nn.Linear(4, 3), torch.randn(5, 4)
    optimizer = make(model.parameters())
    mean(model(batch)).backward()
    optimizer.step()
    captured = mw.torch.capture(model, batch, mean, optimizer)
    paths = {parameter: path for path, parameter in model.named_parameters()}
    values = given(model, batch) | captured.constants
    for parameter, state in optimizer.state.items():
        # What is counted in a number of Python, a program counts in a tensor.
        values |= {f"opt.{key}.{paths[parameter]}": torch.as_tensor(value, dtype=torch.float32) for key, value in state.items()}
    found = evaluate(captured.program, {name: value.clone() for name, value in values.items()})
    optimizer.zero_grad()
    mean(model(batch)).backward()
    optimizer.step()
    for path, parameter in model.named_parameters():
        assert difference(found[f"params.{path}"], parameter.detach()) < 1e-5
