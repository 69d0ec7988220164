"""Time as the load generator sees it: the monotonic clock and calls at a later moment."""

from __future__ import annotations

import math
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

__all__ = ["LoopTimers", "Timer", "Timers"]


class Timer(Protocol):
    """A call that has been arranged."""

    def cancel(self) -> None:
        """Take it back."""
        ...


class Timers(Protocol):
    """A clock that can call back."""

    def now(self) -> int:
        """Nanoseconds of `time.monotonic_ns`."""
        ...

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Call back after at least `seconds`."""
        ...


class LoopTimers:
    """The event loop's timers, never early.

    uvloop counts in whole milliseconds and rounds to the nearest; rounding up costs half a
    millisecond of lag on average, where rounding down would cost a busy wait for each request.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    now = staticmethod(monotonic_ns)
    """Part of `Timers`; asked for twice in a request."""

    def call_later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        """Part of `Timers`."""
        return self._loop.call_later(math.ceil(seconds * 1000) / 1000, callback)
