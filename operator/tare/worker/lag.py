"""How late the event loop runs: the client's own error, measured all the time.

A callback that should come every ten milliseconds comes late when something else holds the loop;
an answer that arrived meanwhile was stamped late by as much. Timers count whole milliseconds, so an
idle loop shows up to one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.measure.histogram import Histogram

if TYPE_CHECKING:
    from tare.worker.timers import Timer, Timers

__all__ = ["LagSampler"]

_PERIOD = 0.010
_PERIOD_NS = 10_000_000


class LagSampler:
    """Samples between `start` and `stop`, any number of times."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._timer: Timer | None = None
        self._expected = 0
        self._largest = 0
        self.histogram = Histogram()
        """Lag in nanoseconds."""

    def start(self) -> None:
        """Begin to sample."""
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """Stop sampling; the histogram stays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_largest(self) -> float:
        """Return the largest lag since the last call, in seconds."""
        largest, self._largest = self._largest, 0
        return largest / 1e9

    def _arm(self) -> None:
        self._expected = self._timers.now() + _PERIOD_NS
        self._timer = self._timers.call_later(_PERIOD, self._sample)

    def _sample(self) -> None:
        lag = max(self._timers.now() - self._expected, 0)
        self._largest = max(self._largest, lag)
        self.histogram.record(lag)
        self._arm()
