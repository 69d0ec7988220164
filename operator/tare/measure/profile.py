"""The profiling phases of a trial as one, and the metrics that follow from them.

All latencies are those of ok requests; a failed one is in the counts and in no latency. A metric
that cannot be computed (nothing streamed, nothing issued) is left out, never 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.measure.counts import Count
from tare.measure.histogram import Histogram
from tare.measure.merge import add_counts, merge_histograms
from tare.measure.metrics import METRICS, PERCENTILES, SCALAR_STATISTIC, Kind, Unit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tare.measure.cost import Cost
    from tare.measure.messages import PhaseResult

__all__ = ["NANOSECONDS", "Profile"]

NANOSECONDS: Final = 1e9
"""In a second."""

_KIND: Final = "profiling"


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Everything that was measured while profiling."""

    counts: Mapping[str, int]
    errors: Mapping[str, int]
    """Error kind to number of requests."""
    histograms: Mapping[str, Histogram]
    window: float
    """Seconds from the gate to the end of sending, over all profiling phases."""
    drain: float
    """Seconds in which only answers were awaited, and no profiling phase sent."""

    @classmethod
    def of(cls, phases: Sequence[PhaseResult]) -> Profile:
        """Take the profiling phases out of a trial's merged phases and add them up."""
        profiling = [phase for phase in phases if phase.kind == _KIND]
        return cls(
            counts=add_counts(phase.counts for phase in profiling),
            errors=add_counts(phase.errors for phase in profiling),
            histograms=merge_histograms(phase.histograms for phase in profiling),
            window=sum(phase.seconds for phase in profiling),
            drain=_drain(phases),
        )

    def count(self, name: Count) -> int:
        """Return one count; 0 when no worker kept it."""
        return self.counts.get(name, 0)

    def share(self, name: Count, of: Count) -> float | None:
        """Return one count as a share of another; None when that is 0."""
        return _quotient(self.count(name), self.count(of))

    def metrics(
        self, *, goodput: Mapping[str, float], cost: Cost | None
    ) -> dict[str, dict[str, float]]:
        """Return metric to statistic to value; times in seconds."""
        scalars = (*self._rates(), *self._shares(), *self._goodput(goodput), *self._costs(cost))
        return self._distributions() | {
            name: {SCALAR_STATISTIC: value} for name, value in scalars if value is not None
        }

    def _distributions(self) -> dict[str, dict[str, float]]:
        return {
            name: _statistics(histogram, METRICS[name].unit)
            for name, histogram in self.histograms.items()
            if name in METRICS and METRICS[name].kind is Kind.DISTRIBUTION and histogram.count
        }

    def _rates(self) -> Iterator[tuple[str, float | None]]:
        drained = self.window + self.drain
        tokens = self._sum("output_tokens")
        rates = (
            ("request_throughput", self.count(Count.OK_IN_WINDOW), self.window),
            ("output_token_throughput", self.count(Count.OUTPUT_TOKENS_IN_WINDOW), self.window),
            ("prompt_token_throughput", self.count(Count.PROMPT_TOKENS_IN_WINDOW), self.window),
            ("request_throughput_with_drain", self.count(Count.OK), drained),
            ("output_token_throughput_with_drain", tokens, drained),
        )
        for name, amount, seconds in rates:
            yield name, _quotient(amount, seconds)

    def _shares(self) -> Iterator[tuple[str, float | None]]:
        yield "error_rate", _quotient(self._judged - self.count(Count.OK), self._judged)
        mismatch = self.share(Count.OUTPUT_LENGTH_MISMATCH, Count.OK)
        yield "output_length_mismatch", mismatch
        yield "tokens_per_chunk", _quotient(self._sum("output_tokens"), self._sum("chunks"))

    def _goodput(self, limits: Mapping[str, float]) -> Iterator[tuple[str, float | None]]:
        """Without limits every ok request would be good, which nobody asked for."""
        if limits:
            yield "goodput", _quotient(self.count(Count.GOOD), self.window)
            yield "good_request_fraction", _quotient(self.count(Count.GOOD), self._judged)

    def _costs(self, cost: Cost | None) -> Iterator[tuple[str, float | None]]:
        if cost is not None:
            yield "monthly_cost", cost.monthly
            throughput = _quotient(self.count(Count.OUTPUT_TOKENS_IN_WINDOW), self.window)
            yield "cost_per_million_output_tokens", cost.per_million_tokens(throughput or 0.0)

    @property
    def _judged(self) -> int:
        """Issued requests but for those that were cancelled on purpose."""
        return self.count(Count.ISSUED) - self.count(Count.PLANNED_CANCEL)

    def _sum(self, name: str) -> int:
        return self.histograms[name].sum if name in self.histograms else 0


def _statistics(histogram: Histogram, unit: Unit) -> dict[str, float]:
    scale = NANOSECONDS if unit is Unit.SECONDS else 1
    values = {
        "mean": histogram.mean,
        **{name: histogram.percentile(percent) for name, percent in PERCENTILES.items()},
        "min": histogram.minimum,
        "max": histogram.maximum,
        "stddev": histogram.stddev,
    }
    return {name: value / scale for name, value in values.items() if value is not None}


def _drain(phases: Sequence[PhaseResult]) -> float:
    """Add up the time beside the windows in which answers of profiling were awaited.

    That of a seamless phase may lie in the window of the next one, and is counted there.
    """
    total = left = 0.0
    for phase in phases:
        if phase.kind == _KIND:
            left = max(left - phase.seconds, phase.drain_seconds)
        else:
            total += min(left, phase.seconds)
            left = max(left - phase.seconds, 0.0)
        if not phase.seamless:
            total, left = total + left, 0.0
    return total


def _quotient(amount: float, of: float) -> float | None:
    return amount / of if of else None
