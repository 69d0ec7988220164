"""The Prometheus series of benchmark runs, within a budget.

A run's series are plain values that a collector turns into metric families when Prometheus asks, so
that a run's end, or its deletion, cannot leave a stale series behind: what is not held is not
exported. Labels are names from the manifest; none holds a UID, a URL or an error text.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "FINISHED_SECONDS",
    "HEADLINES",
    "MAX_CELLS",
    "MAX_SERIES",
    "Headline",
    "LiveCell",
    "RunName",
    "RunSeries",
    "RunState",
]

MAX_CELLS = 24
"""Cells of one run that get headline series; status and results have them all."""
MAX_SERIES = 20_000
"""Series in all."""
FINISHED_SECONDS = 3600.0
"""How long a finished run keeps the series of its cells."""


@dataclass(frozen=True, slots=True)
class RunName:
    """Namespace and name: the labels of every series of a run."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """What is exported of a run for as long as it exists: at most ten series."""

    model: str
    server: str
    phase: str
    """`status.phase`."""
    cells: Mapping[str, int]
    """State of a cell to number of cells."""
    goals_met: bool | None = None
    """None, and no series, while it is not decided."""
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveCell:
    """The cell that is being measured right now; totals are since its phase began."""

    cell: str
    phase: str
    in_flight: int
    issued: int
    ok: int
    failed: int
    ttft_p50: float | None = None
    """Seconds; None before the first token of the phase."""
    ttft_p99: float | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """One exported statistic of a measured cell."""

    metric: str
    statistic: str
    suffix: str
    """Unit at the end of the series' name."""
    help: str

    @property
    def series(self) -> str:
        """Name of the series."""
        return f"tare_cell_{self.metric}{self.suffix}"


HEADLINES = (
    Headline("time_to_first_token", "p50", "_seconds", "Send to first text of ok requests."),
    Headline("time_to_first_token", "p99", "_seconds", "Send to first text of ok requests."),
    Headline("request_latency", "p99", "_seconds", "Send to last text of ok requests."),
    Headline("request_throughput", "mean", "", "Ok requests per second of the profiling phase."),
    Headline("output_token_throughput", "mean", "", "Output tokens per second of the phase."),
    Headline("error_rate", "mean", "_ratio", "Requests that were not ok, of all issued."),
)
"""Six for each cell: 24 cells make 144 of a run's 200 series."""


@dataclass(slots=True)
class _Run:
    state: RunState
    cells: dict[str, dict[Headline, float]] = field(default_factory=dict)
    live: LiveCell | None = None
    finished_at: float | None = None


class RunSeries(Collector):
    """Holds the series of all runs and yields them to a scrape.

    Beyond the budget the runs that were updated longest ago lose theirs, and `on_evicted` is told
    how many series went. Safe to scrape in a thread while the event loop updates.
    """

    def __init__(
        self, *, clock: Callable[[], float], budget: int, on_evicted: Callable[[int], None]
    ) -> None:
        self._clock = clock
        self._on_evicted = on_evicted
        self._budget = budget
        self._lock = threading.Lock()
        self._runs: dict[RunName, _Run] = {}

    def update(self, name: RunName, state: RunState) -> None:
        """Say how a run stands; it becomes the most recently updated one."""
        with self._lock:
            run = self._runs.pop(name, None) or _Run(state)
            run.state = state
            if state.finished:
                run.live = None
                run.finished_at = self._clock() if run.finished_at is None else run.finished_at
            self._runs[name] = run
            self._enforce()

    def measured(
        self, name: RunName, cell: str, values: Mapping[str, Mapping[str, float | None]]
    ) -> None:
        """Publish a measured cell: metric to statistic to value; only `HEADLINES` are taken.

        Nothing happens for an unknown run, and for cells after the first `MAX_CELLS`.
        """
        with self._lock:
            run = self._runs.get(name)
            if run is None or (cell not in run.cells and len(run.cells) >= MAX_CELLS):
                return
            found = ((line, values.get(line.metric, {}).get(line.statistic)) for line in HEADLINES)
            run.cells[cell] = {
                line: value for line, value in found if value is not None and math.isfinite(value)
            }
            self._enforce()

    def live(self, name: RunName, cell: LiveCell | None) -> None:
        """Show the cell that is being measured, or that none is; unknown runs are left out."""
        with self._lock:
            run = self._runs.get(name)
            if run is not None and not run.state.finished:
                run.live = cell
                self._enforce()

    def forget(self, name: RunName) -> None:
        """Remove every series of a run that was deleted."""
        with self._lock:
            self._runs.pop(name, None)

    def describe(self) -> list[Metric]:
        """Return nothing: the registry then does not ask for a scrape to learn the names."""
        return []

    @override
    def collect(self) -> Iterator[Metric]:
        """Yield the families of all runs."""
        with self._lock:
            self._thin_out()
            families = _Families()
            for name, run in self._runs.items():
                _add_run(families, name, run)
        yield from families.values()

    def _thin_out(self) -> None:
        """Drop the cells of runs that finished an hour ago."""
        now = self._clock()
        for run in self._runs.values():
            if run.finished_at is not None and now - run.finished_at >= FINISHED_SECONDS:
                run.cells.clear()

    def _enforce(self) -> None:
        total = sum(_count(run) for run in self._runs.values())
        if total <= self._budget:
            return
        self._thin_out()
        total = sum(_count(run) for run in self._runs.values())
        while total > self._budget and self._runs:
            gone = _count(self._runs.pop(next(iter(self._runs))))
            self._on_evicted(gone)
            total -= gone


class _Families(dict[str, GaugeMetricFamily]):
    """Families by name, created with their first sample."""

    def add(self, name: str, text: str, labels: Mapping[str, str], value: float) -> None:
        family = self.get(name)
        if family is None:
            family = self[name] = GaugeMetricFamily(name, text, labels=tuple(labels))
        family.add_metric(tuple(labels.values()), value)


def _count(run: _Run) -> int:
    """Number of series that `_add_run` yields."""
    live = 0
    if run.live is not None:
        quantiles = (run.live.ttft_p50, run.live.ttft_p99)
        live = 4 + sum(value is not None for value in quantiles)
    goals = run.state.goals_met is not None
    return 2 + len(run.state.cells) + goals + live + sum(map(len, run.cells.values()))


def _add_run(families: _Families, name: RunName, run: _Run) -> None:
    labels = {"namespace": name.namespace, "run": name.name}
    state = run.state
    families.add(
        "tare_run_info",
        "A run; its value is always 1.",
        {**labels, "model": state.model, "server": state.server},
        1,
    )
    families.add("tare_run_phase", "Phase that a run is in.", {**labels, "phase": state.phase}, 1)
    for cell_state, number in state.cells.items():
        families.add(
            "tare_run_cells", "Cells of a run by state.", {**labels, "state": cell_state}, number
        )
    if state.goals_met is not None:
        families.add(
            "tare_run_goals_met", "1 when every goal is met, else 0.", labels, state.goals_met
        )
    for cell, headlines in run.cells.items():
        for line, value in headlines.items():
            families.add(
                line.series, line.help, {**labels, "cell": cell, "statistic": line.statistic}, value
            )
    if run.live is not None:
        _add_live(families, labels, run.live)


def _add_live(families: _Families, labels: Mapping[str, str], live: LiveCell) -> None:
    labels = {**labels, "cell": live.cell, "phase": live.phase}
    families.add(
        "tare_live_in_flight", "Requests in flight in the current phase.", labels, live.in_flight
    )
    for state in ("issued", "ok", "failed"):
        families.add(
            "tare_live_requests",
            "Requests of the current phase so far.",
            {**labels, "state": state},
            getattr(live, state),
        )
    for statistic, value in (("p50", live.ttft_p50), ("p99", live.ttft_p99)):
        if value is not None:
            families.add(
                "tare_live_time_to_first_token_seconds",
                "Send to first text in the current phase so far.",
                {**labels, "statistic": statistic},
                value,
            )
