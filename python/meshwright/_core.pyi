"""The compiler, written in Rust. Python's lock is given up while it works, and Ctrl-C is heard."""

from os import PathLike
from typing import Any

__version__: str

class Error(Exception):
    """What Meshwright cannot do, and why; where something can be done about it, a hint says what."""

class DoesNotFit(Error):
    """No plan was found that fits the memory of the devices."""

class Plan:
    """A plan: how every device runs a part of a step, and what that comes to."""

    @property
    def json(self) -> str:
        """The text of the plan as a file, as `meshwright plan -o` writes it."""
    @property
    def summary(self) -> str:
        """What `meshwright plan` prints; for a plan that was loaded, what `meshwright simulate` does."""
    @property
    def stablehlo(self) -> str:
        """The local program inside of a module of whole values, which XLA compiles and runs."""
    def torch_source(self) -> str:
        """The local program as Python source for PyTorch: `forward`, `backward` and `update`."""
    @property
    def cluster(self) -> str:
        """The name of the cluster that it was made for."""
    @property
    def engine(self) -> str:
        """What runs it."""
    @property
    def mesh(self) -> list[tuple[str, int]]:
        """Names and sizes of the axes of devices, in the order of device numbers."""
    @property
    def microbatches(self) -> int:
        """In how many microbatches a step runs."""
    @property
    def arguments(self) -> list[list[list[str]]]:
        """For every argument and dimension, the axes that cut it, the most significant first."""
    @property
    def results(self) -> list[list[list[str]]]:
        """The same for every result."""
    @property
    def aliases(self) -> list[tuple[int, int]]:
        """Numbers of arguments and of the results that take their places."""
    @property
    def collectives(self) -> dict[str, int]:
        """How many collectives of each kind a step runs."""
    @property
    def gathers(self) -> list[int]:
        """For every argument, how many all-gathers there are of it."""
    def to_fsdp2(self) -> Any:
        """Which modules PyTorch's `fully_shard` would take, as `meshwright.exports.Fsdp2`, which prints as code."""
    def to_megatron_args(self) -> list[str]:
        """The arguments of Megatron-LM that come nearest to the plan."""
    def to_pspecs(self) -> dict[str, tuple[Any, ...]]:
        """For every parameter and all state by name, the axes that cut each dimension."""
    @property
    def matrix_flops(self) -> float:
        """Operations of a device in products of matrices and convolutions, a multiply-add as two and without what
        convolutions read of padding."""
    @property
    def step_seconds(self) -> float:
        """What a step takes, by the simulation."""
    @property
    def peak_bytes(self) -> int:
        """What a device has in memory when that is most, with what the engine takes for itself."""
    @property
    def memory_limit(self) -> int:
        """The bytes of a device that may be used."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the plan to a file, which `parallelize(plan=…)` and the command read."""
    def report(self, path: str | PathLike[str]) -> None:
        """Writes a page that shows all of the plan: one file, which any browser opens."""

class Pipeline:
    """A step in stages: what every stage runs and in which order, and what that comes to."""

    @property
    def json(self) -> str | None:
        """The text of `plan.json`, where stages were planned."""
    @property
    def summary(self) -> str:
        """What `meshwright simulate` prints."""
    @property
    def cluster(self) -> str:
        """The name of the cluster that it was made for."""
    @property
    def engine(self) -> str:
        """What runs it."""
    @property
    def mesh(self) -> list[tuple[str, int]]:
        """Names and sizes of the axes that stages lie along, in the order of device numbers."""
    @property
    def meshes(self) -> list[list[tuple[str, int]]]:
        """The same for every stage: size 1 along axes that it lacks."""
    def senders(self, source: int, target: int) -> list[int]:
        """Of every device of a stage, the device of another that it has its part from; numbers are those within the stages."""
    @property
    def stage_count(self) -> int:
        """How many stages there are; a stage has the devices behind those of the one before."""
    @property
    def microbatches(self) -> int:
        """In how many microbatches a step runs."""
    @property
    def schedule(self) -> str:
        """The order in which stages work on microbatches."""
    @property
    def step_seconds(self) -> float:
        """What a step takes, by the simulation."""
    @property
    def peak_bytes(self) -> int:
        """What a device of the fullest stage has in memory when that is most."""
    @property
    def memory_limit(self) -> int:
        """The bytes of a device that may be used."""
    @property
    def matrix_flops(self) -> list[float]:
        """Of every stage, operations of a device in products of matrices and convolutions, a multiply-add as two and
        without what convolutions read of padding."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes stages that were planned to a file: whole under its name, or not at all."""
    def report(self, path: str | PathLike[str]) -> None:
        """Writes a page that shows all of it, for a browser: whole under its name, or not at all."""
    @property
    def buffers(self) -> list[tuple[int, bool, int | None, str, list[int], list[list[str]]]]:
        """Of every buffer its stage, whether there is one for every microbatch, the dimension of its whole that is cut
        into them, the type of its elements, its shape on the mesh of the stage, and the axes that cut each dimension."""
    @property
    def pieces(self) -> list[tuple[str, int, list[int], list[int]]]:
        """Of every piece its name, its stage, and the buffers that it reads and writes."""
    @property
    def instructions(self) -> list[list[tuple[str, int, int, int | None]]]:
        """Of every stage what it does, in order: a word, two numbers, and the microbatch. `run` has the piece, `send`
        the buffer and that on the other stage, `receive` the buffer and the other stage, `accumulate` the buffer of the
        part and that of the sum, and `free` the buffer."""
    @property
    def arguments(self) -> list[list[int]]:
        """Of every argument, the buffers that hold it."""
    @property
    def results(self) -> list[list[int]]:
        """Of every result, the buffers that hold it."""
    @property
    def state(self) -> list[tuple[int, int]]:
        """Numbers of arguments and of the results that are their next values."""
    @property
    def numbers(self) -> list[int]:
        """Buffers with the number of the microbatch."""
    @property
    def text(self) -> str:
        """The instructions of all stages in words."""
    def piece_stablehlo(self, piece: int) -> str:
        """What the devices of a stage run of a piece, inside of a module of whole values."""
    def piece_torch(self, piece: int, arguments: list[str], results: list[str]) -> str:
        """What the devices of a stage run of a piece as Python source for PyTorch, with the names of the arguments and
        results of the step."""

class Program:
    """A step as it is planned."""

    def __new__(cls, text: str, name: str = "step") -> Program:
        """Reads the text of a StableHLO module in generic or pretty form, or of a recorded ATen graph."""
    @property
    def warnings(self) -> list[str]:
        """What was understood, but maybe not as it was meant."""
    @property
    def arguments(self) -> list[tuple[str, str]]:
        """Names and types of the arguments."""
    @property
    def results(self) -> list[tuple[str, str]]:
        """Names and types of the results."""
    @property
    def text(self) -> str:
        """The program as StableHLO text."""
    def evaluate(self, arguments: list[bytes]) -> list[bytes]:
        """Its results by the reference interpreter, from its arguments, both as bytes."""
    def batch_dims(self) -> list[int]:
        """For each argument, the dimension that samples lie along: the first, unless these then depend on each other and
        along another they do not."""
    def torch_source(self) -> str:
        """The program as Python source for PyTorch, in one function, `run`."""
    def torch_bytes(self) -> int:
        """The most bytes that this source has at a time, besides its arguments."""
    def profile(self, memory: str = "eager") -> tuple[str, str]:
        """What it costs on one device, as `meshwright profile` tells it: text and JSON."""
    def plan(
        self,
        cluster: str,
        *,
        memory: str | None = None,
        mesh: str | None = None,
        tactics: str | None = None,
        microbatches: int | None = None,
        stages: str | None = None,
        engine: str = "xla",
    ) -> Plan | Pipeline:
        """The fastest way found to run it on a cluster that fits the memory, in so many stages, or with `auto` in as
        many as are fastest.

        A cluster is a name such as `4x8xh100`, or the text of a TOML file; tactics are the text of one.
        """
    def pipeline(
        self,
        cluster: str,
        *,
        memory: str | None = None,
        mesh: str | None = None,
        tactics: str | None = None,
        microbatches: int | None = None,
        engine: str = "xla",
    ) -> Pipeline:
        """The step in the stages that tactics ask for. The mesh is that of one stage. Where no number of microbatches is
        given, the fastest of a few is taken."""
    def load(self, text: str, name: str, cluster: str | None = None) -> Plan | Pipeline:
        """The plan of a file, by its text. One for another program, or another cluster, is refused."""

def aten_ops() -> list[str]:
    """The ATen ops that programs have an own form of."""

def cluster_devices(cluster: str) -> tuple[str, int]:
    """The name of the device that a cluster is made of, and how many it has."""

def stage_count(tactics: str) -> int | None:
    """How many stages the text of a tactics file asks for, if it does."""

def device_name(reported: str) -> str | None:
    """The name in the catalog of a device that an engine reports as `NVIDIA A100-SXM4-80GB` or `TPU v4`."""

def run_command(words: list[str]) -> int:
    """Runs the command with a command line, whose first word is the name of the program; gives its exit code."""
