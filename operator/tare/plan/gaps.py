"""Random gaps between arrivals, with a mean of one, from streams that only the seed decides on.

They are drawn one by one and never corrected afterwards: gaps that are rescaled so that the last
one ends on time vary less than the process they stand for.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from tare.plan.stream import open_units

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["exponential_gaps", "gamma_gaps"]


def exponential_gaps(seed: int, purpose: str) -> Iterator[float]:
    """Yield the gaps of a Poisson process without end."""
    log = math.log
    return (-log(unit) for unit in open_units(seed, purpose))


def gamma_gaps(seed: int, purpose: str, shape: float) -> Iterator[float]:
    """Yield gamma-distributed gaps without end.

    Their coefficient of variation is 1 / sqrt(shape), for any `shape` above 0. Marsaglia and
    Tsang's rejection method; a shape below 1 is drawn as one above it and shrunk by a power of a
    uniform number. https://doi.org/10.1145/358407.358414
    """
    units = open_units(seed, purpose)
    boost = 1.0 if shape < 1 else 0.0
    d = shape + boost - 1 / 3
    c = 1 / math.sqrt(9 * d)
    inverse = NormalDist().inv_cdf
    while True:
        x = inverse(next(units))
        v = (1 + c * x) ** 3
        if v <= 0 or math.log(next(units)) >= x * x / 2 + d - d * v + d * math.log(v):
            continue
        gap = d * v / shape
        yield gap * next(units) ** (1 / shape) if boost else gap
