"""What the operator tells Prometheus: its own health, and the runs.

One `Metrics` is made at the start and passed around; there is no global registry. Runs are in
`run_series`, which keeps them within a budget. `render` may run in a thread.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

from tare.telemetry.run_series import MAX_SERIES, LiveCell, RunName, RunSeries, RunState

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
"""Content type of `Metrics.render`."""

_FAST = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_CALLS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
_OWN_SERIES = 200
"""Room for the operator's own series within the budget of all."""


class Metrics:
    """The operator's registry and everything that is counted into it."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, budget: int = MAX_SERIES
    ) -> None:
        # `_created` series double the exposition and no dashboard reads them; the library offers
        # this only for the whole process.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self.series_evicted = self._counter(
            "tare_series_evicted", "Series of runs dropped because the budget was used up."
        )
        self.hook_calls = self._counter(
            "tare_hook_calls", "POSTs of control hooks to replicas.", "hook", "outcome"
        )
        self.requests = self._counter("tare_requests", "Requests of finished trials.", "outcome")
        self.inbox_requests = self._counter(
            "tare_operator_inbox_requests", "Requests of workers.", "message", "code"
        )
        self.workers_connected = Gauge(
            "tare_operator_workers_connected",
            "Workers that hold a request open at the inbox.",
            registry=self.registry,
        )
        self.reaction_seconds = self._histogram(
            "tare_operator_reaction_seconds",
            "From the news of a run to the commands that follow, status write included.",
            _CALLS,
        )
        self.decision_seconds = self._histogram(
            "tare_operator_decision_seconds", "Time of one decision on a run.", _FAST
        )
        self.event_loop_lag_seconds = self._histogram(
            "tare_operator_event_loop_lag_seconds", "How late the event loop woke up.", _FAST
        )
        self.status_patch_seconds = self._histogram(
            "tare_operator_status_patch_seconds", "Time of one patch of a run's status.", _CALLS
        )
        self._runs = RunSeries(
            clock=clock, budget=budget - _OWN_SERIES, on_evicted=self.series_evicted.inc
        )
        self.registry.register(self._runs)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(name, text, buckets=buckets, registry=self.registry)

    def update_run(self, name: RunName, state: RunState) -> None:
        """Say how a run stands."""
        self._runs.update(name, state)

    def publish_cell(
        self, name: RunName, cell: str, values: Mapping[str, Mapping[str, float | None]]
    ) -> None:
        """Publish a measured cell: metric to statistic to value, times in seconds."""
        self._runs.measured(name, cell, values)

    def show_live(self, name: RunName, cell: LiveCell | None) -> None:
        """Show the cell that is being measured, or that none is."""
        self._runs.live(name, cell)

    def forget(self, name: RunName) -> None:
        """Remove all series of a deleted run."""
        self._runs.forget(name)

    def render(self) -> bytes:
        """Return the text exposition; takes milliseconds with many runs, so call it in a thread."""
        return generate_latest(self.registry)
