"""One side of a comparison: what one run measured in one cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tare.api.reasons import Reason
from tare.measure.counts import Count
from tare.measure.merge import add_counts
from tare.measure.trial import TrialSummary

__all__ = ["Measure", "Side"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """What is compared: one statistic of one metric."""

    metric: str
    statistic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The measured trials of one cell of one run; their order means nothing."""

    trials: tuple[TrialSummary, ...]
    """At least one."""
    cache: Reason | None = None
    """What is known of the cache of its worst trial."""
    prompts: Mapping[str, Any] = field(default_factory=dict)
    """The dataset as a worker described it."""

    def values(self, measure: Measure) -> list[float]:
        """Return the value of each trial, in ascending order; of trials without one nothing."""
        found = (t.metrics.get(measure.metric, {}).get(measure.statistic) for t in self.trials)
        return sorted(value for value in found if value is not None)

    def count(self, name: Count) -> int:
        """Return a count over all trials."""
        return add_counts(trial.counts for trial in self.trials).get(name, 0)

    @property
    def success_rate(self) -> float | None:
        """Share of the issued requests that were answered well; None when nothing was issued.

        Requests that were cancelled on purpose count as not issued.
        """
        issued = self.count(Count.ISSUED) - self.count(Count.PLANNED_CANCEL)
        return self.count(Count.OK) / issued if issued else None
