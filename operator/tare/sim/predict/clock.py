"""A clock that jumps from one event to the next; whoever calls back late has no place here."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["VirtualClock", "VirtualTimer"]

_NS: Final = 1_000_000_000


class VirtualTimer:
    """A call that has been arranged."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Take it back."""
        self.callback = None


class VirtualClock:
    """Time in nanoseconds, and what is to happen; calls of one moment come in their order."""

    def __init__(self) -> None:
        # 0 stands for "did not happen" in the records of requests.
        self._now = _NS
        self._timers: list[tuple[int, int, VirtualTimer]] = []
        self._arranged = 0

    def now(self) -> int:
        """Return the time."""
        return self._now

    def call_later(self, seconds: float, callback: Callable[[], object]) -> VirtualTimer:
        """Call back after exactly `seconds`, rounded to nanoseconds."""
        timer = VirtualTimer(callback)
        self._arranged += 1
        at = self._now + max(round(seconds * _NS), 0)
        heapq.heappush(self._timers, (at, self._arranged, timer))
        return timer

    def next_at(self) -> int | None:
        """Return when the next call is due; None when there is none."""
        timers = self._timers
        while timers and timers[0][2].callback is None:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def move_to(self, at: int) -> None:
        """Let it be `at`, which is no time before now."""
        self._now = max(self._now, at)

    def call_next(self) -> None:
        """Jump to the next call and make it."""
        at = self.next_at()
        if at is not None:
            self.move_to(at)
            callback = heapq.heappop(self._timers)[2].callback
            assert callback is not None
            callback()
