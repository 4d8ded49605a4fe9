"""Plans on four processes compute what one process does, and what is wrong is told by all of them."""

import importlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import processes
import pytest
import torch
from optimizers import OPTIMIZERS
from train import ALL

import meshwright as mw
from meshwright.torch import collectives, outbox

WORLD = 4
# Some of the models and plans of `train.py`; all of them take an hour.
FEW = ["gpt2:auto", "gpt2:zero2", "gpt2:2d", "gpt2:micro", "gpt2:stages2", "gpt2:stages3", "gpt2:less", "gpt2:split", "deep:remat", "llama:zero3", "bert:micro", "bert:stages4", "mixtral:data", "mixtral:less", "mixtral:micro", "qwen_moe:stages2", "gpt_oss:micro", "fnet:micro", "clip:zero3", "t5:stages2", "vit:stages2", "encoder:stages2", "lstm:micro", "second:micro", "second:stages2", "convnext:stages4", "unet:stages3", "translator:stages2", "shared:stages2", "einsum:micro", "einsum:stages2", "bags:micro", "spectrum:zero3", "remembers:zero3", "frozen:stages2"]
CASES = ALL if os.environ.get("LONG") else FEW


@pytest.fixture(scope="module")
def trained():
    return processes.run(WORLD, "train.py", ",".join(CASES), seconds=5400 if os.environ.get("LONG") else 500)


@pytest.mark.parametrize("case", CASES)
def test_training_is_as_on_one_process(trained, case):
    found = trained[case]
    assert "error" not in found, found["error"]
    for kind, (difference, name) in found["worst"].items():
        assert difference < 1e-4, (kind, name, difference)


def test_memory_is_what_was_foretold(trained):
    off = {case: max(row["measured"]) / row["predicted"] - 1 for case, row in trained.items()}
    assert all(abs(share) < 0.1 for share in off.values()), off
    assert statistics.median(map(abs, off.values())) < 0.05, off


def test_limits_are_kept_by_means_that_run(trained):
    assert trained["gpt2:less"]["limit"] < trained["gpt2:auto"]["predicted"]
    assert trained["mixtral:less"]["limit"] < trained["mixtral:data"]["predicted"]
    assert trained["deep:remat"]["recomputed"] > 0
    assert trained["gpt2:split"]["slices"] == 3


def told(case, folder):
    """What every process was told, by the processes that are left."""
    files = sorted(Path(folder).glob(f"{case}.*.json"))
    return [json.loads(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def refused():
    cases = ["other_cluster", "other_shape", "other_type", "other_model", "too_large", "other_numbers", "one_of_other_numbers", "backward_twice", "early_scheduler", "other_first_step", "other_rates", "other_batches", "frozen_later", "cast_later", "autocast_later", "inner_module", "plan_that_does_not_run"]
    with tempfile.TemporaryDirectory() as name:
        started = processes.start(WORLD, "failing.py", ",".join(cases), name, folder=Path(name))
        try:
            codes = [process.wait(timeout=200) for process in started]
        finally:
            for process in started:
                process.kill()
        assert not any(codes), "\n".join((Path(name) / f"{rank}.log").read_text()[-2000:] for rank in range(WORLD))
        yield {case: told(case, name) for case in cases}


@pytest.mark.parametrize("case, words", [
    ("other_cluster", "the cluster has 8 devices `cpu`, and there are 4 processes"),
    ("other_shape", "`batch` was `float32[8, 8]` when the step was planned, and is `float32[4, 8]` now"),
    ("other_type", "`batch` was `float32[8, 8]` when the step was planned, and is `float64[8, 8]` now"),
    ("other_model", "processes have different steps"),
    ("too_large", "DoesNotFit"),
    ("other_numbers", "`betas` of group 0 was (0.9, 0.999) when the step was planned"),
    ("one_of_other_numbers", "`eps` of group 0 was 1e-08 when the step was planned, and is 0.001 now"),
    ("backward_twice", "the backward pass of this loss has run already"),
    ("early_scheduler", "a scheduler was made for the optimizer before `parallelize`"),
    ("other_first_step", "the first step of `SGD` is not like the others"),
    ("other_rates", "processes have different learning rates of group 0: 0.1 in process 0, 0.5 in process 1"),
    ("other_batches", "give every process the whole batch"),
    ("frozen_later", "`0.bias` was trained when the step was planned, and needs no gradient now"),
    ("cast_later", "`0.weight` is `torch.float32` on `cpu` in the plan, and would be `torch.bfloat16` on `cpu`"),
    ("autocast_later", "`torch.autocast` is on in `torch.bfloat16` now, and was off when the step was planned"),
    ("inner_module", "modules inside of a planned model hold parameters alone"),
    ("plan_that_does_not_run", "makes plans for `parallelize` where it is told `runs=True`"),
])  # fmt: skip
def test_every_process_is_told_the_same(refused, case, words):
    assert len(refused[case]) == WORLD
    assert len(set(refused[case])) == 1
    assert words in refused[case][0]


def ended(way, plan, folder):
    """Trains until one process ends in some way. Gives the exit codes and all that was printed."""
    started = processes.start(WORLD, "ending.py", way, plan, folder, folder=Path(folder))
    ends = time.monotonic() + 100
    others = [process for rank, process in enumerate(started) if rank != 1]
    try:
        codes = [process.wait(timeout=max(ends - time.monotonic(), 1)) for process in others]
    except subprocess.TimeoutExpired:
        pytest.fail("processes wait for one that is gone")
    finally:
        for process in started:
            process.kill()
    return codes, [(Path(folder) / f"{rank}.log").read_text() for rank in range(WORLD) if rank != 1]


@pytest.mark.parametrize("plan", ["sharded", "staged"])
@pytest.mark.parametrize("way, cause", [
    ("killed", "process 1 is gone without a word"),
    ("broken", "process 1 failed: OutOfMemoryError: no memory is left"),
    ("between", "process 1 failed: ValueError: the loss is no number"),
])  # fmt: skip
def test_processes_end_with_the_cause_where_one_ends(way, cause, plan, tmp_path):
    codes, _ = ended(way, plan, str(tmp_path))
    said = told(way, tmp_path)
    assert codes == [1] * (WORLD - 1)
    assert len(said) == WORLD - 1 and len(set(said)) == 1
    assert said[0].startswith(f"Error: {cause}")


def test_processes_end_where_one_fails_and_lives_on(tmp_path):
    codes, logs = ended("lives_on", "sharded", str(tmp_path))
    assert codes == [1] * (WORLD - 1)
    # The first of them is ended, by which others may come back and raise the same.
    assert all("process 1 failed: OutOfMemoryError: no memory is left" in log for log in logs)


@pytest.mark.parametrize("plan", ["sharded", "staged"])
def test_processes_end_in_peace_while_gloo_still_frees_a_tensor(plan, tmp_path):
    started = processes.start(WORLD, "leaving.py", plan, folder=tmp_path)
    try:
        codes = [process.wait(timeout=100) for process in started]
    finally:
        for process in started:
            process.kill()
    assert not any(codes), (tmp_path / "0.log").read_text()[-2000:]


def test_without_processes_nothing_runs():
    model = torch.nn.Linear(2, 2)
    with pytest.raises(mw.Error, match="there is no process group"):
        mw.torch.parallelize(model, torch.optim.SGD(model.parameters(), 0.1), torch.randn(2, 2))


@pytest.mark.parametrize("backends, place", [({"cuda": "nccl"}, "cuda:3"), ({"cpu": "gloo", "cuda": "nccl"}, "cuda:3"), ({"cpu": "gloo"}, "cpu"), ({"cpu": "gloo", "cuda": "gloo"}, "cpu")])
def test_what_lies_nowhere_goes_where_collectives_are(backends, place, monkeypatch):
    module = importlib.import_module("meshwright.torch.parallelize")
    monkeypatch.setattr(module, "backends", lambda: backends)
    monkeypatch.setenv("LOCAL_RANK", "3")
    assert module._device(torch.nn.Linear(2, 2, device="meta")) == torch.device(place)


@pytest.fixture(scope="module")
def stored():
    return processes.run(WORLD, "storing.py", seconds=200)


def test_checkpoints_go_from_plan_to_plan(stored):
    found = stored["checkpoint"]
    assert abs(found["before"][0] - found["expected"][0]) > 1e-3
    assert found["found"] == pytest.approx(found["expected"], rel=1e-4)


def test_what_lies_nowhere_is_initialised_in_parts(stored):
    assert stored["unmade"]["off"] == 0.0
    assert stored["unmade"]["parts"]["0.weight"] == [4, 8]
    assert stored["unmade"]["alike"]


def test_whole_tensors_are_loaded_into_parts(stored):
    assert stored["loaded"]["off"] == 0.0
    assert "has `other`, which the model has not" in stored["loaded"]["told"]


def test_stages_load_files_that_have_tied_tensors_once(stored):
    found = stored["loaded_in_stages"]
    assert abs(found["before"] - found["expected"]) > 1e-3
    assert found["found"] == pytest.approx(found["expected"], rel=1e-5)


@pytest.fixture(scope="module")
def modes():
    return processes.run(WORLD, "modes.py", "drawn,share,evaluated,clipped,updated,turned,updating,averaged,mapped,planned_before,freed,waited,told,by_lanes", seconds=300)


def test_dropout_is_the_same_under_every_plan(modes):
    found = modes["drawn"]
    assert found["square"] == pytest.approx(found["sharded"], rel=1e-5)
    assert found["staged"] == pytest.approx(found["sharded"], rel=1e-5)


def test_dropout_is_another_in_every_step_and_keeps_the_mean(modes):
    assert len(set(modes["drawn"]["again"])) == 3
    assert 0.0 < abs(modes["share"] - 1.0) < 0.1


def test_models_are_evaluated_in_the_mode_that_they_were_planned_in(modes):
    found = modes["evaluated"]
    assert found["found"] == pytest.approx(found["expected"], rel=1e-5)
    assert "the model was planned for evaluation, and is set to training now" in found["told"]
    assert found["both"][0] == found["both"][1]


def test_gradients_are_clipped_by_the_norm_of_all_stages(modes):
    found = modes["clipped"]
    assert found["staged"] == pytest.approx(found["sharded"], rel=1e-4)
    assert found["staged"][0] == pytest.approx(found["first"][0], rel=1e-4)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_update_as_on_one_process(modes, name):
    assert modes["updated"][name] < 1e-4


def test_matrices_that_are_updated_turned_are_the_same_in_stages(modes):
    assert modes["turned"] < 1e-4


def test_memory_of_updates_in_stages_is_what_was_foretold(modes):
    assert modes["updating"] == pytest.approx(1.0, abs=0.01)


def test_averages_of_a_model_are_models(modes):
    assert modes["averaged"]["off"] < 1e-5
    assert modes["averaged"]["found"] == pytest.approx(modes["averaged"]["expected"], rel=1e-5)


def test_batches_may_be_mappings_of_any_kind(modes):
    assert modes["mapped"]["found"] == pytest.approx(modes["mapped"]["expected"], rel=1e-5)


def test_plans_that_were_made_before_run(modes):
    assert modes["planned_before"]["found"] == pytest.approx(modes["planned_before"]["expected"], rel=1e-5)


def test_tensors_of_collectives_are_freed_by_those_who_made_them(modes):
    assert modes["freed"] == 0


def test_collectives_of_several_tensors_do_not_wait_in_vain(modes):
    assert modes["waited"] < 25


def test_the_first_of_a_group_tells_the_others(modes):
    assert modes["told"] == [1.0, 1.0, 3.0, 3.0]


def test_a_tensor_counts_as_free_where_pytorch_does_not_tell_who_holds_it():
    value = torch.ones(2)
    assert collectives._holders(value) == 1
    assert collectives._holders(object()) == 1


def test_what_goes_between_stages_needs_neither_tags_nor_both_ways_of_a_group(modes):
    found = modes["by_lanes"]
    assert found["lanes"] == pytest.approx(found["gloo"], rel=1e-6)
    assert found["ways"] > 0 and not found["both"]


def test_stages_wait_for_what_they_sent_where_all_still_come_to_an_end():
    run = ("run", 0, -1, None)
    behind = [("receive", 7, -1, 0), run, ("receive", 7, -1, 1), run]
    ahead = [run, ("send", 0, 7, 0), run, ("send", 0, 7, 1), run]
    assert outbox.can_wait([ahead, behind])
    # What is sent first is looked at last, by a stage that waits for something else until then.
    late = [("receive", 8, -1, None), run, ("receive", 7, -1, 0)]
    early = [run, ("send", 0, 7, 0), run, run, ("send", 1, 8, None)]
    assert not outbox.can_wait([early, late])


def test_what_processes_run_is_compiled():
    found = processes.run(2, "modes.py", "compiled", seconds=400)["compiled"]
    assert found["losses"][1] == pytest.approx(found["losses"][0], rel=1e-5)
    assert "`torch.compile` compiles nothing here" in found["told"]


@pytest.mark.parametrize("name", ["torch_gpt2", "torch_pipeline"])
def test_examples_learn(name):
    example = Path(__file__).parents[3] / "examples" / f"{name}.py"
    words = ["-m", "torch.distributed.run", "--nproc-per-node", "4", "--master-port", str(processes.free_port()), str(example)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+)", done.stdout)]
    assert len(losses) == 4 and losses[-1] < 0.9 * losses[0]
