"""Several processes as one: they have to agree on what they run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from meshwright import _core

# What a process says that has no plan.
_NOTHING = bytes(32)


def digest(plan: _core.Plan | _core.Pipeline) -> bytes:
    """The same for plans that are the same, in any process."""
    if isinstance(plan, _core.Plan):
        texts = [plan.json, plan.stablehlo]
    else:
        pieces = range(len(plan.pieces))
        texts = [plan.text, str(plan.buffers), *(plan.piece_stablehlo(piece) for piece in pieces)]
    return hashlib.sha256("\0".join(texts).encode()).digest()


def agree(plan: _core.Plan | _core.Pipeline | None, devices: Sequence[jax.Device]) -> None:
    """Refuses, in every process, plans that are not the same in all of them. A process that has none says so too, since
    the others would wait for it."""
    first = {device.process_index: device for device in reversed(devices)}
    if len(first) == 1:
        return
    found = _exchange(_NOTHING if plan is None else digest(plan), [first[process] for process in sorted(first)])
    if plan is None or len(set(found)) == 1:
        return
    missing = [str(process) for process, said in zip(sorted(first), found) if said == _NOTHING]
    if missing:
        raise _core.Error(
            f"process {', '.join(missing)} has no plan, so that no process can run\n\n"
            "hint: what is wrong is told there"
        )
    told = ", ".join(f"{said.hex()[:12]} in process {process}" for process, said in zip(sorted(first), found))
    raise _core.Error(
        f"processes have different plans: {told}\n\n"
        "hint: give every process the same step, shapes, options and version, or a plan that was saved"
    )


def _exchange(said: bytes, devices: Sequence[jax.Device]) -> list[bytes]:
    """What every process said, by one device of each."""
    mesh = Mesh(np.array(devices), ("process",))
    sharding = NamedSharding(mesh, PartitionSpec("process"))
    own = np.frombuffer(said, np.uint8).astype(np.int32)[None]
    parts = [jax.device_put(own, device) for device in sharding.addressable_devices]
    given = jax.make_array_from_single_device_arrays((len(devices), own.shape[1]), sharding, parts)
    everywhere = jax.jit(lambda rows: rows, out_shardings=NamedSharding(mesh, PartitionSpec()))(given)
    rows = np.asarray(everywhere.addressable_shards[0].data).astype(np.uint8)
    return [row.tobytes() for row in rows]
