"""Work on what was read, put off until every socket that has something was read.

A read's time stamp is right only when the read is made as soon as its bytes are there. When many
streams bring something at once, the stamp of the last one would be late by the work on all others:
parsing, recording, sending the next request. So a read is stamped and queued, and the queue is
worked on for a moment in each turn of the event loop, between two looks at the sockets. The order
stays that of the reads.
"""

from __future__ import annotations

import asyncio
from collections import deque
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, ClassVar, Final
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Reads"]

_MOMENT: Final = 50_000
"""Nanoseconds of work between two looks at the sockets, and so what a stamp may be late by.

Each look costs as much as half an event; there is always one piece of work between two of them.
"""
_TURNS: Final = 64
"""Turns of the event loop in which a backlog is worked off, unless there is more by then.

A client that cannot keep up must show it: the more waits, the longer a turn takes, and that is
what the event-loop lag is made of.
"""


class Reads:
    """The work that waits in one event loop."""

    _of_loop: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, Reads]] = WeakKeyDictionary()

    def __init__(self, clock: Callable[[], int] = monotonic_ns) -> None:
        self._clock = clock
        self._waiting: deque[tuple[Callable[[int, Any], None], int, Any]] = deque()

    @classmethod
    def of_running_loop(cls) -> Reads | None:
        """Return those of the running loop; None where there is none."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return None
        return cls._of_loop.setdefault(loop, cls())

    def put(self, work: Callable[[int, Any], None], at: int, what: Any) -> None:
        """Have `work` called with a moment and what came then."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._turn)
        self._waiting.append((work, at, what))

    def _turn(self) -> None:
        waiting = self._waiting
        most_left = len(waiting) - len(waiting) // _TURNS
        ends = self._clock() + _MOMENT
        try:
            while waiting:
                work, at, what = waiting.popleft()
                work(at, what)
                if self._clock() >= ends and len(waiting) <= most_left:
                    break
        finally:
            if waiting:
                asyncio.get_running_loop().call_soon(self._turn)
