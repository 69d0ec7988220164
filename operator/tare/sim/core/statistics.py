"""What a run's samples say: mean, batch-means interval, squared variation, 99th percentile.

Samples of one run depend on each other (a long queue is followed by a long queue), so that the
usual interval is too narrow. Means of 20 long batches are nearly independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from operator import mul
from typing import TYPE_CHECKING, Final

from tare.measure.intervals import interval

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SampleSummary", "batch_means", "summarize"]

_BATCHES: Final = 20
_AT_LEAST: Final = 2 * _BATCHES
_T: Final = 2.093
"""Student's t for 19 degrees of freedom, with the digits that published tables were made with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleSummary:
    """One observation of a run; every number but `count` is None when there are too few samples."""

    count: int
    mean: float | None
    half_width: float | None
    """Of the 95 % interval by batch means; None below 40 samples."""
    squared_variation: float | None
    """Variance / mean²: 0 for constants, 1 for an exponential distribution."""
    p99: float | None


def summarize(samples: Sequence[float]) -> SampleSummary:
    """Reduce the samples of a run, which are in order of time."""
    count = len(samples)
    if not count:
        return SampleSummary(count=0, mean=None, half_width=None, squared_variation=None, p99=None)
    mean = sum(samples) / count
    deviations = [sample - mean for sample in samples]
    variance = sum(map(mul, deviations, deviations)) / max(1, count - 1)
    return SampleSummary(
        count=count,
        mean=mean,
        half_width=batch_means(samples),
        squared_variation=variance / mean**2 if mean else None,
        p99=sorted(samples)[max(0, math.ceil(0.99 * count) - 1)],
    )


def batch_means(samples: Sequence[float]) -> float | None:
    """Return the half-width of the 95 % interval of the mean; what fills no batch is left out."""
    if len(samples) < _AT_LEAST:
        return None
    size = len(samples) // _BATCHES
    means = [sum(samples[k * size : (k + 1) * size]) / size for k in range(_BATCHES)]
    found = interval(means)
    return _T * found.stddev / math.sqrt(_BATCHES) if found else None
