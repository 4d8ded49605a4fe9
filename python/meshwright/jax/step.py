"""A step on devices: captured, planned and compiled at its first call, and then run."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Union

import jax

from meshwright import _core
from meshwright.jax import state as states
from meshwright.jax.capture import Captured, Function, capture
from meshwright.jax.cluster import engine_of, platform_of
from meshwright.jax.place import place
from meshwright.jax.processes import agree
from meshwright.jax.progress import shown
from meshwright.jax.run import Running, make_running, program_bytes
from meshwright.jax.stage_memory import stage_bytes
from meshwright.jax.stages import Staged

logger = logging.getLogger("meshwright")

AnyPlan = Union[_core.Plan, _core.Pipeline]
# Arguments by number and by name, without static ones, which are told apart.
Call = tuple[tuple[Any, ...], dict[str, Any], tuple[Any, ...]]
# How often a step is planned again because XLA takes more memory than its plan foretold.
MOST_PLANS = 5


@dataclasses.dataclass(frozen=True)
class Wish:
    """What is asked of a plan, in the words of the command."""

    cluster: str
    memory: str | None = None
    mesh: str | None = None
    tactics: str | None = None
    microbatches: int | None = None
    # How many, or `auto`; what tactics ask for is told there.
    stages: str | None = None

    def make_plan(self, captured: Captured) -> AnyPlan:
        has_stages = self.tactics is not None and _core.stage_count(self.tactics) is not None
        asked: dict[str, Any] = {
            "memory": self.memory,
            "mesh": self.mesh,
            "tactics": self.tactics,
            "microbatches": self.microbatches,
            "engine": engine_of(captured.platform),
        }
        if has_stages:
            return captured.program.pipeline(self.cluster, **asked)
        return captured.program.plan(self.cluster, stages=self.stages, **asked)


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A step at some shapes: what was captured, the plan, and what runs it."""

    captured: Captured
    plan: AnyPlan
    running: Running | Staged
    arguments_tree: Any
    # Shapes and types of the leaves.
    shapes: tuple[Any, ...]
    static: tuple[Any, ...]
    # Of the arguments by name.
    names: tuple[str, ...]

    @functools.cached_property
    def program(self) -> Any:
        """What devices run, compiled once: a jitted function would be compiled again where arguments come from numpy
        in one call and from devices in the next."""
        started = time.monotonic()
        with shown("compiling") as told:
            program = self.running.compile(told)
        logger.info("compiled it in %.1f s", time.monotonic() - started)
        return program

    @property
    def xla_bytes(self) -> int | None:
        """What a device has in memory, as XLA says; of stages, that of the fullest."""
        if isinstance(self.plan, _core.Pipeline):
            # Of several processes none has compiled all of it.
            return stage_bytes(self.plan, self.program.compiled) if jax.process_count() == 1 else None
        return program_bytes(self.program)

    @functools.cached_property
    def run(self) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
        """Runs the step on arguments by number and by name. Arguments of other shapes are a `TypeError`."""
        program, names = self.program, self.names
        if isinstance(self.running, Staged):
            return self._run_stages
        if not self.running.is_one_process:
            return lambda args, kwargs: self._run_leaves(self._leaves(args, kwargs))
        if not names:
            return lambda args, kwargs: program(*args, **kwargs)

        def run(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if len(kwargs) != len(names):
                raise TypeError("other arguments")
            return program(*args, *[kwargs.get(name) for name in names])

        return run

    def _leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        leaves, tree = jax.tree.flatten((args, kwargs))
        if tree != self.arguments_tree or tuple(map(_shape, leaves)) != self.shapes:
            raise TypeError("other arguments")
        return leaves

    def _run_stages(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return jax.tree.unflatten(self.captured.results_tree, self.program(self._leaves(args, kwargs)))

    def _run_leaves(self, leaves: Sequence[Any]) -> Any:
        """Of several processes each puts its part of what comes from numpy where it belongs."""

        def put(leaf: Any, lies: Any) -> Any:
            return leaf if isinstance(leaf, jax.Array) and leaf.committed else place(leaf, lies)

        args, kwargs = jax.tree.unflatten(self.arguments_tree, map(put, leaves, self.running.arguments))
        return self.program(*args, *[kwargs[name] for name in self.names])

    def place(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves = jax.tree.leaves((args, kwargs))
        return jax.tree.unflatten(self.arguments_tree, map(place, leaves, self.running.arguments))


class Step:
    """What `parallelize` gives: a step that is called like the one it was made of.

    The first call with arguments of some shapes plans and compiles; further calls run. What the step gives back lies as
    the plan says, and so does what it takes: arrays that lie elsewhere are put there by the call that plans, and arrays
    that no device has been asked for, such as those of numpy, by every call.
    """

    def __init__(
        self,
        function: Function,
        devices: Sequence[jax.Device],
        wish: Wish,
        plan: AnyPlan | str | os.PathLike[str] | None = None,
        compiler_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.devices = tuple(devices)
        self._wish = wish
        self._given_plan = plan
        self._compiler_options = dict(compiler_options or {})
        self._has_static = bool(function.static_argnums or function.static_argnames)
        self._prepared: dict[Any, Prepared] = {}
        self._latest: Prepared | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = args, kwargs
        static: tuple[Any, ...] = ()
        if self._has_static:
            args, kwargs, static = self._split(args, kwargs)
        latest = self._latest
        if latest is not None and static == latest.static:
            try:
                return latest.run(args, kwargs)
            except TypeError:
                # Arguments of other shapes, which is cheaper to be told than to look for in every call.
                pass
            except ValueError as error:
                _refuse_misplaced(latest, args, kwargs, error)
                raise
        call = args, kwargs, static
        prepared = self._prepared.get(_key(call))
        if prepared is None:
            prepared = self._prepare(call, *given)
            args, kwargs = prepared.place(args, kwargs)
        self._latest = prepared
        try:
            return prepared.run(args, kwargs)
        except ValueError as error:
            _refuse_misplaced(prepared, args, kwargs, error)
            raise

    @property
    def plan(self) -> AnyPlan:
        """The plan of the shapes that were last used."""
        return self._last().plan

    @property
    def shardings(self) -> Any:
        """How the arguments lie: a sharding for every leaf, in the tuple of the arguments and the dictionary of those
        by name."""
        prepared = self._last()
        return jax.tree.unflatten(prepared.arguments_tree, prepared.running.arguments)

    def abstract(self, argument: int = 0) -> Any:
        """An argument as shapes, types and shardings."""
        prepared = self._last()
        leaves = [
            jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=lies)
            for leaf, lies in zip(prepared.captured.arguments, prepared.running.arguments)
        ]
        return _numbered(jax.tree.unflatten(prepared.arguments_tree, leaves)[0], argument)

    def prepare(self, *args: Any, **kwargs: Any) -> Step:
        """Captures and plans for arguments, of which only shapes and types matter: `jax.ShapeDtypeStruct` will do."""
        call = self._split(args, kwargs)
        prepared = self._prepared.get(_key(call))
        if prepared is None:
            prepared = self._prepare(call, args, kwargs)
        self._latest = prepared
        return self

    def init(self, make: Callable[..., Any], *args: Any, argument: int = 0) -> Any:
        """What a function of arrays gives, such as the first state, made in parts where the step takes it. Nothing of it
        is ever whole on a device that does not store it whole."""
        return states.init(make, args, _numbered(self.shardings[0], argument))

    def save(self, path: str | os.PathLike[str], state: Any) -> None:
        """Writes state as an orbax checkpoint, every process its part."""
        running = self._last().running
        states.save(path, state, running.meshes if isinstance(running, Staged) else [])

    def restore(self, path: str | os.PathLike[str], argument: int = 0) -> Any:
        """Reads an argument of the step from an orbax checkpoint, every device just what it stores, whatever the plan was
        under which it was saved."""
        return states.restore(path, self.abstract(argument))

    def shard(self, *args: Any) -> Any:
        """Puts arguments where the plan stores them; the first few will do once there is a plan. One argument is given
        back as it is, several as a tuple."""
        if self._latest is None:
            self.prepare(*args)
        positional, _ = self.shardings
        if len(args) > len(positional):
            raise _core.Error(f"the step has {len(positional)} arguments, and {len(args)} are given")
        placed = tuple(jax.tree.map(place, given, lies) for given, lies in zip(args, positional))
        return placed[0] if len(placed) == 1 else placed

    def shard_batch(self, batch: Any, argument: int = 1) -> Any:
        """Puts a batch where the plan stores it. A process gives all of it, or just the part that `local_slices` tells,
        and of every leaf what it likes."""

        def put(path: Any, leaf: Any, whole: Any) -> Any:
            name = jax.tree_util.keystr(path)
            return states.from_local(name, leaf, whole.shape, whole.dtype, whole.sharding)

        return jax.tree_util.tree_map_with_path(put, batch, self.abstract(argument))

    def local_slices(self, argument: int = 1) -> Any:
        """For every leaf of an argument, the part of it that the devices of this process have, as slices."""
        return jax.tree.map(lambda leaf: states.local_slices(leaf.shape, leaf.sharding), self.abstract(argument))

    @property
    def compiled(self) -> Any:
        """What devices run, as JAX shows what it compiled: `as_text`, `memory_analysis`, `cost_analysis`. Of a step in
        stages, these by the names of the pieces."""
        prepared = self._last()
        return prepared.program.compiled if isinstance(prepared.running, Staged) else prepared.program

    def run_copied(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step on copies, so that no argument is used up."""
        self.prepare(*args, **kwargs)
        args, kwargs, _ = self._split(args, kwargs)
        # What is put on several devices may still share memory with what was given.
        copies = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, (args, kwargs))
        return self._last().run(*self._last().place(*copies))

    def result_names(self) -> list[str]:
        return [name for name, _ in self._last().captured.program.results]

    def _last(self) -> Prepared:
        if self._latest is None:
            raise _core.Error(
                "the step has no plan yet\n\nhint: call it, or give `prepare` its arguments or their shapes"
            )
        return self._latest

    def _split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        numbers, names = self.function.static_argnums, self.function.static_argnames
        dynamic = tuple(given for number, given in enumerate(args) if number not in numbers)
        by_name = {name: given for name, given in kwargs.items() if name not in names}
        static = [(number, args[number]) for number in numbers if number < len(args)]
        static += sorted((name, given) for name, given in kwargs.items() if name in names)
        return dynamic, by_name, tuple(static)

    def _prepare(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        started = time.monotonic()
        captured = self._agreed(lambda: capture(self.function, args, kwargs, platform_of(self._wish.cluster)))
        logger.info("captured `%s` in %.1f s", self.function.name, time.monotonic() - started)
        prepared = self._planned(captured, call, self._wish)
        if self._wish.memory is not None and self._given_plan is None:
            prepared = self._within_memory(prepared, call)
        self._prepared[_key(call)] = self._latest = prepared
        return prepared

    def _planned(self, captured: Captured, call: Call, wish: Wish) -> Prepared:
        started = time.monotonic()
        with shown("planning"):
            plan = self._agreed(lambda: self._make_plan(captured, wish))
        logger.info("planned it in %.1f s", time.monotonic() - started)
        agree(plan, self.devices)
        leaves, tree = jax.tree.flatten(call[:2])
        options = self._compiler_options
        if isinstance(plan, _core.Pipeline):
            running: Running | Staged = Staged(captured, plan, self.devices, options)
        else:
            running = make_running(tree, captured, plan, self.devices, options)
        shapes = tuple(map(_shape, leaves))
        return Prepared(captured, plan, running, tree, shapes, call[2], tuple(sorted(call[1])))

    def _agreed(self, work: Callable[[], Any]) -> Any:
        """What comes of work that all processes do. One that fails tells the others, who wait for what it says."""
        try:
            return work()
        except Exception:
            agree(None, self.devices)
            raise

    def _within_memory(self, prepared: Prepared, call: Call) -> Prepared:
        """XLA has the last word on what a limit allows: where it takes more than was foretold and more than there may
        be, the step is planned again, with as much less."""
        limit, largest = prepared.plan.memory_limit, 1.0
        for _ in range(MOST_PLANS):
            needed = prepared.xla_bytes
            if needed is None or needed <= limit:
                return prepared
            logger.info("XLA takes %d bytes, the plan has %d, and there may be %d", needed, prepared.plan.peak_bytes, limit)
            largest = max(largest, needed / prepared.plan.peak_bytes)
            wish = dataclasses.replace(self._wish, memory=f"{int(limit / largest)}B")
            prepared = self._planned(prepared.captured, call, wish)
        raise _core.DoesNotFit(
            f"Does not fit: XLA takes {needed:,} bytes on a device for the last of {MOST_PLANS} plans, and {limit:,} may be"
            " used\n\nhint: allow that much `memory`"
        )

    def _make_plan(self, captured: Captured, wish: Wish) -> AnyPlan:
        given = self._given_plan
        if given is None:
            return wish.make_plan(captured)
        if isinstance(given, _core.Pipeline) and given.json is None:
            raise _core.Error("stages that tactics asked for cannot be given\n\nhint: give the tactics")
        if isinstance(given, (_core.Plan, _core.Pipeline)):
            return captured.program.load(given.json or "", "plan", self._wish.cluster)
        return captured.program.load(Path(given).read_text(encoding="utf-8"), os.fspath(given), self._wish.cluster)


def _numbered(arguments: tuple[Any, ...], number: int) -> Any:
    if not -len(arguments) <= number < len(arguments):
        raise _core.Error(f"the step has {len(arguments)} arguments by number, and none is number {number}")
    return arguments[number]


def _key(call: Call) -> Any:
    args, kwargs, static = call
    leaves, tree = jax.tree.flatten((args, kwargs))
    return tree, tuple([_shape(leaf) for leaf in leaves]), static


def _shape(leaf: Any) -> Any:
    try:
        return leaf.shape, leaf.dtype
    except AttributeError:
        # A number of Python is an array without dimensions, and comes back as one.
        return (), jax.numpy.result_type(leaf)


def _refuse_misplaced(prepared: Prepared, args: tuple[Any, ...], kwargs: dict[str, Any], error: ValueError) -> None:
    """Says which arguments lie elsewhere, where that is what is wrong."""
    names = [name for name, _ in prepared.captured.program.arguments]
    for name, leaf, lies in zip(names, jax.tree.leaves((args, kwargs)), prepared.running.arguments):
        if isinstance(leaf, jax.Array) and leaf.committed and not lies.is_equivalent_to(leaf.sharding, leaf.ndim):
            raise _core.Error(
                f"`{name}` lies as {leaf.sharding}, and the plan stores it as {lies.spec}\n\n"
                "hint: `step.shard` puts arguments where the plan stores them"
            ) from error
