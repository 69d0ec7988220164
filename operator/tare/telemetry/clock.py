"""The clock that everything waits on, so that tests wait on another one.

Durations are taken from `now`, which never jumps; `wall` is only for time stamps that people read.
Whoever waits takes a `Clock` as an argument instead of calling `time` or `asyncio.sleep`: a retry
budget of a minute is then tested in a millisecond.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Time, as seen and as waited for."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        ...

    def wall(self) -> datetime:
        """Time of day in UTC."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields to other tasks."""
        ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> float:
        """Monotonic seconds; only differences mean anything."""
        return time.monotonic()

    def wall(self) -> datetime:
        """Time of day in UTC."""
        return datetime.now(UTC)

    async def sleep(self, seconds: float) -> None:
        """Wait; zero or less only yields to other tasks."""
        await asyncio.sleep(max(seconds, 0.0))
