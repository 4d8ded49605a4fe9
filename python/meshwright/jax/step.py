"""A step on devices: captured, planned and compiled at its first call, and then run."""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
from jax.sharding import NamedSharding

from meshwright import _core
from meshwright.jax.capture import Captured, Function, capture
from meshwright.jax.cluster import engine_of, platform_of
from meshwright.jax.run import Running, make_running

logger = logging.getLogger("meshwright")

# Leaves and their tree, without static arguments, which are told apart.
Call = tuple[list[Any], Any, tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Wish:
    """What is asked of a plan, in the words of the command."""

    cluster: str
    memory: str | None = None
    mesh: str | None = None
    tactics: str | None = None
    microbatches: int | None = None

    def make_plan(self, captured: Captured) -> _core.Plan:
        return captured.program.plan(
            self.cluster,
            memory=self.memory,
            mesh=self.mesh,
            tactics=self.tactics,
            microbatches=self.microbatches,
            engine=engine_of(captured.platform),
        )


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A step at some shapes: what was captured, the plan, and what runs it."""

    captured: Captured
    plan: _core.Plan
    running: Running
    arguments_tree: Any
    static: tuple[Any, ...]

    @functools.cached_property
    def compiled(self) -> Any:
        """What devices run, compiled once: a jitted function would be compiled again where arguments come from numpy
        in one call and from devices in the next."""
        started = time.monotonic()
        compiled = self.running.call.lower(*self.captured.arguments).compile()
        logger.info("compiled it in %.1f s", time.monotonic() - started)
        return compiled

    def run(self, leaves: Sequence[Any]) -> Any:
        try:
            results = self.compiled(*leaves)
        except ValueError as error:
            _refuse_misplaced(self, leaves, error)
            raise
        return jax.tree.unflatten(self.captured.results_tree, results)

    def place(self, leaves: Sequence[Any]) -> list[Any]:
        return jax.device_put(list(leaves), list(self.running.arguments))


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
        plan: _core.Plan | str | os.PathLike[str] | None = None,
        compiler_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.function = function
        self.devices = tuple(devices)
        self._wish = wish
        self._given_plan = plan
        self._compiler_options = dict(compiler_options or {})
        self._prepared: dict[Any, Prepared] = {}
        self._latest: Prepared | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        call = leaves, tree, static = self._flatten(args, kwargs)
        latest = self._latest
        if latest is not None and tree == latest.arguments_tree and static == latest.static:
            try:
                return latest.run(leaves)
            except TypeError:
                # Arguments of other shapes, which is cheaper to be told than to look for in every call.
                pass
        prepared = self._prepared.get(_key(call))
        is_new = prepared is None
        if prepared is None:
            prepared = self._prepare(call, args, kwargs)
        self._latest = prepared
        return prepared.run(prepared.place(leaves) if is_new else leaves)

    @property
    def plan(self) -> _core.Plan:
        """The plan of the shapes that were last used."""
        return self._last().plan

    @property
    def shardings(self) -> Any:
        """How the arguments lie: a sharding for every leaf, in the tuple of the arguments and the dictionary of those
        by name. Give them to `jax.jit` as `out_shardings` to make state where it belongs, or to orbax to restore it."""
        prepared = self._last()
        return jax.tree.unflatten(prepared.arguments_tree, prepared.running.arguments)

    def prepare(self, *args: Any, **kwargs: Any) -> Step:
        """Captures and plans for arguments, of which only shapes and types matter: `jax.ShapeDtypeStruct` will do."""
        call = self._flatten(args, kwargs)
        prepared = self._prepared.get(_key(call))
        if prepared is None:
            prepared = self._prepare(call, args, kwargs)
        self._latest = prepared
        return self

    def shard(self, *args: Any) -> Any:
        """Puts arguments where the plan stores them; the first few will do once there is a plan. One argument is given
        back as it is, several as a tuple."""
        if self._latest is None:
            self.prepare(*args)
        positional, _ = self.shardings
        if len(args) > len(positional):
            raise _core.Error(f"the step has {len(positional)} arguments, and {len(args)} are given")
        placed = tuple(jax.device_put(given, lies) for given, lies in zip(args, positional))
        return placed[0] if len(placed) == 1 else placed

    @property
    def compiled(self) -> Any:
        """What devices run, as JAX shows what it compiled: `as_text`, `memory_analysis`, `cost_analysis`."""
        return self._last().compiled

    def run_copied(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the step on copies, so that no argument is used up."""
        self.prepare(*args, **kwargs)
        leaves, _, _ = self._flatten(args, kwargs)
        # What is put on several devices may still share memory with what was given.
        copies = [leaf.copy() if isinstance(leaf, jax.Array) else leaf for leaf in leaves]
        return self._last().run(self._last().place(copies))

    def result_names(self) -> list[str]:
        return [name for name, _ in self._last().captured.program.results]

    def _last(self) -> Prepared:
        if self._latest is None:
            raise _core.Error(
                "the step has no plan yet\n\nhint: call it, or give `prepare` its arguments or their shapes"
            )
        return self._latest

    def _flatten(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        numbers, names = self.function.static_argnums, self.function.static_argnames
        if not numbers and not names:
            leaves, tree = jax.tree.flatten((args, kwargs))
            return leaves, tree, ()
        dynamic = tuple(given for number, given in enumerate(args) if number not in numbers)
        by_name = {name: given for name, given in kwargs.items() if name not in names}
        static = [(number, args[number]) for number in numbers if number < len(args)]
        static += sorted((name, given) for name, given in kwargs.items() if name in names)
        leaves, tree = jax.tree.flatten((dynamic, by_name))
        return leaves, tree, tuple(static)

    def _prepare(self, call: Call, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Prepared:
        started = time.monotonic()
        captured = capture(self.function, args, kwargs, platform_of(self._wish.cluster))
        captured_seconds = time.monotonic() - started
        plan = self._make_plan(captured)
        logger.info(
            "captured `%s` in %.1f s and planned it in %.1f s",
            self.function.name,
            captured_seconds,
            time.monotonic() - started - captured_seconds,
        )
        running = make_running(captured, plan, self.devices, self._compiler_options)
        prepared = Prepared(captured, plan, running, *call[1:])
        self._prepared[_key(call)] = self._latest = prepared
        return prepared

    def _make_plan(self, captured: Captured) -> _core.Plan:
        given = self._given_plan
        if given is None:
            return self._wish.make_plan(captured)
        if isinstance(given, _core.Plan):
            return captured.program.load(given.json, "plan", self._wish.cluster)
        return captured.program.load(Path(given).read_text(encoding="utf-8"), os.fspath(given), self._wish.cluster)


def _key(call: Call) -> Any:
    leaves, tree, static = call
    return tree, tuple([_shape(leaf) for leaf in leaves]), static


def _shape(leaf: Any) -> Any:
    try:
        return leaf.shape, leaf.dtype
    except AttributeError:
        # A number of Python is an array without dimensions, and comes back as one.
        return (), jax.numpy.result_type(leaf)


def _refuse_misplaced(prepared: Prepared, leaves: Sequence[Any], error: ValueError) -> None:
    """Says which arguments lie elsewhere, where that is what is wrong."""
    names = [name for name, _ in prepared.captured.program.arguments]
    for name, leaf, lies in zip(names, leaves, prepared.running.arguments):
        if isinstance(leaf, jax.Array) and leaf.committed and not lies.is_equivalent_to(leaf.sharding, leaf.ndim):
            raise _core.Error(
                f"`{name}` lies as {leaf.sharding}, and the plan stores it as {lies.spec}\n\n"
                "hint: `step.shard` puts arguments where the plan stores them"
            ) from error
