"""How long the garbage collector holds the event loop, as it says itself."""

from __future__ import annotations

import gc
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

from tare.measure.histogram import Histogram

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["GcPauses"]


class GcPauses:
    """Measures between `start` and `stop`, any number of times."""

    def __init__(self, clock: Callable[[], int] = monotonic_ns) -> None:
        self._clock = clock
        self._began: int | None = None
        self.histogram = Histogram()
        """Pauses in nanoseconds."""

    def start(self) -> None:
        """Begin to measure."""
        if self._see not in gc.callbacks:
            gc.callbacks.append(self._see)

    def stop(self) -> None:
        """Stop measuring; the histogram stays."""
        if self._see in gc.callbacks:
            gc.callbacks.remove(self._see)
        self._began = None

    def _see(self, stage: str, info: dict[str, Any]) -> None:  # noqa: ARG002 - gc.callbacks
        if stage == "start":
            self._began = self._clock()
        elif self._began is not None:
            self.histogram.record(self._clock() - self._began)
            self._began = None
