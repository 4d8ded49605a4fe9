"""Trains, destroys the process group and ends, while a thread of Gloo still frees a tensor. Started by `processes.py`."""

from __future__ import annotations

import sys
import time
import weakref

import torch
import torch.distributed as dist
from ending import PLANS, train
from failing import prepared

# Seconds that freeing takes, and after which all others take part in the last collective.
FREEING, LATE = 1.0, 0.5


def main(plan: str) -> None:
    dist.init_process_group("gloo")
    model, optimizer = prepared(**PLANS[plan])
    train(model, optimizer, 2)
    dist.barrier()
    is_first = dist.get_rank() == 0
    value = torch.ones(1000)
    if not is_first:
        time.sleep(LATE)
    work = dist.all_reduce(value, async_op=True)
    if is_first:
        weakref.finalize(value, time.sleep, FREEING).atexit = False
        # The thread that runs the collective is the last to hold the tensor.
        del value, work
        time.sleep(1.5 * LATE)
    else:
        work.wait()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
