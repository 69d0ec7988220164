"""One trial as its workers measured it together: what is stored, judged and shown.

The summary keeps the merged phases, so that whatever else is asked later can be computed from it;
its metrics are those of the profiling phases (`measure.profile`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tare.measure.concerns import Concern, find_concerns
from tare.measure.histogram import Histogram
from tare.measure.merge import merge_phases
from tare.measure.messages import PhaseResult
from tare.measure.profile import NANOSECONDS, Profile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tare.measure.cost import Cost
    from tare.measure.messages import WorkerResult

__all__ = ["ClientHealth", "TrialSummary", "summarize"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientHealth:
    """How much the measuring client itself was in the way."""

    workers: int
    event_loop_lag_p99: float | None = None
    """Seconds, of the worker that was worst: an average would hide it."""
    event_loop_lag_max: float | None = None
    cpu_seconds: float = 0.0
    """Of all workers."""
    gc_pause_max: float | None = None
    """Seconds: the longest pause of the garbage collector in any worker."""
    gc_pause_seconds: float = 0.0
    """All pauses of all workers together."""
    connections_opened: int = 0
    """While profiling: connections that were not open before, and cost their requests a wait."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSummary:
    """Result of one trial."""

    phases: tuple[PhaseResult, ...]
    """Every phase, merged over the workers."""
    counts: Mapping[str, int]
    """Of the profiling phases together; they stand beside every number."""
    metrics: Mapping[str, Mapping[str, float]]
    """Metric to statistic to value, of the profiling phases; times in seconds."""
    client: ClientHealth
    complete: bool = True
    """False when a worker was stopped before its end."""
    concerns: tuple[Concern, ...] = ()
    """Why the numbers need care."""

    def without_rows(self) -> TrialSummary:
        """Leave the single requests out: those of all trials of a run would fill the memory."""
        return replace(self, phases=tuple(replace(phase, rows={}) for phase in self.phases))


def summarize(
    results: Sequence[WorkerResult], *, goodput: Mapping[str, float], cost: Cost | None
) -> TrialSummary:
    """Merge the results of all workers of a trial and compute its metrics.

    Args:
        results: one of each worker, in any order.
        goodput: metric to limit in seconds; the goodput metrics exist only if there are limits.
        cost: price of the service; the cost metrics exist only if it is given.

    Raises:
        ValueError: the results are of different orders, or a histogram is none.
    """
    phases = merge_phases(results)
    profile = Profile.of(phases)
    client = _client_health(results, phases)
    return TrialSummary(
        phases=phases,
        counts=profile.counts,
        metrics=profile.metrics(goodput=goodput, cost=cost),
        client=client,
        complete=all(result.complete for result in results),
        concerns=find_concerns(profile, event_loop_lag_p99=client.event_loop_lag_p99),
    )


def _client_health(results: Sequence[WorkerResult], phases: Sequence[PhaseResult]) -> ClientHealth:
    lags = [Histogram.from_json(result.event_loop_lag) for result in results]
    pauses = [Histogram.from_json(result.gc_pauses) for result in results]
    return ClientHealth(
        workers=len(results),
        event_loop_lag_p99=_worst(lag.percentile(99) for lag in lags),
        event_loop_lag_max=_worst(lag.maximum for lag in lags),
        cpu_seconds=sum(result.cpu_seconds for result in results),
        gc_pause_max=_worst(pause.maximum for pause in pauses),
        gc_pause_seconds=sum(pause.sum for pause in pauses) / NANOSECONDS,
        connections_opened=sum(
            phase.connections_opened for phase in phases if phase.kind == "profiling"
        ),
    )


def _worst(lags: Iterable[int | None]) -> float | None:
    known = [lag for lag in lags if lag is not None]
    return max(known) / NANOSECONDS if known else None
