"""Drives the engine with the real clock: one alarm for the next due token of all requests.

A timer per token would cost more than the token, and event loops round timers to milliseconds,
which alone would use up the promised timing error. So the kernel's timerfd wakes the loop; where it
does not exist (macOS) the loop's own timer does, with its millisecond.
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from tare.sim.core.engine import Engine
    from tare.sim.core.generations import Generation

__all__ = ["RealTime"]

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1
_NS = 1_000_000_000


class _Alarm(Protocol):
    def set(self, at_ns: int) -> None:
        """Ring at this time of the monotonic clock instead of any earlier setting."""

    def close(self) -> None:
        """Ring no more."""


class _KernelAlarm:
    """Linux timerfd (timerfd_create(2)): microseconds; `os.timerfd_create` needs Python 3.13."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._file = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        # struct itimerspec: interval (s, ns), first expiration (s, ns)
        self._spec = (ctypes.c_long * 4)()
        self._loop = loop
        self._ring = ring
        loop.add_reader(self._file, self._on_readable)

    def set(self, at_ns: int) -> None:
        self._spec[2], self._spec[3] = divmod(at_ns, _NS)
        self._libc.timerfd_settime(self._file, _TFD_TIMER_ABSTIME, self._spec, None)

    def close(self) -> None:
        self._loop.remove_reader(self._file)
        os.close(self._file)

    def _on_readable(self) -> None:
        try:
            os.read(self._file, 8)
        except BlockingIOError:  # it was set anew since the loop saw it
            return
        self._ring()


class _LoopAlarm:
    """The event loop's own timer, for systems without timerfd."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    def set(self, at_ns: int) -> None:
        self.close()
        delay = max(0, at_ns - time.monotonic_ns()) / _NS
        self._timer = self._loop.call_later(delay, self._ring)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


class RealTime:
    """The engine on `time.monotonic_ns`; its calls are those of the engine without the time."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        engine.tells_first = True
        alarm = _KernelAlarm if sys.platform == "linux" else _LoopAlarm
        self._alarm: _Alarm = alarm(loop, self._on_alarm)
        self._set_for: int | None = None
        self._closed = False

    def submit(self, generation: Generation) -> None:
        """Take a request in now; see `Engine.submit`.

        What became due while it was read is told before, not after all that were read with it.
        """
        now = time.monotonic_ns()
        if self._set_for is not None and self._set_for <= now:
            self.engine.advance(now)
        self.engine.submit(now, generation)
        self._wake_when_due()

    def abort(self, generation: Generation) -> None:
        """End a request now; see `Engine.abort`."""
        self.engine.abort(time.monotonic_ns(), generation)
        self._wake_when_due()

    def close(self) -> None:
        """Stop the clock: no listener is told anything any more."""
        self._closed = True
        self._alarm.close()

    def _on_alarm(self) -> None:
        self._set_for = None
        self.engine.advance(time.monotonic_ns())
        self._wake_when_due()

    def _wake_when_due(self) -> None:
        due = None if self._closed else self.engine.next_due()
        # An alarm that rings too early finds nothing to do and costs less than setting it back.
        if due is not None and (self._set_for is None or due < self._set_for):
            self._set_for = due
            self._alarm.set(due)
