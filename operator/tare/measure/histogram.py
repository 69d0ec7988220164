"""A histogram whose every answer depends on the recorded multiset alone.

Percentiles of several workers cannot be averaged, so workers send histograms and the operator
merges them. As long as there are at most `EXACT_VALUES` distinct values they are all kept; then
each goes into a bucket that is defined by its leading eight bits, which is within 0.4 % of it.
Switching over depends on the number of distinct values, not on time or order: however the values
were spread over histograms and in whichever order those are merged, the result is the same.

Count, sum, minimum, maximum and standard deviation stay exact in both forms. Values are integers
(nanoseconds or tokens), so that no sum depends on the order of its terms.
"""

from __future__ import annotations

import math
from collections import Counter
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Final

from tare.measure.batch import BITS_PER_OCTAVE, Batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["EXACT_VALUES", "Histogram"]

EXACT_VALUES: Final = 1024
"""Distinct values that are kept as they are."""

_MANTISSA_BITS: Final = BITS_PER_OCTAVE + 1
_HALF: Final = 1 << BITS_PER_OCTAVE
_EXPONENT_BIAS: Final = 1023
"""Of the doubles whose first bits are counted."""

# A fold of this many values takes about 0.1 ms, so that it never shows as event-loop lag.
_FOLD_AFTER: Final = 256

_MILLIPERCENT: Final = 100_000


def _bucket(value: int) -> int:
    """Return the index of a value's bucket: monotonic, without gaps, the value itself below 256."""
    shift = max(value.bit_length() - _MANTISSA_BITS, 0)
    return shift * _HALF + (value >> shift)


def _middle(bucket: int) -> int:
    """Return the value that stands for a bucket: at most 1/256 of any value in it away."""
    shift = max(bucket // _HALF - 1, 0)
    return ((bucket - shift * _HALF) << shift) + (1 << shift >> 1)


def _bucket_of_bits(bits: int) -> int:
    """Return the bucket of all values whose doubles begin with these bits."""
    if not bits:
        return 0
    exponent, mantissa = divmod(bits, _HALF)
    # The lowest value of the bucket; one below 256 is its own bucket and all there in these bits.
    return _bucket((_HALF + mantissa << exponent - _EXPONENT_BIAS) // _HALF)


class Histogram:
    """Distribution of non-negative integers that merges without loss.

    `record` only appends to a list; the list is folded away now and then, and before any question.
    Folding a value costs a tenth of a microsecond: many are counted at once by the bits that their
    doubles begin with, and only a question turns those into buckets.
    Questions to an empty histogram are answered with None, never with 0.
    """

    __slots__ = (
        "_by_bits",
        "_counts",
        "_exact",
        "_maximum",
        "_minimum",
        "_pending",
        "_squares",
        "_sum",
        "_total",
    )

    def __init__(self) -> None:
        self._pending: list[int] = []
        self._exact = True
        self._counts: dict[int, int] = {}
        """Value, or bucket once `_exact` is False, to number of records."""
        self._by_bits: Counter[int] = Counter()
        """Further records by the first bits of their doubles; buckets to be, never exact."""
        self._total = 0
        self._sum = 0
        self._squares = 0
        self._minimum: int | None = None
        self._maximum: int | None = None

    def record(self, value: int, count: int = 1) -> None:
        """Record `value` `count` times.

        Raises:
            ValueError: the value is negative or the count is not positive.
        """
        if value < 0 or count < 1:
            raise ValueError(f"value {value} x {count}: values are >= 0 and counts are >= 1")
        if count != 1:
            self._absorb({value: count})
            return
        self._pending.append(value)
        if len(self._pending) >= _FOLD_AFTER:
            self._fold()

    def record_all(self, batch: Batch) -> None:
        """Record each value of a batch once, at a fraction of what one by one would cost."""
        bits = None if self._exact else batch.bits
        if bits is None:
            self._absorb(batch.counts)
            return
        self._by_bits.update(bits)
        self._total += len(bits)
        self._sum += batch.sum
        self._squares += batch.squares
        self._stretch(batch.lowest, batch.highest)

    def merge(self, other: Histogram) -> None:
        """Add everything that `other` recorded; `other` keeps its content."""
        self._settle()
        other._settle()
        if other._exact:
            self._absorb(other._counts)
            return
        self._to_buckets()
        for bucket, count in other._counts.items():
            self._counts[bucket] = self._counts.get(bucket, 0) + count
        self._total += other._total
        self._sum += other._sum
        self._squares += other._squares
        self._stretch(other._minimum, other._maximum)

    @classmethod
    def merged(cls, histograms: Iterable[Histogram]) -> Histogram:
        """Return a new histogram of everything that was recorded in `histograms`."""
        result = cls()
        for histogram in histograms:
            result.merge(histogram)
        return result

    @property
    def exact(self) -> bool:
        """Whether percentiles are recorded values; otherwise they are within 0.4 % of one."""
        self._fold()
        return self._exact

    @property
    def count(self) -> int:
        """Number of records."""
        return self._total + len(self._pending)

    @property
    def sum(self) -> int:
        """Exact sum of all records."""
        self._fold()
        return self._sum

    @property
    def minimum(self) -> int | None:
        """Smallest record, exact."""
        self._fold()
        return self._minimum

    @property
    def maximum(self) -> int | None:
        """Largest record, exact."""
        self._fold()
        return self._maximum

    @property
    def mean(self) -> float | None:
        """Arithmetic mean, exact but for one rounding."""
        self._fold()
        return self._sum / self._total if self._total else None

    @property
    def stddev(self) -> float | None:
        """Standard deviation of the records as a population (divided by n, as numpy does)."""
        self._fold()
        if not self._total:
            return None
        spread = self._total * self._squares - self._sum * self._sum
        return math.sqrt(spread) / self._total

    def percentile(self, percent: float) -> int | None:
        """Return the nearest-rank percentile: the smallest record with `percent` at or below it.

        The rank is computed in integers, so that p99 of 100 records is the 99th and not, by a
        rounding error, the 100th. `percent` counts to three decimals.
        https://en.wikipedia.org/wiki/Percentile#The_nearest-rank_method

        Raises:
            ValueError: `percent` is outside 0 … 100.
        """
        if not 0 <= percent <= 100:  # noqa: PLR2004 - per cent
            raise ValueError(f"percentile {percent}: allowed are 0 to 100")
        self._settle()
        if self._minimum is None or self._maximum is None:
            return None
        rank = max(-(-round(percent * 1000) * self._total // _MILLIPERCENT), 1)
        if rank == 1:
            return self._minimum
        if rank == self._total:
            return self._maximum
        key = self._key_of_rank(rank)
        if self._exact:
            return key
        return min(max(_middle(key), self._minimum), self._maximum)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON: keys as differences, counts only where one is not 1.

        The two large sums are strings, since JSON readers lose digits above 2^53.
        """
        self._settle()
        if not self._total:
            return {}
        keys = sorted(self._counts)
        name = "values" if self._exact else "buckets"
        document: dict[str, Any] = {name: [keys[0], *(b - a for a, b in pairwise(keys))]}
        if self._total != len(keys):
            document["counts"] = [self._counts[key] for key in keys]
        if not self._exact:
            document |= {
                "minimum": self._minimum,
                "maximum": self._maximum,
                "sum": str(self._sum),
                "squares": str(self._squares),
            }
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Histogram:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the document is not a histogram; it may come from a foreign pod.
        """
        histogram = cls()
        if not document:
            return histogram
        try:
            histogram._read(document)
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a histogram: {error}") from error
        return histogram

    def _read(self, document: Mapping[str, Any]) -> None:
        exact = "values" in document
        steps = _integers(document["values" if exact else "buckets"], least=0)
        counts = _integers(document.get("counts", [1] * len(steps)), least=1)
        if len(steps) != len(counts) or not all(steps[1:]):
            raise ValueError("not a histogram: keys and counts do not fit")
        pairs = dict(zip(accumulate(steps), counts, strict=True))
        if exact:
            self._absorb(pairs)
            return
        self._exact = False
        self._counts = pairs
        self._total = sum(counts)
        self._sum = int(document["sum"])
        self._squares = int(document["squares"])
        lowest, highest = _integers([document["minimum"], document["maximum"]], least=0)
        self._minimum, self._maximum = lowest, highest
        sound = (
            [min(pairs), max(pairs)] == [_bucket(lowest), _bucket(highest)]
            and self._total * lowest <= self._sum <= self._total * highest
            and self._sum**2 <= self._total * self._squares <= (self._total * highest) ** 2
        )
        if not sound:
            raise ValueError("not a histogram: its sums do not fit its buckets")

    def _fold(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            self.record_all(Batch(pending))

    def _settle(self) -> None:
        """Have every record in `_counts`."""
        self._fold()
        counts = self._counts
        for bits, count in self._by_bits.items():
            bucket = _bucket_of_bits(bits)
            counts[bucket] = counts.get(bucket, 0) + count
        self._by_bits.clear()

    def _absorb(self, records: Mapping[int, int]) -> None:
        """Add records given as value to count."""
        if not records:
            return
        counts = self._counts
        for value, count in records.items():
            key = value if self._exact else _bucket(value)
            counts[key] = counts.get(key, 0) + count
            self._total += count
            self._sum += value * count
            self._squares += value * value * count
        self._stretch(min(records), max(records))
        if self._exact and len(counts) > EXACT_VALUES:
            self._to_buckets()

    def _stretch(self, minimum: int | None, maximum: int | None) -> None:
        if minimum is not None and (self._minimum is None or minimum < self._minimum):
            self._minimum = minimum
        if maximum is not None and (self._maximum is None or maximum > self._maximum):
            self._maximum = maximum

    def _to_buckets(self) -> None:
        if not self._exact:
            return
        buckets: dict[int, int] = {}
        for value, count in self._counts.items():
            bucket = _bucket(value)
            buckets[bucket] = buckets.get(bucket, 0) + count
        self._counts = buckets
        self._exact = False

    def _key_of_rank(self, rank: int) -> int:
        keys = sorted(self._counts)
        below = accumulate(self._counts[key] for key in keys)
        return next(key for key, cumulated in zip(keys, below, strict=True) if cumulated >= rank)


def _integers(values: Any, *, least: int) -> list[int]:
    if not isinstance(values, list) or not all(type(v) is int and v >= least for v in values):
        raise ValueError(f"not a histogram: expected a list of integers >= {least}")
    return values
