"""Several processes as one: they meet before they run, and end together where something is wrong."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from meshwright import _core

T = TypeVar("T")

NO_GROUP = (
    "there is no process group\n\n"
    "hint: start with `torchrun`, and call `torch.distributed.init_process_group()` before `parallelize`"
)


class Control:
    """What processes tell each other besides tensors: through the memory of hosts, so that no device waits."""

    def __init__(self) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise _core.Error(NO_GROUP)
        is_gloo = dist.get_backend() == "gloo"
        self.group = dist.group.WORLD if is_gloo else dist.new_group(backend="gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()

    def together(self, work: Callable[[], T]) -> T:
        """Does something in every process. What is wrong in one is raised in all of them."""
        error: Exception | None = None
        made: Any = None
        try:
            made = work()
        except Exception as caught:  # noqa: BLE001
            error = caught
        self.agree(error)
        return made

    def agree(self, error: Exception | None) -> None:
        """Raises in every process what is wrong in the first in which something is."""
        if not self._is_any(error is not None):
            return
        told: list[Any] = [None] * self.size
        dist.all_gather_object(told, None if error is None else _told(error), group=self.group)
        rank, (is_ours, fits, message) = next((rank, said) for rank, said in enumerate(told) if said is not None)
        if error is not None and not is_ours:
            raise error
        kind = _core.Error if fits else _core.DoesNotFit
        raise kind(message if is_ours else f"process {rank} failed: {message}") from error

    def alike(self, text: str, what: str) -> None:
        """Refuses what is not the same in all processes."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        told: list[Any] = [None] * self.size
        dist.all_gather_object(told, digest, group=self.group)
        if len(set(told)) > 1:
            rows = ", ".join(f"{said} in process {rank}" for rank, said in enumerate(told))
            raise _core.Error(
                f"processes have different {what}: {rows}\n\n"
                "hint: give every process the same model, optimizer, shapes and options"
            )

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, in all of them."""
        told: list[Any] = [None]

        def work() -> None:
            if self.rank == 0:
                told[0] = make()

        self.together(work)
        dist.broadcast_object_list(told, src=0, group=self.group)
        return told[0]

    def _is_any(self, is_here: bool) -> bool:
        flag = torch.tensor([int(is_here)])
        with failures():
            dist.all_reduce(flag, dist.ReduceOp.MAX, group=self.group)
        return bool(flag.item())


def _told(error: Exception) -> tuple[bool, bool, str]:
    is_ours = isinstance(error, _core.Error)
    return is_ours, not isinstance(error, _core.DoesNotFit), str(error) if is_ours else f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def failures() -> Iterator[None]:
    """Says why a collective failed where that is because another process is gone."""
    try:
        yield
    except (RuntimeError, dist.DistError) as error:
        text = str(error)
        if isinstance(error, dist.DistError) or any(sign in text for sign in _SIGNS):
            raise _core.Error(
                f"process {dist.get_rank()} waited for another process that is gone: {text.splitlines()[0]}\n\n"
                "hint: what went wrong is told by the process that ended first"
            ) from error
        raise


# What Gloo and NCCL say when a connection ends.
_SIGNS = ("Connection closed by peer", "Connection reset by peer", "gloo/transport", "Broken pipe", "NCCL", "Timed out waiting")
