"""A clock whose waiting takes no time.

A sleep ends as soon as no other sleep ends before it, and then the clock shows its end. Tasks that
sleep at the same time therefore wake in the order of their ends, exactly as on a real clock, and
the test reads from `now()` how long the code under test would have taken.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from datetime import UTC, datetime, timedelta

__all__ = ["FakeClock"]

_START = datetime(2026, 1, 1, tzinfo=UTC)
_SETTLE = 5
"""Turns of the event loop that a sleeper leaves to others, so that they can begin to sleep too."""


class FakeClock:
    """A `telemetry.clock.Clock` that jumps from one sleep's end to the next."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        """Every sleep that was asked for, in order."""
        self._now = 0.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int]] = []

    def now(self) -> float:
        """Seconds since the clock was made."""
        return self._now

    def wall(self) -> datetime:
        """2026-01-01 plus `now()`."""
        return _START + timedelta(seconds=self._now)

    def advance(self, seconds: float) -> None:
        """Let time pass without a sleeper."""
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Return when this is the sleep that ends first."""
        self.slept.append(seconds)
        me = (self._now + max(seconds, 0.0), next(self._order))
        heapq.heappush(self._sleepers, me)
        try:
            for _ in range(_SETTLE):
                await asyncio.sleep(0)
            while self._sleepers[0] != me:  # noqa: ASYNC110 - the end of the others is no event
                await asyncio.sleep(0)
        finally:
            self._sleepers.remove(me)
            heapq.heapify(self._sleepers)
        self._now = max(self._now, me[0])
