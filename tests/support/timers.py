"""Timers of a load generator on which time passes only when a test says so."""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ManualTimers"]


class _Timer:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ManualTimers:
    """`worker.timers.Timers` that start at one second."""

    def __init__(self) -> None:
        self._now = 1_000_000_000
        self._order = itertools.count()
        self._queue: list[tuple[int, int, _Timer]] = []

    def now(self) -> int:
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], None]) -> _Timer:
        timer = _Timer(callback)
        heapq.heappush(self._queue, (self._now + round(seconds * 1e9), next(self._order), timer))
        return timer

    def advance(self, seconds: float) -> None:
        """Let time pass, calling back on the way."""
        end = self._now + round(seconds * 1e9)
        while self._queue and self._queue[0][0] <= end:
            at, _, timer = heapq.heappop(self._queue)
            self._now = max(self._now, at)
            if timer.callback is not None:
                timer.callback()
        self._now = max(self._now, end)

    def hold(self, seconds: float) -> None:
        """Let time pass without calling anybody back, as code that blocks the loop does."""
        self._now += round(seconds * 1e9)
