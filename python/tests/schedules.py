"""Ways to spread the samples over devices, as tiles on their arguments."""

# Per sample, what the batch is called and the tiles that cut its weights as Megatron does: the first matrix
# of a pair by columns, the second by rows.
TRANSFORMER = {
    "attn.query.weight": 1,
    "attn.key.weight": 1,
    "attn.value.weight": 1,
    "attn.output.weight": 0,
    "mlp.up.weight": 1,
    "mlp.down.weight": 0,
}
FUSED = {"attn.all.weight": 1, "attn.output.weight": 0, "mlp.up.weight": 1, "mlp.down.weight": 0}
STACKED = {name: dim + 1 for name, dim in TRANSFORMER.items()}
FLAX = {
    "query.kernel.value": 1,
    "key.kernel.value": 1,
    "value.kernel.value": 1,
    "out.kernel.value": 0,
    "up.kernel.value": 1,
    "down.kernel.value": 0,
}
LLAMA = {"query": 1, "key": 1, "value": 1, "output": 0, "gate": 1, "up": 1, "down": 0}
WEIGHTS = {
    "attention_cudnn": {"query": 1, "key": 1, "value": 1},
    "decode": TRANSFORMER,
    "evaluate": TRANSFORMER,
    "gpt": TRANSFORMER,
    "gpt_clip": FUSED,
    "gpt32": FUSED,
    "gpt_dropout": TRANSFORMER,
    "gpt_dropout_typed": TRANSFORMER,
    "gpt_flax": FLAX,
    "gpt_remat": TRANSFORMER,
    "gpt_scan": STACKED,
    "gpt_scan_remat": STACKED,
    "graph_network": {"message.weight": 1, "update.weight": 0},
    "llama_bf16": LLAMA,
    "lstm_scan": {"cell.weight": 1, "head.weight": 1},
    "moe_einsum": TRANSFORMER | {"experts.up": 0, "experts.down": 0},
    "moe_sort": TRANSFORMER | {"experts.up": 0, "experts.down": 0},
    "resnet": {"first.conv.weight": 3, "second.conv.weight": 2},
    "unet": {"conv1.weight": 3, "conv2.weight": 2},
    "vit": TRANSFORMER,
}
PARAMETERS = {"llama_bf16": "working"}
BATCH = {"decode": "prompt"}


# A step is a tactic: a table as files of tactics have them.


def data(sample):
    return {"axis": "data", "tile": {BATCH.get(sample, "batch.**"): 0}}


def microbatches(sample):
    """What a device has of the batch in parts, one after the other."""
    return data(sample) | {"axis": "micro"}


def megatron(sample):
    parameters = PARAMETERS.get(sample, "parameters")
    return {"axis": "model", "tile": {f"{parameters}.**.{name}": dim for name, dim in WEIGHTS[sample].items()}}


def stored_apart(sample):
    """Whatever is not cut yet is cut where it is stored, as ZeRO-3 does."""
    return {"axis": "data", "tile": {f"{PARAMETERS.get(sample, 'parameters')}.**": "first"}}


def experts(sample):
    return {"axis": "data", "tile": {"parameters.**.experts.up": 0, "parameters.**.experts.down": 0}}


def computed_again(sample):
    return {"remat": ["**"]}


def split(sample):
    """The embedding a slice at a time."""
    return {"split": {"parameters.embedding": 4}}


def preset(axis, name):
    return lambda sample: {"axis": axis, "preset": name}


SCHEDULES = {
    # One axis is not used at all.
    "data": ("data=2,model=4", [data]),
    "megatron": ("data=2,model=4", [megatron]),
    "zero3": ("data=4,model=2", [data, stored_apart]),
    # An axis of one device.
    "data and megatron": ("data=4,one=1,model=2", [data, megatron]),
    "data, megatron and zero3": ("data=2,model=4", [data, megatron, stored_apart]),
    # Most batches have four examples, so they are cut by a part of the axis, and parameters by all of it.
    "parts of an axis": ("data=8", [data, stored_apart]),
    "accumulation": ("data=2,model=4,micro=2@time", [data, microbatches, megatron]),
    # Gradients are scattered and parameters gathered in every part of the batch.
    "accumulation and zero3": ("data=2,model=4,micro=2@time", [data, microbatches, preset("data", "zero3")]),
    "remat": ("data=2,model=4", [data, megatron, computed_again, stored_apart]),
    "accumulation and remat": ("data=2,model=4,micro=2@time", [data, microbatches, megatron, computed_again]),
}
# Ways for some samples only.
EXPERTS = {"experts": ("data=4,model=2", [experts, data, megatron])}
SPLIT = {"split": ("data=2,model=4", [split, data, megatron])}


def schedule(name, sample):
    """The mesh and the steps."""
    mesh, steps = (SCHEDULES | EXPERTS | SPLIT)[name]
    return mesh, [step(sample) for step in steps]
