"""Confidence intervals of a mean over a few trials.

Three trials are far from normal: Student's t gives 4.30 standard errors where z gives 1.96. The
distribution for whole degrees of freedom is a finite sum, so no statistics library is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CONFIDENCE", "Interval", "interval", "t_quantile"]

CONFIDENCE: Final = 0.95

_AT_LEAST: Final = 2
# Each step halves the error, and a double has 53 bits.
_STEPS: Final = 60


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


@cache
def t_quantile(freedom: int, confidence: float = CONFIDENCE) -> float:
    """Return t with P(-t < T < t) = `confidence` for `freedom` degrees of freedom.

    Raises:
        ValueError: no degree of freedom, or a confidence outside of 0 … 1.
    """
    if freedom < 1 or not 0 < confidence < 1:
        raise ValueError(f"t for {freedom} degrees of freedom at {confidence}: not defined")
    low, high = 0.0, math.pi / 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        if _central_probability(middle, freedom) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _central_probability(angle: float, freedom: int) -> float:
    """Return P(-t < T < t) for t = sqrt(freedom) * tan(angle).

    Abramowitz and Stegun, 26.7.3 and 26.7.4:
    https://personal.math.ubc.ca/~cbm/aands/page_948.htm
    """
    cosine = math.cos(angle)
    odd = freedom % 2
    term = cosine if odd else 1.0
    total = 0.0
    for power in range(1 + odd, freedom, 2):
        total += term
        term *= cosine * cosine * power / (power + 1)
    total *= math.sin(angle)
    return (angle + total) * 2 / math.pi if odd else total
