"""Several processes as one: they meet before they run, and end together where something is wrong."""

from __future__ import annotations

import hashlib
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from meshwright import _core
from meshwright.torch.backends import backends
from meshwright.torch.watch import watch

T = TypeVar("T")

NO_GROUP = (
    "there is no process group\n\n"
    "hint: start with `torchrun`, and call `torch.distributed.init_process_group()` before `parallelize`"
)
GONE = (
    "the process group is gone\n\n"
    "hint: call `torch.distributed.destroy_process_group()` after the last step"
)


class Control:
    """What processes tell each other besides tensors: through the memory of hosts, so that no device waits."""

    def __init__(self) -> None:
        if not dist.is_available() or not dist.is_initialized():
            raise _core.Error(NO_GROUP)
        is_shared = set(backends().values()) == {"gloo"}
        # Whoever destroys the group waits for its threads, but only where nobody else holds it: a thread of Gloo that frees
        # a tensor while Python ends would end the process with an error.
        self._group = weakref.ref(dist.group.WORLD if is_shared else dist.new_group(backend="gloo"))
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.running = watch().running

    @property
    def group(self) -> Any:
        group = self._group()
        if group is None:
            raise _core.Error(GONE)
        return group

    def together(self, work: Callable[[], T], rates: Sequence[float] = ()) -> T:
        """Does something in every process. What is wrong in one is raised in all of them."""
        error: Exception | None = None
        made: Any = None
        try:
            made = work()
        except Exception as caught:  # noqa: BLE001
            error = caught
        self.agree(error, rates)
        return made

    def agree(self, error: Exception | None, rates: Sequence[float] = ()) -> None:
        """Raises in every process what is wrong in the first in which something is, or that learning rates are not those of
        the others: parts of one parameter would go different ways."""
        with self.running():
            is_any, least, most = self._combined(error is not None, rates)
            other = next((group for group, (low, high) in enumerate(zip(least, most)) if low < high), None)
            if not is_any and other is None:
                return
            told = self._everywhere(rates[other] if not is_any else None if error is None else _told(error))
        if not is_any:
            rows = ", ".join(f"{rate} in process {rank}" for rank, rate in enumerate(told))
            raise _core.Error(
                f"processes have different learning rates of group {other}: {rows}\n\n"
                "hint: schedule them by what is the same everywhere, as steps and losses of the model are"
            )
        rank, (is_ours, fits, message) = next((rank, said) for rank, said in enumerate(told) if said is not None)
        if error is not None and not is_ours:
            raise error
        kind = _core.Error if fits else _core.DoesNotFit
        raise kind(message if is_ours else f"process {rank} failed: {message}") from error

    def alike(self, text: str, what: str, hint: str = "give every process the same model, optimizer, shapes and options") -> None:
        """Refuses what is not the same in all processes."""
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        with self.running():
            told = self._everywhere(digest)
        if len(set(told)) > 1:
            rows = ", ".join(f"{said} in process {rank}" for rank, said in enumerate(told))
            raise _core.Error(f"processes have different {what}: {rows}\n\nhint: {hint}")

    def from_first(self, make: Callable[[], Any]) -> Any:
        """What the first process makes, in all of them."""
        told: list[Any] = [None]

        def work() -> None:
            if self.rank == 0:
                told[0] = make()

        self.together(work)
        with self.running():
            dist.broadcast_object_list(told, src=0, group=self.group)
        return told[0]

    def _everywhere(self, said: Any) -> list[Any]:
        """What every process says, in all of them."""
        told: list[Any] = [None] * self.size
        dist.all_gather_object(told, said, group=self.group)
        return told

    def _combined(self, is_here: bool, rates: Sequence[float]) -> tuple[bool, list[float], list[float]]:
        """Whether something is in any process, and the least and the largest of numbers in all of them."""
        numbers = torch.tensor([float(is_here), *rates, *(-rate for rate in rates)], dtype=torch.float64)
        dist.all_reduce(numbers, dist.ReduceOp.MAX, group=self.group)
        flag, *ends = numbers.tolist()
        return bool(flag), [-end for end in ends[len(rates) :]], ends[: len(rates)]


def _told(error: Exception) -> tuple[bool, bool, str]:
    is_ours = isinstance(error, _core.Error)
    return is_ours, not isinstance(error, _core.DoesNotFit), str(error) if is_ours else f"{type(error).__name__}: {error}"
