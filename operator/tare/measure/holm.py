"""Holm's correction for looking at several metrics at once.

Of twenty metrics without any difference one shows p < 0.05 by chance. Holm's step-down method
bounds the chance of a single such find in the whole family, whatever the metrics have to do with
each other, and never claims less than Bonferroni's does.
S. Holm, A simple sequentially rejective multiple test procedure, 1979:
https://www.jstor.org/stable/4615733
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["holm"]


def holm(values: Sequence[float]) -> list[float]:
    """Return the adjusted p-value of each p-value, in the same order."""
    adjusted = [0.0] * len(values)
    largest = 0.0
    for rank, place in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        largest = max(largest, min(values[place] * (len(values) - rank), 1.0))
        adjusted[place] = largest
    return adjusted
