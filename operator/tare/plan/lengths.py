"""Token lengths of the prompts of a synthetic dataset.

The length of an entry depends on the seed, the entry and what is measured, never on who asks: all
workers, the operator's cache plan and a later run of the same manifest get the same one.
"""

from __future__ import annotations

from itertools import accumulate
from statistics import NormalDist
from typing import TYPE_CHECKING

from tare.plan.stream import integer_below, open_unit

if TYPE_CHECKING:
    from tare.plan.order import Lengths

__all__ = ["draw"]


def draw(lengths: Lengths, *, seed: int, entry: int, purpose: str) -> int:
    """Return the length of dataset entry `entry` in tokens.

    A normal draw is rounded and cut off at one token. `purpose` (`isl`, `osl`) keeps the lengths
    of prompt and answer independent.

    Raises:
        ValueError: `lengths` gives no distribution.
    """
    if lengths.value is not None:
        return lengths.value
    if lengths.mean is not None:
        return _normal(lengths.mean, lengths.stddev, open_unit(seed, purpose, entry))
    if lengths.min is not None and lengths.max is not None:
        span = lengths.max - lengths.min + 1
        return lengths.min + integer_below(span, seed, purpose, entry)
    if lengths.values:
        return _weighted(lengths.values, lengths.weights, open_unit(seed, purpose, entry))
    raise ValueError(f"{purpose}: give a number, mean and stddev, min and max, or values")


def _normal(mean: float, stddev: float, unit: float) -> int:
    value = NormalDist(mean, stddev).inv_cdf(unit) if stddev else mean
    return max(round(value), 1)


def _weighted(values: tuple[int, ...], weights: tuple[float, ...], unit: float) -> int:
    ends = list(accumulate(weights or (1.0,) * len(values)))
    pairs = zip(values, ends, strict=True)
    return next((value for value, end in pairs if unit * ends[-1] < end), values[-1])
