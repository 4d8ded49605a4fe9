"""What capturing steps of PyTorch is held to, one table a bar.

    torch_capture.py numbers [NAME ...]   loss and gradients by the reference interpreter beside PyTorch's own
    torch_capture.py memory [NAME ...]    profiles of captured models beside PyTorch's own allocator and counters
    torch_capture.py scale [NAME ...]     time and memory to capture, import and plan large models, without weights
    torch_capture.py peers                planning beside what autoparallel's authors measured

Models are of `transformers` and `torchvision`, from their configurations; nothing is downloaded. Needs
`python/requirements-torch.txt` and the package in `PYTHONPATH`.
"""

import pathlib
import resource
import subprocess
import sys
import time

import torch
import torchvision
import transformers
from torch.utils.flop_counter import FlopCounterMode

import meshwright as mw

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "tests" / "torch"))
import models
from torch_memory import allocated, bytes_of


def tokens(vocabulary, batch, length, device=None):
    return torch.randint(0, vocabulary, (batch, length), device=device)


def causal(model, vocabulary, batch, length):
    given = tokens(vocabulary, batch, length)
    return models.Case(model, {"input_ids": given, "labels": given})


def gpt2():
    config = transformers.GPT2Config(
        n_layer=4, n_embd=256, n_head=8, vocab_size=2048, n_positions=128, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0
    )
    return causal(transformers.GPT2LMHeadModel(config), 2048, 8, 128)


def bert():
    config = transformers.BertConfig(
        num_hidden_layers=4, hidden_size=256, num_attention_heads=8, intermediate_size=1024, vocab_size=2048,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0,
    )  # fmt: skip
    return causal(transformers.BertForMaskedLM(config), 2048, 8, 128)


def llama():
    config = transformers.LlamaConfig(
        num_hidden_layers=4, hidden_size=256, num_attention_heads=8, num_key_value_heads=2, intermediate_size=768,
        vocab_size=2048,
    )  # fmt: skip
    return causal(transformers.LlamaForCausalLM(config), 2048, 8, 128)


def mixtral():
    config = transformers.MixtralConfig(
        num_hidden_layers=2, hidden_size=128, num_attention_heads=8, num_key_value_heads=2, intermediate_size=256,
        vocab_size=2048, num_local_experts=4,
    )  # fmt: skip
    return causal(transformers.MixtralForCausalLM(config), 2048, 4, 64)


def t5():
    config = transformers.T5Config(
        num_layers=3, d_model=256, d_kv=32, num_heads=8, d_ff=1024, vocab_size=2048, dropout_rate=0,
        decoder_start_token_id=0,
    )  # fmt: skip
    return causal(transformers.T5ForConditionalGeneration(config), 2048, 8, 128)


def vit():
    config = transformers.ViTConfig(
        num_hidden_layers=4, hidden_size=256, num_attention_heads=8, intermediate_size=1024, image_size=128,
        hidden_dropout_prob=0, attention_probs_dropout_prob=0, num_labels=100,
    )  # fmt: skip
    batch = {"pixel_values": torch.randn(16, 3, 128, 128), "labels": torch.randint(0, 100, (16,))}
    return models.Case(transformers.ViTForImageClassification(config), batch)


def classes(output):
    return torch.nn.functional.cross_entropy(output, torch.zeros(output.shape[0], dtype=torch.long))


def resnet50():
    return models.Case(torchvision.models.resnet50(), (torch.randn(8, 3, 64, 64),), classes)


def unet():
    return models.Case(models.UNet(16), torch.randn(4, 3, 128, 128), lambda output: output.square().mean())


MEASURED = {make.__name__: make for make in (gpt2, bert, llama, mixtral, t5, vit, resnet50, unet)}


def numbers(names):
    """Small models. A difference is over the largest number of the tensor that differs; the worst is shown."""
    print("| model | results | worst difference | of |\n|---|---|---|---|")
    for name in names or models.MODELS:
        torch.manual_seed(0)
        case = models.MODELS[name]()
        comparison = mw.torch.check(case.model, case.batch, case.loss_fn)
        worst, off = max(comparison.differences, key=lambda row: row[1])
        print(f"| {name} | {len(comparison.differences)} | {off:.1e} | {worst} |", flush=True)


def forward(case):
    from meshwright.torch.capture import arguments_of, loss_of

    args, kwargs = arguments_of(case.batch)
    return loss_of(case.model(*args, **kwargs), case.batch, case.loss_fn)


def saved_bytes(case):
    given = [*case.model.parameters(), *case.model.buffers(), *torch.utils._pytree.tree_leaves(case.batch)]
    known = {tensor.untyped_storage()._cdata for tensor in given}
    saved = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in known:
            saved[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        loss = forward(case)
    del loss
    return sum(storage.nbytes() for storage in saved.values())


def grouped_flops(left, right, *rest, out_shape=None, **named):
    """Of rows in groups, each with a matrix of its own, or of a sum in groups."""
    return 2 * left[0] * left[1] * right[-1]


def measured(case):
    """What PyTorch needs: bytes kept, the most bytes until the backward pass is over, and operations."""

    def step():
        case.model.zero_grad()
        forward(case).backward()

    step()
    case.model.zero_grad()
    # PyTorch's counter knows products of matrices in groups, which experts do, only from version to version.
    counter = FlopCounterMode(display=False, custom_mapping={torch.ops.aten._grouped_mm: grouped_flops})
    with counter:
        step()
    case.model.zero_grad()
    return saved_bytes(case), allocated(step)[0], counter.get_total_flops()


def memory(names):
    torch.set_num_threads(1)
    print("| model | saved | PyTorch | off | peak | PyTorch | off | operations | PyTorch |\n|" + "---|" * 9)
    for name in names or MEASURED:
        torch.manual_seed(0)
        case = MEASURED[name]()
        saved, peak, flops = measured(case)
        profile = mw.torch.profile(case.model, case.batch, case.loss_fn)
        found = profile.saved_activation_bytes, profile.forward_backward_peak_bytes
        off = [f"{(ours - theirs) / theirs:+.2%}" for ours, theirs in zip(found, (saved, peak))]
        cells = [found[0], saved, off[0], found[1], peak, off[1], profile.flops, flops]
        print(f"| {name} |", " | ".join(f"{cell:,}" if isinstance(cell, int) else cell for cell in cells), "|", flush=True)


# Large models.


def llama_of(layers, hidden, heads, groups, inner, vocabulary=32000):
    def make():
        config = transformers.LlamaConfig(
            num_hidden_layers=layers, hidden_size=hidden, num_attention_heads=heads, num_key_value_heads=groups,
            intermediate_size=inner, vocab_size=vocabulary, max_position_embeddings=4096,
        )  # fmt: skip
        with torch.device("meta"):
            model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
            given = tokens(vocabulary, 32, 2048)
        return models.Case(model, {"input_ids": given, "labels": given})

    return make


def gpt2_small():
    config = transformers.GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    with torch.device("meta"):
        return causal(transformers.GPT2LMHeadModel(config), 50257, 64, 1024)


LARGE = {
    "gpt2": (gpt2_small, "8xh100"),
    "llama-7b": (llama_of(32, 4096, 32, 32, 11008), "4x8xa100-80g"),
    "llama3-8b": (llama_of(32, 4096, 32, 8, 14336, 128256), "4x8xh100"),
    "llama-70b": (llama_of(80, 8192, 64, 8, 28672), "8x8xh100"),
}


def scale(names):
    """Each model in a process of its own, which has its own memory."""
    print("Seconds are of a clock and, after a slash, of all cores. RSS is after the import and after the plan.\n")
    print("| model | nodes | capture | import | plan | cluster | step s | peak GiB | RSS GB |\n|" + "---|" * 9, flush=True)
    for name in names or ("llama-7b", "llama-70b"):
        subprocess.run([sys.executable, __file__, "one", name], check=True)


def one(name):
    from meshwright import _core
    from meshwright.torch.plan import make_plan

    make, cluster = LARGE[name]
    case = make()
    optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-4)
    capturing, captured = timed(lambda: mw.torch.capture(case.model, case.batch, case.loss_fn, optimizer))
    # One program at a time, as `plan` has it.
    text = captured.text
    del captured
    importing, program = timed(lambda: _core.Program(text, name))
    imported = rss()
    wishes = dict.fromkeys(("memory", "mesh", "tactics", "microbatches"))
    planning, plan = timed(lambda: make_plan(program, cluster, engine="pytorch", **wishes))
    nodes = text.count(" = ")
    print(
        f"| {name} | {nodes:,} | {capturing} | {importing} | {planning} | {cluster} | {plan.step_seconds:.3f} | "
        f"{plan.peak_bytes / 2**30:.1f} | {imported:.2f} / {rss():.2f} |", flush=True
    )  # fmt: skip


def rss():
    """The most memory that the process has had, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def timed(work):
    """What it took, by a clock and by all cores, and what came of it. Capturing includes one import."""
    clock, cores = time.perf_counter(), time.process_time()
    done = work()
    return f"{time.perf_counter() - clock:.2f} / {time.process_time() - cores:.2f}", done


def peers():
    print("autoparallel on the same two models, on two quiet cores: Llama3-8B on 4x8 takes 227 s in all (trace 37, options 32,")
    print("build 53, solve 77) and 4.8 GB; GPT-2 on 8 takes 18 s in all.\n")
    scale(["llama3-8b", "gpt2"])


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["numbers", *names]:
            numbers(names)
        case ["memory", *names]:
            memory(names)
        case ["scale", *names]:
            scale(names)
        case ["one", name]:
            one(name)
        case ["peers"]:
            peers()
        case _:
            sys.exit(__doc__)
