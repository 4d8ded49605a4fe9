"""What XLA says that programs need, recorded for the profiler to be measured against.

    xla_memory.py measure MESHWRIGHT [NAME ...]    measures all programs or the named ones, and records them
    xla_memory.py table                            prints what is recorded

MESHWRIGHT is the command, built. Programs are the samples, the programs of `tests/profile`, built-in models,
and models partitioned over eight devices. They are compiled for CPUs, never run, and what the executable
says of itself goes to `tests/profile/xla.json`, one row a program; the README beside it says what the
numbers mean.
"""

import gzip
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax  # noqa: E402
import jaxlib  # noqa: E402
import numpy as np  # noqa: E402
from jax._src import compiler, xla_bridge  # noqa: E402
from jax._src.interpreters import mlir  # noqa: E402
from jax._src.lib import xla_client  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402

ROOT = pathlib.Path(__file__).parents[2]
RECORD = ROOT / "tests" / "profile" / "xla.json"
OPTIONS = {
    # Without the first pass, what is computed or gathered again behind a barrier stays apart from the first time;
    # without the second, sums over devices are not combined. The package runs plans so.
    "xla_disable_hlo_passes": "cse_barrier_expander,cpu-all-reduce-combiner",
    # Narrow types are rounded as the text says.
    "xla_allow_excess_precision": False,
    # Machine code may be slow: it is not run. Buffers are assigned before it is made.
    "xla_backend_optimization_level": 0,
}
# Matrix products and what is around them become calls of YNNPACK unless this is empty.
FUSED_DOTS = "xla_cpu_experimental_ynn_fusion_type"

GPT = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 1024, "seq": 128, "vocab": 2048, "batch": 8, "dtype": "f32"}
LLAMA = GPT | {"kv_heads": 2, "ffn": 768}
MOE = GPT | {"experts": 4, "ffn": 512}
T5 = GPT | {"layers": 2, "decoder_layers": 2, "target_seq": 64, "head_width": 32}
VIT = {"layers": 4, "hidden": 256, "heads": 8, "ffn": 1024, "image": 128, "patch": 16, "classes": 100, "batch": 16}
RESNET = {"layers": 50, "channels": 16, "width": 2, "image": 64, "classes": 100, "batch": 16}
UNET = {"layers": 1, "channels": 32, "heads": 4, "image": 32, "batch": 4}
GRAPH = {"steps": 4, "hidden": 128, "ffn": 256, "layers": 2, "nodes": 256, "edges": 2048}
# Sizes that nothing was made for, and those of models that people train.
ODD = {"layers": 3, "hidden": 384, "heads": 6, "ffn": 1536, "seq": 192, "vocab": 5000, "batch": 2}
REAL = {"layers": 2, "hidden": 768, "heads": 12, "ffn": 3072, "seq": 512, "vocab": 50257, "batch": 1}
SMALL = {"layers": 2, "hidden": 64, "heads": 4, "ffn": 256, "seq": 64, "vocab": 512, "batch": 4}

BUILT_IN = {
    "gpt_2": ("gpt2", GPT | {"layers": 2}),
    "gpt_4": ("gpt2", GPT),
    "gpt_12": ("gpt2", GPT | {"layers": 12}),
    "gpt_gradients": ("gpt2", GPT | {"optimizer": "none"}),
    "gpt_sgd": ("gpt2", GPT | {"optimizer": "sgd"}),
    "gpt_adafactor": ("gpt2", GPT | {"optimizer": "adafactor"}),
    "gpt_clip": ("gpt2", GPT | {"clip": 1}),
    "gpt_dropout": ("gpt2", GPT | {"dropout": 0.1}),
    "gpt_long": ("gpt2", GPT | {"seq": 512, "batch": 4}),
    "gpt_narrow_batch": ("gpt2", GPT | {"batch": 1}),
    "gpt_untied": ("gpt2", GPT | {"tied": "false"}),
    "gpt_vocab": ("gpt2", GPT | {"vocab": 16384}),
    "gpt_wide": ("gpt2", GPT | {"hidden": 512, "ffn": 2048, "batch": 4}),
    "gpt_remat_4": ("gpt2", GPT | {"remat": "true"}),
    "gpt_remat_12": ("gpt2", GPT | {"layers": 12, "remat": "true"}),
    "partir": ("t32", GPT),
    "bert": ("bert-base", GPT),
    "bert_remat": ("bert-base", GPT | {"remat": "true"}),
    "llama": ("llama3-8b", LLAMA),
    "llama_remat": ("llama3-8b", LLAMA | {"remat": "true"}),
    "mixtral": ("mixtral-8x7b", LLAMA | {"experts": 4, "ffn": 384}),
    "moe": ("moe-380m", MOE),
    "moe_remat": ("moe-380m", MOE | {"remat": "true"}),
    "t5": ("t5-large", T5),
    "vit": ("vit-l16", VIT),
    "resnet": ("wresnet-250m", RESNET),
    "resnet_wide": ("wresnet-250m", RESNET | {"layers": 1, "channels": 32, "width": 4}),
    "resnet_remat": ("wresnet-250m", RESNET | {"layers": 2, "remat": "true"}),
    "unet": ("unet", UNET),
    "unet_deep": ("unet", UNET | {"layers": 2, "batch": 2}),
    "graph": ("gns", GRAPH),
    "graph_deep": ("gns", GRAPH | {"steps": 12}),
    "gpt_odd": ("gpt2", GPT | ODD),
    "gpt_real": ("gpt2", GPT | REAL),
    "gpt_small": ("gpt2", GPT | SMALL),
    "bert_odd": ("bert-base", GPT | ODD),
    "llama_odd": ("llama3-8b", LLAMA | ODD),
    "llama_real": ("llama3-8b", LLAMA | REAL | {"ffn": 2304}),
    "llama_remat_real": ("llama3-8b", LLAMA | REAL | {"ffn": 2304, "remat": "true"}),
    "moe_remat_odd": ("moe-380m", MOE | ODD | {"ffn": 768, "expert_group": 384, "remat": "true"}),
    "resnet_narrow_batch": ("wresnet-250m", RESNET | {"batch": 4}),
    "unet_remat": ("unet", UNET | {"remat": "true"}),
    "moe_odd": ("moe-380m", MOE | ODD | {"ffn": 768, "expert_group": 384}),
    "t5_odd": ("t5-large", T5 | ODD | {"layers": 2, "target_seq": 96, "head_width": 64}),
    "vit_odd": ("vit-l16", VIT | {"layers": 6, "hidden": 192, "heads": 3, "ffn": 768, "image": 96, "batch": 8}),
    "resnet_odd": ("wresnet-250m", RESNET | {"batch": 8, "width": 3}),
    "unet_odd": ("unet", UNET | {"image": 64, "batch": 2}),
    "graph_odd": ("gns", GRAPH | {"steps": 6, "hidden": 64, "ffn": 64, "nodes": 1000, "edges": 6000}),
    "mlp": ("mlp", {"layers": 6, "hidden": 512, "batch": 256}),
    "mlp_large_batch": ("mlp", {"layers": 6, "hidden": 512, "batch": 4096}),
}


def tactics(*steps):
    return "".join(f'[[tactic]]\naxis = "{axis}"\npreset = "{preset}"\n' for axis, preset in steps)


BATCH, MODEL, STORED = ("data", "data"), ("model", "megatron"), ("data", "zero3")
SCHEDULES = {
    "data": ("data=8", tactics(BATCH)),
    "megatron": ("model=8", tactics(MODEL)),
    "data_megatron": ("data=2,model=4", tactics(BATCH, MODEL)),
    "zero1": ("data=8", tactics(BATCH, ("data", "zero1"))),
    "zero3": ("data=8", tactics(BATCH, STORED)),
    "data_megatron_zero3": ("data=2,model=4", tactics(BATCH, MODEL, STORED)),
    "accumulation": ("data=2,model=2,micro=2@time", tactics(BATCH, ("micro", "data"), MODEL)),
    "data_remat": ("data=8", tactics(BATCH) + '[[tactic]]\nremat = ["**"]\n'),
}
# Enough examples that each of eight devices has several.
WIDE = {"batch": 32}
PARTITIONED = {
    **{f"gpt_4_{name}": ("gpt2", GPT | WIDE, name) for name in SCHEDULES},
    **{f"llama_{name}": ("llama3-8b", LLAMA | WIDE | {"kv_heads": 8}, name) for name in ("megatron", "zero3")},
    **{f"bert_{name}": ("bert-base", GPT | WIDE, name) for name in ("data", "zero3")},
    **{f"vit_{name}": ("vit-l16", VIT | WIDE, name) for name in ("data", "megatron")},
    "resnet_data": ("wresnet-250m", RESNET | WIDE, "data"),
    "t5_megatron": ("t5-large", T5 | WIDE, "megatron"),
    "t5_data": ("t5-large", T5 | {"batch": 16}, "data"),
    **{f"gpt_odd_{name}": ("gpt2", GPT | ODD | {"heads": 8, "batch": 16}, name) for name in ("data", "megatron", "zero3")},
}


def programs():
    """How each program is made, by name."""
    found = {}
    for folder in ("samples", "profile"):
        for path in sorted((ROOT / "tests" / folder).glob("*.mlir.gz")):
            name = path.name.removesuffix(".mlir.gz")
            if not name.endswith(".pretty"):
                found[f"{folder}/{name}"] = {"model": {"file": str(path.relative_to(ROOT))}}
    for name, (preset, settings) in BUILT_IN.items():
        found[f"models/{name}"] = {"model": {"preset": preset, "set": settings}}
    for name, (preset, settings, schedule) in PARTITIONED.items():
        mesh, steps = SCHEDULES[schedule]
        model = {"preset": preset, "set": settings}
        found[f"partitioned/{name}"] = {"model": model, "mesh": mesh, "tactics": steps}
    return found


def text_of(command, program):
    """The StableHLO of a program, without calls that a CPU does not know."""
    model = program["model"]
    if "file" in model:
        text = gzip.decompress((ROOT / model["file"]).read_bytes()).decode()
        return run(command, "print", ROOT / model["file"], "--expand-attention") if "__cudnn" in text else text
    chosen = [model["preset"], *(f"--set={key}={value}" for key, value in model["set"].items())]
    if "mesh" not in program:
        return run(command, "print", *chosen, "--expand-attention")
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(program["tactics"])
        file.flush()
        layout = ["--mesh", program["mesh"], "--tactics", file.name]
        return run(command, "partition", *chosen, *layout, "--emit", "stablehlo")


def run(command, *arguments):
    done = subprocess.run([command, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def compiled(text, options):
    with mlir.make_ir_context():
        module = ir.Module.parse(text)
        partitions = module.operation.attributes.get("mhlo.num_partitions")
        devices = jax.devices()[: partitions.value if partitions else 1]
        settings = compiler.get_compile_options(
            num_replicas=1,
            num_partitions=len(devices),
            device_assignment=np.array(devices)[None],
            env_options_overrides=options,
        )
        return xla_bridge.get_backend("cpu").compile_and_load(module, xla_client.DeviceList(tuple(devices)), settings)


def kept_apart(text):
    """The program with its donated arguments kept beside the results that would replace them."""
    return re.sub(r"(tf\.aliasing_output = \d+ : i32|jax\.buffer_donor = true)", "mhlo.was_donated", text)


def measured(text):
    executable = compiled(text, OPTIONS)
    memory, cost = executable.get_compiled_memory_stats(), executable.cost_analysis()
    apart = compiled(kept_apart(text), OPTIONS).get_compiled_memory_stats()
    plain = compiled(text, OPTIONS | {FUSED_DOTS: ""}).get_compiled_memory_stats()
    return {
        "argument_bytes": memory.argument_size_in_bytes,
        "output_bytes": memory.output_size_in_bytes,
        "temp_bytes": memory.temp_size_in_bytes,
        "alias_bytes": memory.alias_size_in_bytes,
        "temp_bytes_without_donation": apart.temp_size_in_bytes,
        "temp_bytes_without_fused_dots": plain.temp_size_in_bytes,
        "flops": int(cost["flops"]),
        "transcendentals": int(cost.get("transcendentals", 0)),
        "bytes_accessed": int(cost["bytes accessed"]),
    }


def measure(command, names):
    known = programs()
    unknown = [name for name in names if name not in known]
    if unknown:
        sys.exit(f"no such program: {', '.join(unknown)}; there are: {', '.join(known)}")
    rows = recorded() if names else {}
    for name in names or known:
        rows[name] = {"name": name, **known[name], **measured(text_of(command, known[name]))}
        print(line(rows[name]), flush=True)
    write(rows)


def recorded():
    return {row["name"]: row for row in json.loads(RECORD.read_text())["rows"]}


def write(rows):
    """A row is a line, so that differences read as rows that differ."""
    head = json.dumps({"jaxlib": jaxlib.__version__, "options": OPTIONS}, sort_keys=True)
    lines = ",\n".join(json.dumps(rows[name], sort_keys=True) for name in sorted(rows))
    RECORD.write_text(f'{head[:-1]}, "rows": [\n{lines}\n]}}\n')


COLUMNS = (
    "argument_bytes",
    "output_bytes",
    "alias_bytes",
    "temp_bytes",
    "temp_bytes_without_donation",
    "temp_bytes_without_fused_dots",
    "flops",
)


def line(row):
    return f"| {row['name']} | {' | '.join(f'{row[column]:,}' for column in COLUMNS)} |"


def table():
    print(f"| program | {' | '.join(column.replace('_', ' ') for column in COLUMNS)} |")
    print(f"|---|{'--:|' * len(COLUMNS)}")
    for row in recorded().values():
        print(line(row))


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["measure", command, *names]:
            measure(command, names)
        case ["table"]:
            table()
        case _:
            sys.exit(__doc__)
