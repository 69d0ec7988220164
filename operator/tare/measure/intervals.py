"""Confidence intervals of a mean over a few trials, and Student's t.

Three trials are far from normal: Student's t gives 4.30 standard errors where z gives 1.96.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

from tare.measure.beta import incomplete_beta

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CONFIDENCE", "Interval", "interval", "t_quantile", "t_tails"]

CONFIDENCE: Final = 0.95

_AT_LEAST: Final = 2
# Each step halves the error, and a double has 53 bits.
_STEPS: Final = 60
_REMEMBERED: Final = 256
"""Quantiles; those of whole numbers are asked for again and again, Welch's once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A mean and how far the true one may be from it."""

    mean: float
    stddev: float
    """Of the sample (divided by n - 1)."""
    half_width: float
    """The interval is `mean` plus and minus this."""
    count: int


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> Interval | None:
    """Return mean +- t * s / sqrt(n), or None for fewer than two values.

    It assumes that the values are independent: trials on a cache that earlier ones have filled are
    not, and are marked by the caller.
    https://www.itl.nist.gov/div898/handbook/eda/section3/eda352.htm
    """
    if len(values) < _AT_LEAST:
        return None
    deviation = stdev(values)
    t = t_quantile(len(values) - 1, confidence)
    return Interval(
        mean=fmean(values),
        stddev=deviation,
        half_width=t * deviation / math.sqrt(len(values)),
        count=len(values),
    )


@lru_cache(_REMEMBERED)
def t_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Return t with P(-t < T < t) = `confidence` for `freedom` degrees of freedom.

    Raises:
        ValueError: less than one degree of freedom, or a confidence outside of 0 … 1.
    """
    if freedom < 1 or not 0 < confidence < 1:
        raise ValueError(f"t for {freedom} degrees of freedom at {confidence}: not defined")
    low, high = 0.0, math.pi / 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        # t = sqrt(freedom) * tan(angle), so that the sought value lies in a bounded range.
        if incomplete_beta(0.5, freedom / 2, math.sin(middle) ** 2) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def t_tails(t: float, freedom: float) -> float:
    """Return P(|T| > |t|) for `freedom` degrees of freedom: the p-value of a two-sided test.

    https://dlmf.nist.gov/8.17 with Abramowitz and Stegun, 26.7.1:
    https://personal.math.ubc.ca/~cbm/aands/page_948.htm
    """
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))
