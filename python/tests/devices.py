"""Partitioned programs on several devices, and the collectives in them.

Everything here needs XLA_FLAGS to ask for enough devices before JAX is first used, so tests call it in a
process of its own; see `test_partition.py`.
"""

import collections
import itertools
import math
import re

import jax
import numpy as np
from jax._src import compiler, xla_bridge
from jax._src.interpreters import mlir
from jax._src.lib import xla_client
from jax._src.sharding_impls import GSPMDSharding
from jaxlib.mlir import ir

# What a collective is to the network: its kind, who takes part in the order of their parts, and the bytes
# of the larger of what a device puts in and what it gets out.
Collective = collections.namedtuple("Collective", "kind groups bytes")

KINDS = ("all-gather", "all-reduce", "all-to-all", "collective-permute", "reduce-scatter")
OPTIONS = {
    # Without these passes XLA neither joins collectives nor takes those behind a barrier for those before.
    "xla_disable_hlo_passes": "cse_barrier_expander,cpu-all-reduce-combiner",
    # Narrow types are rounded as the text says.
    "xla_allow_excess_precision": False,
    # The code may be slow; compiling it takes most of the time. Collectives are the same at any level.
    "xla_backend_optimization_level": 0,
}


class Partitioned:
    """A compiled module with the collectives it was written with and those it got."""

    def __init__(self, text):
        with mlir.make_ir_context():
            module = ir.Module.parse(text)
            self.written = written_collectives(module)
            self.shapes = [shape_of(result) for result in main(module).type.results]
            self.devices = jax.devices()[: module.operation.attributes["mhlo.num_partitions"].value]
            options = compiler.get_compile_options(
                num_replicas=1,
                num_partitions=len(self.devices),
                device_assignment=np.array(self.devices)[None],
                env_options_overrides=OPTIONS,
            )
            devices = xla_client.DeviceList(tuple(self.devices))
            self.executable = xla_bridge.get_backend("cpu").compile_and_load(module, devices, options)
        self.hlo = self.executable.hlo_modules()[0].to_string()

    def run(self, arguments):
        """Whole results of whole arguments."""
        placed = map(jax.device_put, arguments, self.shardings(self.executable.get_parameter_shardings()))
        parts = self.executable.execute_sharded(list(placed)).disassemble_into_single_device_arrays()
        shardings = self.shardings(self.executable.get_output_shardings())
        return [joined(*of_one) for of_one in zip(parts, self.shapes, shardings)]

    def shardings(self, found):
        if found is None:
            # Nothing is partitioned for a single device.
            return itertools.repeat(jax.sharding.SingleDeviceSharding(self.devices[0]))
        return [GSPMDSharding(self.devices, sharding) for sharding in found]


def main(module):
    return next(op for op in module.body.operations if op.operation.name == "func.func")


def shape_of(type):
    return tuple(ir.RankedTensorType(type).shape)


def joined(parts, shape, sharding):
    """The whole of the parts; devices that have the same part have to agree on it to the last bit."""
    whole, known = None, {}
    indices = sharding.devices_indices_map(shape)
    for part in parts:
        (device,) = part.devices()
        value = np.asarray(part)
        whole = np.empty(shape, value.dtype) if whole is None else whole
        index = indices[device]
        first = known.setdefault(str(index), value)
        assert first.tobytes() == value.tobytes(), "devices disagree about a part that they share"
        whole[index] = value
    return whole


def written_collectives(module):
    """The collectives of a StableHLO module."""
    found = collections.Counter()

    def visit(operation):
        dialect, _, name = operation.name.partition(".")
        kind = name.replace("_", "-")
        if dialect == "stablehlo" and kind in KINDS:
            attribute = "source_target_pairs" if kind == "collective-permute" else "replica_groups"
            groups = np.array(operation.attributes[attribute]).tolist()
            for operand, result in zip(operation.operands, operation.results):
                bytes = max(carried_bytes(operand.type), carried_bytes(result.type))
                # Where there are no elements nothing is moved, and XLA leaves it out.
                found.update({Collective(kind, freeze(groups), bytes): 1} if bytes else {})
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def carried_bytes(type):
    ranked = ir.RankedTensorType(type)
    bits = int(re.search(r"\d+", str(ranked.element_type))[0])
    if str(ranked.element_type) == "bf16":
        # On a CPU, XLA has no collectives of bfloat16: it makes them f32 before and bfloat16 again after.
        bits = 32
    # A boolean takes a byte.
    return math.prod(ranked.shape) * max(bits, 8) // 8


def freeze(groups):
    return tuple(tuple(group) for group in groups)


INSTRUCTION = re.compile(rf"= (?P<types>\(.*?\)|\S+) (?P<kind>{'|'.join(KINDS)})(?P<start>-start)?\((?P<rest>.*)$", re.M)
TYPE = re.compile(r"(pred|[a-z]+\d+)[a-z0-9]*\[([\d,]*)\]")


def compiled_collectives(hlo):
    """The collectives of an HLO module."""
    found = collections.Counter()
    for match in INSTRUCTION.finditer(hlo):
        kind, rest = match["kind"], match["rest"]
        groups = hlo_groups(rest)
        for bytes in result_bytes(match):
            # What is reduced and scattered is as many times larger as there are parts.
            bytes *= len(groups[0]) if kind == "reduce-scatter" else 1
            found[Collective(kind, groups, bytes)] += 1
    return found


def result_bytes(match):
    bytes = [
        math.prod(int(size) for size in sizes.split(",") if size) * hlo_bytes(element)
        for element, sizes in TYPE.findall(match["types"])
    ]
    if match["kind"] == "all-to-all":
        # On a CPU, XLA writes an exchange as a tuple with one part per device: still one exchange.
        return [sum(bytes)]
    if match["start"] and match["kind"] != "all-reduce":
        # An asynchronous start gives its operands, then its results, then what it needs to know.
        bytes = bytes[len(bytes) // 2 :]
    return bytes


def hlo_bytes(element):
    return 1 if element == "pred" else max(int(re.search(r"\d+", element)[0]), 8) // 8


def hlo_groups(rest):
    listed = re.search(r"(?:replica_groups|source_target_pairs)=\{(\{[\d,{}]*\})\}", rest)
    if listed:
        return freeze([int(member) for member in group.split(",")] for group in re.findall(r"\{([\d,]+)\}", listed[1]))
    named = re.search(r"replica_groups=mesh\[(.*?)\](?:, device_ids=\(\[([\d,]+)\](?:T\(([\d,]+)\))?\))? \{([^}]*)\}", rest)
    if named:
        return named_groups(*named.groups())
    counted = re.search(r"replica_groups=\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?", rest)
    shape, sizes, order = (part and [int(number) for number in part.split(",")] for part in counted.groups())
    members = np.arange(math.prod(sizes)).reshape(sizes)
    return freeze((members.transpose(order) if order else members).reshape(shape).tolist())


def named_groups(axes, sizes, order, members):
    """Groups along axes of a mesh, as XLA writes those that it finds itself."""
    names, lengths = zip(*re.findall(r"'([^']+)'=(\d+)", axes))
    lengths = [int(length) for length in lengths]
    devices = np.arange(math.prod(lengths))
    if sizes:
        devices = devices.reshape([int(size) for size in sizes.split(",")])
        devices = devices.transpose([int(dim) for dim in order.split(",")]) if order else devices
    along = [names.index(name) for name in re.findall(r"'([^']+)'", members)]
    across = [axis for axis in range(len(names)) if axis not in along]
    group = math.prod(lengths[axis] for axis in along)
    return freeze(devices.reshape(lengths).transpose(across + along).reshape(-1, group).tolist())


def run(text, arguments):
    """The results, the collectives written, and those compiled."""
    compiled = Partitioned(text)
    return compiled.run(arguments), compiled.written, compiled_collectives(compiled.hlo)


def aliases(text):
    """How many arguments are overwritten by results."""
    return len(re.findall(r"(?:may|must)-alias", Partitioned(text).hlo))
