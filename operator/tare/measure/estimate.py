"""An estimate with its standard error: what intervals and tests are made from.

Two ways lead to one: Welch's for two independent samples of trials, and batch means for the
requests of a trial, which are not independent of each other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, variance
from typing import TYPE_CHECKING, Final

from tare.measure.intervals import CONFIDENCE, t_quantile, t_tails

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["BATCHES", "LEAST_VALUES", "Estimate", "batch_means", "welch"]

BATCHES: Final = 10
"""Between 10 and 30 are advised whatever the number of values; few and long ones forget each other
best. B. Schmeiser, Batch size effects in the analysis of simulation output, 1982:
https://doi.org/10.1287/opre.30.3.556"""
LEAST_VALUES: Final = 5 * BATCHES
"""Below, a batch is hardly longer than what makes neighbours alike."""
_MOST_CORRELATION: Final = 0.8
"""Of neighbouring batches; above, the correction is larger than what it corrects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A value, its standard error, and the degrees of freedom of that."""

    value: float
    error: float
    freedom: float

    def half_width(self, confidence: float = CONFIDENCE) -> float:
        """Return what the interval has on either side of the value."""
        return t_quantile(self.freedom, confidence) * self.error if self.error else 0.0

    @property
    def p_value(self) -> float:
        """How likely a value so far from 0 is where the true one is 0."""
        if not self.error:
            return 0.0 if self.value else 1.0
        return t_tails(self.value / self.error, self.freedom)


def welch(baseline: Sequence[float], candidate: Sequence[float]) -> Estimate:
    """Estimate how much larger the mean of `candidate` is, each sample with a spread of its own.

    The samples are independent, and so are the values of each; at least two of each.
    https://www.itl.nist.gov/div898/handbook/eda/section3/eda353.htm
    """
    shares = [variance(sample) / len(sample) for sample in (baseline, candidate)]
    total = sum(shares)
    spread = sum(
        share**2 / (len(sample) - 1)
        for share, sample in zip(shares, (baseline, candidate), strict=True)
    )
    return Estimate(
        value=fmean(candidate) - fmean(baseline),
        error=math.sqrt(total),
        # At least that of the smaller sample; rounding must not leave it, and no spread has none.
        freedom=max(total**2 / spread, 1.0) if spread else 1.0,
    )


def batch_means(values: Sequence[float]) -> Estimate | None:
    """Estimate the mean of values that depend on those before them, given in their order.

    Values next to each other share a queue, so their spread says too little. The means of
    `BATCHES` long batches nearly forget each other, and what they remember, the correlation r of
    neighbours, widens the error by sqrt((1 + r) / (1 - r)), as N-Skart does:
    https://doi.org/10.1109/WSC.2009.5429565

    Simulated, the interval holds the true mean in 94 to 97 % of AR(1) series of 500 values with
    coefficients up to 0.97, and in 96 % and more of differences between two queues at the same load
    of 0.8, where plain batch means reach 88 to 95 %. It is too narrow where rare long jams make up
    a difference: with 5 % between the servers at that load it holds it in 73 to 84 %.

    None when there are fewer than `LEAST_VALUES`, or when the batches still move together: the
    trial is too short for what happened in it.
    """
    if len(values) < LEAST_VALUES:
        return None
    ends = [round(len(values) * number / BATCHES) for number in range(BATCHES + 1)]
    means = [fmean(values[a:b]) for a, b in pairwise(ends)]
    correlation = _correlation(means)
    if correlation > _MOST_CORRELATION:
        return None
    widened = math.sqrt((1 + correlation) / (1 - correlation))
    return Estimate(
        value=fmean(values),
        error=math.sqrt(variance(means) / BATCHES) * widened,
        freedom=BATCHES - 1,
    )


def _correlation(means: Sequence[float]) -> float:
    """Correlation of neighbours, not below 0, as the ratio of von Neumann tells it.

    In independent values it is -1 / n on average, which is added.
    https://doi.org/10.1214/aoms/1177731677
    """
    spread = variance(means) * (len(means) - 1)
    if not spread:
        return 0.0
    steps = sum((b - a) ** 2 for a, b in pairwise(means))
    return max(1 - steps / (2 * spread) + 1 / len(means), 0.0)
