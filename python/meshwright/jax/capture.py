"""Capturing a step: from a Python function and the shapes of its arguments to a program."""

from __future__ import annotations

import dataclasses
import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import jax

from meshwright import _core


@dataclasses.dataclass(frozen=True)
class Function:
    """A step as the user wrote it, and how it is to be jitted, in the words of `jax.jit`."""

    call: Callable[..., Any]
    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return getattr(self.call, "__name__", "step")

    def jit(self, donate: bool = True) -> Any:
        """The step for a single device; arguments that it does not read are kept, so that numbers of arguments stay."""
        return jax.jit(
            self.call,
            keep_unused=True,
            static_argnums=self.static_argnums,
            static_argnames=self.static_argnames,
            donate_argnums=self.donate_argnums if donate else (),
            donate_argnames=self.donate_argnames if donate else (),
        )


@dataclasses.dataclass(frozen=True)
class Captured:
    """A step at some shapes."""

    program: _core.Program
    platform: str
    # Of every leaf of the arguments, and of the results, its shape and type.
    arguments: tuple[Any, ...]
    results: tuple[Any, ...]
    results_tree: Any
    # Numbers of the arguments whose memory the caller gives up.
    donated: tuple[int, ...]


def function(
    call: Callable[..., Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
    donate_argnums: int | Sequence[int] | None,
    donate_argnames: str | Sequence[str] | None,
) -> Function:
    """A step with its options as tuples. An argument that is static by number is so by name too, and back."""
    if hasattr(call, "lower") and hasattr(call, "__wrapped__"):
        # What a jitted function donates cannot be asked for, and would be lost without a word.
        raise _core.Error(
            f"`{getattr(call, '__name__', 'step')}` is jitted already\n\n"
            "hint: give the plain function, and `static_argnums` or `donate_argnums` here as you did to `jax.jit`"
        )
    numbers = _tuple(static_argnums)
    names = _tuple(static_argnames)
    positional = _positional(call)
    numbers = tuple(number % len(positional) if number < 0 and positional else number for number in numbers)
    all_names = {*names, *(positional[number] for number in numbers if number < len(positional))}
    all_numbers = {*numbers, *(number for number, name in enumerate(positional) if name in names)}
    return Function(
        call, tuple(sorted(all_numbers)), tuple(sorted(all_names)), _tuple(donate_argnums), _tuple(donate_argnames)
    )


def capture(step: Function, args: tuple[Any, ...], kwargs: dict[str, Any], platform: str) -> Captured:
    """Traces and lowers a step for a platform. Nothing is allocated, and shapes do for arguments."""
    dynamic_args = [arg if number in step.static_argnums else _abstract(arg) for number, arg in enumerate(args)]
    dynamic_kwargs = {name: arg if name in step.static_argnames else _abstract(arg) for name, arg in kwargs.items()}
    traced = step.jit().trace(*dynamic_args, **dynamic_kwargs)
    _refuse_effects(step, traced)
    lowered = traced.lower(lowering_platforms=(platform,))
    module = lowered.compiler_ir("stablehlo").operation
    text = module.get_asm(print_generic_op_form=True, enable_debug_info=True)
    program = _core.Program(text, step.name)
    for message in program.warnings:
        warnings.warn(f"`{step.name}`: {message}", stacklevel=2)
    infos = jax.tree.leaves(traced.args_info)
    if len(program.arguments) != len(infos):
        raise _core.Error(
            f"`{step.name}` has {len(infos)} arguments, but its program has {len(program.arguments)}\n\n"
            "hint: arrays that the step closes over should be arguments"
        )
    return Captured(
        program=program,
        platform=platform,
        arguments=tuple(traced.jaxpr.in_avals),
        results=tuple(traced.jaxpr.out_avals),
        results_tree=lowered.out_tree,
        donated=tuple(number for number, info in enumerate(infos) if info.donated),
    )


def _abstract(tree: Any) -> Any:
    """Shapes without devices: arrays that lie on several would make JAX lower the step for several."""

    def shape(leaf: Any) -> Any:
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=getattr(leaf, "weak_type", False))

    return jax.tree.map(shape, tree)


def _refuse_effects(step: Function, traced: Any) -> None:
    """Callbacks into Python are not part of a program's text, so they could not be run from it."""
    if traced.jaxpr.effects:
        effects = ", ".join(sorted(f"`{effect}`" for effect in traced.jaxpr.effects))
        raise _core.Error(
            f"`{step.name}` does more than compute: it has the effects {effects}\n\n"
            "hint: leave `jax.debug.print` and callbacks out of the step, and look at its results instead"
        )


def _tuple(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    return (given,) if isinstance(given, (int, str)) else tuple(given)


def _positional(call: Callable[..., Any]) -> list[str]:
    """The names of the arguments that can be given by number."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [parameter.name for parameter in parameters if parameter.kind in kinds]
