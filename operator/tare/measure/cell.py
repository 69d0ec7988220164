"""A cell: what its trials say together.

Each statistic is averaged over the trials (p99 of a cell is the mean of its trials' p99, with an
interval), because trials are the independent repetitions; requests of one trial are not. From
three trials on an interval is shown: with two it is 12.7 standard errors wide and says nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tare.measure.concerns import Concern
from tare.measure.intervals import interval
from tare.measure.merge import add_counts
from tare.measure.metrics import HEADLINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tare.api.reasons import Reason
    from tare.measure.trial import TrialSummary

__all__ = ["INTERVAL_FROM", "Aggregate", "CellSummary", "Headline", "aggregate", "headlines"]

INTERVAL_FROM: Final = 3
"""Trials from which on an interval is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregate:
    """One statistic over the trials of a cell."""

    mean: float
    trials: int
    """Trials that have the statistic; fewer than the cell's when one could not compute it."""
    stddev: float | None = None
    """Of the sample; None for one trial."""
    half_width: float | None = None
    """95 % confidence interval is `mean` plus and minus this; None below three trials."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellSummary:
    """Result of one cell."""

    trials: int
    counts: Mapping[str, int]
    """Of the profiling phases of all trials."""
    metrics: Mapping[str, Mapping[str, Aggregate]]
    """Metric to statistic to its aggregate; times in seconds."""
    concerns: tuple[Concern, ...] = ()
    """One of each reason; the message says in which trials."""

    def aggregate(self, metric: str, statistic: str) -> Aggregate | None:
        """Return one aggregate; None when no trial has it."""
        return self.metrics.get(metric, {}).get(statistic)

    def means(self) -> dict[str, dict[str, float]]:
        """Return metric to statistic to mean, as Prometheus exports them."""
        return {
            metric: {statistic: value.mean for statistic, value in statistics.items()}
            for metric, statistics in self.metrics.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One number of a cell's row in status."""

    metric: str
    statistic: str
    mean: float
    half_width: float | None


def aggregate(trials: Sequence[TrialSummary]) -> CellSummary:
    """Aggregate the measured trials of one cell."""
    values: dict[str, dict[str, list[float]]] = {}
    for trial in trials:
        for metric, statistics in trial.metrics.items():
            for statistic, value in statistics.items():
                values.setdefault(metric, {}).setdefault(statistic, []).append(value)
    return CellSummary(
        trials=len(trials),
        counts=add_counts(trial.counts for trial in trials),
        metrics={
            metric: {statistic: _aggregate(found) for statistic, found in statistics.items()}
            for metric, statistics in values.items()
        },
        concerns=_concerns(trial.concerns for trial in trials),
    )


def headlines(cell: CellSummary) -> tuple[Headline, ...]:
    """Return the numbers of a cell's row in status, those that exist."""
    found = ((metric, name, cell.aggregate(metric, name)) for metric, name in HEADLINES)
    return tuple(
        Headline(metric=metric, statistic=name, mean=value.mean, half_width=value.half_width)
        for metric, name, value in found
        if value is not None
    )


def _aggregate(values: Sequence[float]) -> Aggregate:
    spread = interval(values)
    shown = spread is not None and spread.count >= INTERVAL_FROM
    return Aggregate(
        mean=fmean(values),
        trials=len(values),
        stddev=spread.stddev if spread else None,
        half_width=spread.half_width if spread and shown else None,
    )


def _concerns(trials: Iterable[Sequence[Concern]]) -> tuple[Concern, ...]:
    """Keep the first message of each reason, and say where else it happened."""
    found: dict[Reason, list[tuple[int, Concern]]] = {}
    for number, concerns in enumerate(trials):
        for concern in concerns:
            found.setdefault(concern.reason, []).append((number, concern))
    return tuple(
        Concern(reason=reason, message=f"{_where(places)}: {places[0][1].message}")
        for reason, places in found.items()
    )


def _where(places: Sequence[tuple[int, Concern]]) -> str:
    first, *others = (number for number, _ in places)
    return f"Trial {first}" + (f" (also {', '.join(map(str, others))})" if others else "")
