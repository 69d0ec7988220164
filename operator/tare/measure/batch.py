"""Values that are recorded together, in one distribution or in several.

What a histogram has to know of them is computed once for all values, and once for all histograms:
many requests have the same first event, first text and first output.
"""

from __future__ import annotations

from array import array
from collections import Counter
from functools import cached_property
from operator import mul
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["BITS_PER_OCTAVE", "Batch"]

BITS_PER_OCTAVE: Final = 7
"""Leading bits of a value behind its first one: how finely the values between 2^n and 2^(n+1) are
told apart."""

# The first bits of a double are its exponent and, behind a leading one that is not written, the
# next bits of its value: what a bucket is defined by, for any number of values in one conversion.
# https://en.wikipedia.org/wiki/Double-precision_floating-point_format
_LEFT_OUT: Final = 52 - BITS_PER_OCTAVE
_EXACT_IN_DOUBLE: Final = 1 << 53
_SPREAD_FROM: Final = 4
"""Values that come as often as this, such as gaps of 0, are cheaper to add up one by one."""


class Batch:
    """Non-negative integers; not changed after this, nor is the sequence that was given."""

    def __init__(self, values: Sequence[int]) -> None:
        """Take at least one value.

        Raises:
            ValueError: one of them is negative.
        """
        self.values = values
        self.lowest = min(values)
        self.highest = max(values)
        if self.lowest < 0:
            raise ValueError(f"value {self.lowest}: values are >= 0")

    @cached_property
    def bits(self) -> list[int] | None:
        """The bits that each value's double begins with: sign, exponent, `BITS_PER_OCTAVE` more.

        None where they say too little, or where equal values are so many that counting those is
        cheaper.
        """
        values = self.values
        if self.lowest == self.highest or self.highest >= _EXACT_IN_DOUBLE:
            return None
        if len(set(values)) * _SPREAD_FROM < len(values):
            return None
        doubles = array("Q", array("d", values).tobytes())
        return [double >> _LEFT_OUT for double in doubles]

    @cached_property
    def counts(self) -> Mapping[int, int]:
        """How often each value comes."""
        if self.lowest == self.highest:
            return {self.lowest: len(self.values)}
        return Counter(self.values)

    @cached_property
    def sum(self) -> int:
        """Of the values."""
        return sum(self.values)

    @cached_property
    def squares(self) -> int:
        """Sum of the values' squares."""
        return sum(map(mul, self.values, self.values))
