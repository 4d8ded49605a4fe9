"""GPT-2 of `transformers` on all processes that `torchrun` starts.

Without a cluster, four processes on one machine will do:

    torchrun --nproc-per-node 4 examples/torch_gpt2.py
"""

import torch
import torch.distributed as dist
from transformers import GPT2Config, GPT2LMHeadModel

import meshwright as mw

STEPS = 20


def text(number):
    """Words that repeat themselves: a text by its number."""
    generator = torch.Generator().manual_seed(number)
    words = torch.randint(0, 256, (16, 4), generator=generator)
    tokens = words.repeat(1, 8)
    return {"input_ids": tokens, "labels": tokens}


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    config = GPT2Config(
        n_layer=2, n_embd=64, n_head=4, vocab_size=256, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
        bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model, optimizer = mw.torch.parallelize(model, optimizer, text(0))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    if dist.get_rank() == 0:
        print(model.plan)
    for step in range(STEPS):
        loss = model(text(step % 2))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0 and step % 5 == 4:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
