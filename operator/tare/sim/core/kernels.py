"""Kernels: event loops that are flattened, and compiled when speed is asked for.

A kernel and everything that it calls are plain functions; what runs is a flattened copy of them.
"""

from __future__ import annotations
import __future__

import ast
import inspect
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

from tare.sim.core import streams
from tare.sim.core.accelerate import compiled
from tare.sim.core.flatten import flatten

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["defined", "inlinable", "kernel"]


def kernel(
    function: Callable[..., Any],
    tuples: Mapping[Callable[..., Any], Sequence[str]],
    *,
    fast: bool,
) -> Callable[..., Any]:
    """Return a function of this package as one loop without calls.

    Args:
        function: the event loop.
        tuples: functions that make the named tuples of its state, with their fields.
        fast: compile it with numba.
    """
    return _kernel(function, tuple((maker, tuple(f)) for maker, f in tuples.items()), fast)


@cache
def _kernel(
    function: Callable[..., Any],
    tuples: tuple[tuple[Callable[..., Any], tuple[str, ...]], ...],
    fast: bool,
) -> Callable[..., Any]:
    assert isinstance(function, FunctionType)
    makers = {maker.__name__: fields for maker, fields in tuples}
    called = inlinable(function)
    if fast:
        # Compiled code reads numbers from lists, which are local names of the loop then.
        number: object = streams.next_ordered
        assert isinstance(number, FunctionType)
        called["read"] = number
        makers["ordered"] = streams.Ordered._fields
    tree = flatten(
        inspect.getsource(function), {n: f for n, f in called.items() if n not in makers}, makers
    )
    namespace = dict(function.__globals__)
    for found in called.values():
        namespace |= {k: v for k, v in found.__globals__.items() if not k.startswith("__")}
    copy = defined(tree, function.__name__, namespace, f"<{function.__name__}>")
    return compiled(copy) if fast else copy


def inlinable(function: FunctionType) -> dict[str, FunctionType]:
    """Return what a function calls in this package, directly or not; streams are left as calls."""
    found: dict[str, FunctionType] = {}
    waiting = [function]
    while waiting:
        current = waiting.pop()
        for name in current.__code__.co_names:
            value = current.__globals__.get(name)
            if (
                isinstance(value, FunctionType)
                and value.__module__.startswith("tare.sim.core.")
                and value.__module__ != streams.__name__
                and name not in found
            ):
                found[name] = value
                waiting.append(value)
    return found


def defined(
    tree: ast.Module, name: str, namespace: dict[str, Any], file: str
) -> Callable[..., Any]:
    """Run the definition of a function and return it; its names are looked up in `namespace`."""
    code = compile(
        ast.fix_missing_locations(tree),
        file,
        "exec",
        flags=__future__.annotations.compiler_flag,
        dont_inherit=True,
    )
    exec(code, namespace)  # noqa: S102 - our own source
    found: Callable[..., Any] = namespace[name]
    return found
