"""The regularised incomplete beta function, from which Student's t follows for any freedom.

Welch's degrees of freedom are no whole numbers, so the finite sums of tables do not do.
"""

from __future__ import annotations

import math
from itertools import count
from typing import Final

__all__ = ["incomplete_beta"]

_TINY: Final = 1e-300
"""Stands for a 0 in a denominator."""
_PRECISION: Final = 1e-15


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return I_x(a, b) for positive `a` and `b` and x from 0 to 1.

    The continued fraction converges fast left of the mean; right of it the symmetry
    I_x(a, b) = 1 - I_{1-x}(b, a) leads there.
    https://dlmf.nist.gov/8.17#v

    Raises:
        ValueError: outside of these ranges.
    """
    if a <= 0 or b <= 0 or not 0 <= x <= 1:
        raise ValueError(f"I_{x}({a}, {b}) is not defined")
    if x in (0, 1):
        return float(x)
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    logarithm = (
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    return math.exp(logarithm) / (a * _fraction(a, b, x))


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluate 1 + d_1 / (1 + d_2 / (1 + …)) from the front, by Lentz' method.

    https://dlmf.nist.gov/3.10#iii
    """
    value = upper = 1.0
    lower = 0.0
    for term in count(1):
        coefficient = _coefficient(a, b, x, term)
        lower = 1 / ((1 + coefficient * lower) or _TINY)
        upper = (1 + coefficient / upper) or _TINY
        value *= upper * lower
        if abs(upper * lower - 1) < _PRECISION:
            break
    return value


def _coefficient(a: float, b: float, x: float, term: int) -> float:
    """The d of equation 8.17.23 there."""
    m = term // 2
    if term % 2:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
