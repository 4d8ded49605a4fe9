"""A model in two stages, each on half of the processes that `torchrun` starts.

Without a cluster, four processes on one machine will do:

    torchrun --nproc-per-node 4 examples/torch_pipeline.py
"""

import torch
import torch.distributed as dist

import meshwright as mw

STEPS, WIDTH, BATCH = 20, 32, 16


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(Block() for _ in range(4)), torch.nn.Linear(WIDTH, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    inputs = torch.randn(BATCH, WIDTH)
    model, optimizer = mw.torch.parallelize(
        model, optimizer, inputs, lambda output, x: (output[:, 0] - x.sum(1)).square().mean(),
        mesh={"data": dist.get_world_size() // 2}, tactics=[mw.stages(2), mw.data("data")], microbatches=4,
    )  # fmt: skip
    held = sorted({name.split(".")[0] for name, _ in model.named_parameters()})
    print(f"process {dist.get_rank()} has layers {', '.join(held)}")
    for step in range(STEPS):
        loss = model(torch.randn(BATCH, WIDTH, generator=torch.Generator().manual_seed(step % 2)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0 and step % 5 == 4:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
