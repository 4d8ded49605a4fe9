"""Starts processes on this machine that train together, and gives back what the first of them says."""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def start(count: int, script: str, *words: str, folder: Path, world: int | None = None) -> list[subprocess.Popen[bytes]]:
    """Processes with what `torchrun` gives to each."""
    port = str(free_port())
    started = []
    for rank in range(count):
        own = {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world or count), "LOCAL_WORLD_SIZE": str(world or count),
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        log = open(folder / f"{rank}.log", "wb")
        command = [sys.executable, str(HERE / script), *words]
        started.append(subprocess.Popen(command, env={**os.environ, **own}, stdout=log, stderr=subprocess.STDOUT))
        log.close()
    return started


def run(count: int, script: str, *words: str, seconds: float = 600.0) -> dict[str, Any]:
    """Runs a script in so many processes. The first writes JSON to the file that its last word names."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        started = start(count, script, *words, str(folder / "said.json"), folder=folder)
        ends = time.monotonic() + seconds
        try:
            codes = [process.wait(timeout=max(ends - time.monotonic(), 1)) for process in started]
        except subprocess.TimeoutExpired:
            codes = [-1]
        finally:
            for process in started:
                process.kill()
        if any(codes):
            logs = [(folder / f"{rank}.log").read_text()[-3000:] for rank in range(count)]
            raise AssertionError(f"processes ended with {codes}\n" + "\n".join(logs))
        return json.loads((folder / "said.json").read_text())


def say(found: dict[str, Any], said: str) -> None:
    """Has the first process write what `run` gives back, and ends the group of all."""
    import torch.distributed as dist

    if dist.get_rank() == 0:
        Path(said).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def most_allocated(work: Callable[[], Any]) -> int:
    """The most bytes that PyTorch allocates while something runs, above what there was before."""
    return max(allocated(work), default=0)


def allocated(work: Callable[[], Any]) -> list[int]:
    """The bytes that are allocated after every event of PyTorch's allocator, above what there was before."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as told:
        work()
    events = [event for event in told.profiler.kineto_results.events() if event.name() == "[memory]"]
    return list(itertools.accumulate(event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())))
