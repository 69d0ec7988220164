"""numba, when it is installed: compiles the core's functions just as they stand.

The extra `fast` brings numba. It is imported only when somebody asks for speed, since it takes a
second to import and several to compile: it pays from some ten million events on.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Final

from tare.sim.core import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["available", "compiled", "compiled_names"]


def available() -> bool:
    """Whether numba is installed."""
    return importlib.util.find_spec("numba") is not None


_INSTEAD: Final[Mapping[Callable[..., Any], Callable[..., Any]]] = {
    streams.ordered: streams.new_ordered,
    streams.read: streams.next_ordered,
    streams.scattered: streams.scattered_signed,
    streams.unit: streams.unit_signed,
}
"""Functions whose plain form numba cannot compile, with another one that gives the same numbers."""


@cache
def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a compiled copy of a core function; those that it calls are compiled too."""
    import numba  # noqa: PLC0415 - optional, and slow to import

    if function is streams.narrow:
        return numba.uint32  # type: ignore[no-any-return]  # a cast, inside compiled code
    function = _INSTEAD.get(function, function)
    assert isinstance(function, FunctionType)
    names = compiled_names(function.__globals__, _names(function.__code__))
    copy = FunctionType(function.__code__, {**function.__globals__, **names}, function.__name__)
    found: Callable[..., Any] = numba.njit(copy)
    return found


def compiled_names(namespace: dict[str, Any], used: set[str]) -> dict[str, Any]:
    """Return compiled copies of the functions of this package among the names that are `used`."""
    return {
        name: compiled(value)
        for name in used
        if isinstance(value := namespace.get(name), FunctionType)
        and value.__module__.startswith("tare.sim.")
    }


def _names(code: CodeType) -> set[str]:
    return set(code.co_names)
