"""What PyTorch needs for a step in eager mode, recorded for the profiler to be measured against.

    torch_memory.py measure [NAME ...]      measures all models or the named ones, and records them
    torch_memory.py check MESHWRIGHT        compares loss and gradients of the twins with the built-in models
    torch_memory.py time [NAME]             prints seconds of a step, and of MemTracker on fake tensors
    torch_memory.py compare MESHWRIGHT      prints what torchinfo, accelerate and this say beside what is recorded

MESHWRIGHT is the command, built. Models are those of `torch_twins.py`; they run on a CPU, and what its
allocator sees goes to `tests/profile/torch.json`, one row a model; the README beside it says what the numbers
mean. Needs `python/requirements-torch.txt`.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types

# The profiler says on standard error when it starts and stops.
os.environ["KINETO_LOG_LEVEL"] = "99"

import safetensors.torch
import torch
import torchinfo
from accelerate.commands.estimate import estimate_training_usage
from accelerate.utils import calculate_maximum_sizes
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed._tools.mem_tracker import MemTracker
from torch.profiler import ProfilerActivity, profile
from torch.utils.flop_counter import FlopCounterMode

import torch_twins as twins

ROOT = pathlib.Path(__file__).parents[2]
RECORD = ROOT / "tests" / "profile" / "torch.json"

TWINS = {
    "gpt2": twins.Gpt,
    "bert-base": twins.Bert,
    "llama3-8b": twins.Llama,
    "vit-l16": twins.Vit,
    "wresnet-250m": twins.Resnet,
    "resnet-18": twins.BasicResnet,
}
OPTIMIZERS = {
    "adam": lambda parameters, **options: torch.optim.Adam(parameters, **options),
    "adamw": lambda parameters, **options: torch.optim.AdamW(parameters, weight_decay=0.1, **options),
    "sgd": lambda parameters, **options: torch.optim.SGD(parameters, momentum=0.9, **options),
}

GPT = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 1024, "seq": 128, "vocab": 2048, "batch": 8, "dtype": "f32"}
LLAMA = GPT | {"kv_heads": 2, "ffn": 768}
VIT = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 1024, "image": 128, "patch": 16, "classes": 100, "batch": 16}
RESNET = {"layers": 50, "channels": 64, "width": 1, "image": 64, "classes": 1000, "batch": 8}
MODELS = {
    "gpt_2": ("gpt2", GPT | {"layers": 2}),
    "gpt_4": ("gpt2", GPT),
    "gpt_12": ("gpt2", GPT | {"layers": 12}),
    "gpt_long": ("gpt2", GPT | {"seq": 512, "batch": 4}),
    "gpt_narrow_batch": ("gpt2", GPT | {"batch": 1}),
    "gpt_sgd": ("gpt2", GPT | {"optimizer": "sgd"}),
    "gpt_untied": ("gpt2", GPT | {"tied": "false"}),
    "gpt_vocab": ("gpt2", GPT | {"vocab": 16384}),
    "gpt_wide": ("gpt2", GPT | {"hidden": 512, "ffn": 2048, "batch": 4}),
    "gpt_remat_4": ("gpt2", GPT | {"remat": "true"}),
    "gpt2_small": ("gpt2", {"batch": 1, "seq": 256}),
    "bert": ("bert-base", GPT),
    "bert_long": ("bert-base", GPT | {"seq": 512, "batch": 4}),
    "bert_remat": ("bert-base", GPT | {"remat": "true"}),
    "llama": ("llama3-8b", LLAMA),
    "llama_all_heads": ("llama3-8b", LLAMA | {"kv_heads": 8}),
    "llama_remat": ("llama3-8b", LLAMA | {"remat": "true"}),
    "vit": ("vit-l16", VIT),
    "vit_small_patch": ("vit-l16", VIT | {"patch": 8, "batch": 4}),
    "resnet_18": ("resnet-18", RESNET | {"layers": 18}),
    "resnet_50": ("wresnet-250m", RESNET),
    "resnet_50_large_image": ("wresnet-250m", RESNET | {"image": 224, "batch": 2}),
    "resnet_wide": ("wresnet-250m", RESNET | {"layers": 1, "channels": 32, "width": 4}),
}
# What the presets say, as far as the twins ask for it.
PRESETS = {
    "gpt2": {"layers": 12, "hidden": 768, "heads": 12, "ffn": 3072, "seq": 1024, "vocab": 50257, "optimizer": "adam"},
    "bert-base": {"optimizer": "adamw"},
    "llama3-8b": {"optimizer": "adamw", "rope_theta": 500000},
    "vit-l16": {"optimizer": "adam"},
    "wresnet-250m": {"optimizer": "sgd"},
    "resnet-18": {"optimizer": "sgd"},
}
# Small enough for the reference interpreter.
SMALL = {"layers": 2, "hidden": 16, "heads": 4, "ffn": 32, "seq": 8, "vocab": 24, "batch": 2, "dtype": "f32"}
SMALL_IMAGES = {"image": 64, "classes": 10, "batch": 8}
CHECKED = {
    "gpt": ("gpt2", SMALL),
    "gpt_untied": ("gpt2", SMALL | {"tied": "false"}),
    "bert": ("bert-base", SMALL),
    "llama": ("llama3-8b", SMALL | {"kv_heads": 2}),
    "vit": ("vit-l16", SMALL_IMAGES | {"layers": 2, "hidden": 16, "heads": 4, "ffn": 32, "patch": 16}),
    "resnet": ("wresnet-250m", SMALL_IMAGES | {"layers": 1, "channels": 4, "width": 2}),
    "resnet_basic": ("resnet-18", SMALL_IMAGES | {"layers": 18, "channels": 4, "width": 1}),
}
TOLERANCE = 1e-4


def settings_of(preset, changed, attention):
    settings = types.SimpleNamespace(**PRESETS[preset] | changed, attention=attention)
    settings.tied = getattr(settings, "tied", "true") == "true"
    settings.remat = getattr(settings, "remat", "false") == "true"
    if hasattr(settings, "kv_heads"):
        settings.head_width = settings.hidden // settings.heads
    return settings


class Step:
    """A model, its optimizer as after some steps, and a batch."""

    def __init__(self, preset, changed, attention, **options):
        torch.manual_seed(0)
        settings = settings_of(preset, changed, attention)
        self.model = TWINS[preset](settings)
        self.batch = self.model.batch(settings)
        self.optimizer = OPTIMIZERS[settings.optimizer](self.model.parameters(), **options)

    def forward(self):
        return self.model(*self.batch)

    def forward_backward(self):
        self.optimizer.zero_grad()
        self.forward().backward()

    def run(self):
        self.forward_backward()
        self.optimizer.step()


def allocated(function):
    """The most bytes that the allocator has given out at a time while a function runs, and those it still has
    when the function has returned and its result is still there. Zero is before the function."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = function()
    # Ends the life of the result after the profiler has stopped.
    del result
    most = now = 0
    for event in sorted(profiler.profiler.kineto_results.events(), key=lambda event: event.start_ns()):
        if event.name() == "[memory]":
            now += event.nbytes()
            most = max(most, now)
    return most, now


def saved_bytes(step):
    """Bytes of what autograd keeps of a forward pass, but for parameters, buffers and the batch."""
    given = [*step.model.parameters(), *step.model.buffers(), *step.batch]
    known = {tensor.untyped_storage()._cdata for tensor in given}
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = step.forward()
    del loss
    return sum(storage.nbytes() for storage in saved.values())


def bytes_of(tensors):
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def state_bytes(optimizer):
    return bytes_of(value for state in optimizer.state.values() for value in state.values() if torch.is_tensor(value))


def optimizer_peak(preset, changed, attention, **options):
    step = Step(preset, changed, attention, **options)
    step.run()
    step.forward_backward()
    return allocated(step.optimizer.step)[0]


def tracked(preset, changed, attention):
    """What MemTracker says of a forward and backward pass in which no tensor has memory: the bytes at the peak
    but for parameters, buffers, the batch and state."""
    with FakeTensorMode():
        step = Step(preset, changed, attention)
        tracker = MemTracker()
        tracker.track_external(step.model, step.optimizer, *step.batch)
        with tracker:
            step.forward_backward()
        at_peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
        resident = bytes_of([*step.model.parameters(), *step.model.buffers(), *step.batch])
    return at_peak["Total"] - resident


def measured(preset, changed, attention):
    step = Step(preset, changed, attention)
    # Whatever is made once is made now.
    step.run()
    step.optimizer.zero_grad()
    counter = FlopCounterMode(display=False)
    with counter:
        step.forward_backward()
    step.optimizer.zero_grad()
    saved = saved_bytes(step)
    _, alive = allocated(step.forward)
    peak, _ = allocated(step.forward_backward)
    return {
        "parameter_bytes": bytes_of(step.model.parameters()),
        "buffer_bytes": bytes_of(step.model.buffers()),
        "batch_bytes": bytes_of(step.batch),
        "optimizer_state_bytes": state_bytes(step.optimizer),
        "saved_activation_bytes": saved,
        "alive_after_forward_bytes": alive,
        "forward_backward_peak_bytes": peak,
        "forward_backward_peak_bytes_by_memtracker": tracked(preset, changed, attention),
        "optimizer_peak_bytes": optimizer_peak(preset, changed, attention, foreach=False),
        "optimizer_peak_bytes_foreach": optimizer_peak(preset, changed, attention, foreach=True),
        "flops": counter.get_total_flops(),
    }


def variants():
    """Each model by name; one with attention is there twice."""
    for name, (preset, changed) in MODELS.items():
        if "resnet" in preset:
            yield name, preset, changed, "none"
        else:
            for attention in twins.ATTENTION:
                yield f"{name}_{attention}", preset, changed, attention


def row(name, preset, changed, attention):
    model = {"preset": preset, "set": changed}
    return {"name": name, "attention": attention, "model": model, **measured(preset, changed, attention)}


def measure(names):
    # The scratch of some kernels grows with threads.
    torch.set_num_threads(1)
    known = {variant[0]: variant for variant in variants()}
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no such model: {', '.join(unknown)}; there are: {', '.join(known)}")
    rows = recorded() if names else {}
    for name in names or known:
        rows[name] = row(*known[name])
        print(line(rows[name], SHOWN), flush=True)
    write(rows)


def recorded():
    return {row["name"]: row for row in json.loads(RECORD.read_text())["rows"]}


def write(rows):
    """A row is a line, so that differences read as rows that differ."""
    lines = ",\n".join(json.dumps(rows[name], sort_keys=True) for name in sorted(rows))
    RECORD.write_text(f'{{"rows": [\n{lines}\n], "torch": {json.dumps(torch.__version__)}}}\n')


SHOWN = (
    "parameter_bytes",
    "saved_activation_bytes",
    "alive_after_forward_bytes",
    "forward_backward_peak_bytes",
    "forward_backward_peak_bytes_by_memtracker",
    "optimizer_peak_bytes",
    "optimizer_peak_bytes_foreach",
    "flops",
)


def line(row, columns):
    return f"| {row['name']} | {' | '.join(f'{row[column]:,}' for column in columns)} |"


# The twins beside the built-in models.


def check(command):
    """Loss and gradients of each twin, both ways to attend, with the built-in model's parameters and batch."""
    for name, (preset, changed) in CHECKED.items():
        model = [preset, *(f"--set={key}={value}" for key, value in changed.items()), "--set=optimizer=none"]
        summary = json.loads(run(command, "inspect", *model, "--json"))
        for attention in ("none",) if "resnet" in preset else twins.ATTENTION:
            step = Step(preset, changed, attention)
            found = run_built_in(command, model, summary, given(step, summary))
            step.forward_backward()
            expected = {"loss": step.forward().detach()}
            expected |= {f"grads.{built_in_name(key)}": value.grad for key, value in step.model.named_parameters()}
            worst = max(difference(built_in_layout(key, expected[key], found[key].shape), found[key]) for key in expected)
            assert worst <= TOLERANCE, f"{name} differs by {worst:.1e}"
            print(f"{name}, attention {attention}: within {worst:.1e} of the built-in model")


def run(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def run_built_in(command, model, summary, values):
    with tempfile.TemporaryDirectory() as folder:
        inputs, outputs = pathlib.Path(folder, "in.safetensors"), pathlib.Path(folder, "out.safetensors")
        safetensors.torch.save_file(values, inputs)
        run(command, "run", *model, "--inputs", inputs, "--outputs", outputs)
        found = safetensors.torch.load_file(outputs)
    return {result["name"]: found[f"result.{index}"] for index, result in enumerate(summary["results"]["values"])}


def given(step, summary):
    """The arguments of the built-in model: parameters and batch of the twin, running averages of zeros."""
    parameters = {f"params.{built_in_name(name)}": value for name, value in step.model.named_parameters()}
    batch = iter(step.batch)
    values = {}
    for argument in summary["arguments"]["values"]:
        name, shape = argument["name"], shape_of(argument["type"])
        if name.startswith("params."):
            value = built_in_layout(name, parameters[name].detach(), shape)
        elif name.startswith("batch."):
            value = next(batch)
            value = value.permute(0, 2, 3, 1) if value.ndim == 4 else value
            value = value if value.is_floating_point() else value.int()
        else:
            value = torch.zeros(shape)
        values[name] = value.contiguous()
    return values


def shape_of(text):
    return tuple(int(size) for size in text.removeprefix("tensor<").removesuffix(">").split("x")[:-1])


def built_in_name(name):
    """Scales of norms are called weights in PyTorch."""
    *scope, last = name.split(".")
    is_norm = last == "weight" and scope[-1].startswith("norm")
    return ".".join([*scope, "scale"]) if is_norm else name


def built_in_layout(name, value, shape):
    """Inputs before outputs, in matrices and convolutions."""
    if value.ndim == 4:
        value = value.permute(2, 3, 1, 0)
    elif name.endswith(".weight"):
        value = value.T
    return value.reshape(shape)


def difference(found, expected):
    largest = max(expected.abs().max().item(), 1e-3)
    return (found - expected).abs().max().item() / largest


# Time, and other estimators.


def least_seconds(function, rounds=3):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def time_both(name):
    model = next(variant[1:] for variant in variants() if variant[0] == name)
    step = Step(*model)
    step.run()
    real = least_seconds(step.run)
    estimated = least_seconds(lambda: tracked(*model))
    print(json.dumps({"model": name, "step_seconds": real, "memtracker_seconds": estimated}))


COMPARED = ("gpt2_small_fused", "bert_fused", "llama_fused", "llama_remat_fused", "vit_fused", "resnet_18", "resnet_50")


def compare(command):
    """What PyTorch counts and needs, each beside what other tools say of the same."""
    print("| model | GFLOP | torchinfo | meshwright | MB kept | torchinfo | meshwright | MB of a step | accelerate | meshwright |")
    print("|---" + "|--:" * 9 + "|")
    known = {variant[0]: variant[1:] for variant in variants()}
    rows = recorded()
    for name in COMPARED:
        row, step = rows[name], Step(*known[name])
        info = torchinfo.summary(step.model, input_data=step.batch, verbose=0)
        model = [row["model"]["preset"], *(f"--set={key}={value}" for key, value in row["model"]["set"].items())]
        found = json.loads(run(command, "profile", *model, "--memory=eager", "--json"))
        cells = [
            row["flops"] / 1e9,
            # It counts the forward pass, a third of a step, and a multiplication with its addition once.
            6 * info.total_mult_adds / 1e9,
            found["flops"] / 1e9,
            row["saved_activation_bytes"] / 1e6,
            # Results of all modules, twice: for the backward pass as well.
            info.total_output_bytes / 1e6,
            found["saved_activation_bytes"] / 1e6,
            whole_step(row) / 1e6,
            accelerate_bytes(step) / 1e6,
            found["peak_bytes"] / 1e6,
        ]
        print(f"| {name} | {' | '.join(f'{cell:,.1f}' for cell in cells)} |")


def whole_step(row):
    """The most bytes that are there at a time in a step, or just before it."""
    resident = ("parameter_bytes", "buffer_bytes", "batch_bytes", "optimizer_state_bytes")
    updated = row["parameter_bytes"] + row["optimizer_peak_bytes"]
    return sum(row[key] for key in resident) + max(row["forward_backward_peak_bytes"], updated)


def accelerate_bytes(step):
    total, _ = calculate_maximum_sizes(step.model)
    return max(estimate_training_usage(total, "float32").values())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", *names]:
            measure(names)
        case ["check", command]:
            check(command)
        case ["time"]:
            time_both("gpt2_small_fused")
        case ["time", name]:
            time_both(name)
        case ["compare", command]:
            compare(command)
        case _:
            sys.exit(__doc__)
