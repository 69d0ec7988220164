"""One row for each request of a trial, small enough to be kept with every result.

With them runs can be compared request by request, since the same manifest sends the same prompts.
Of more requests than there may be rows a sample is kept that depends on the requests' numbers
alone: whoever sent them, and in whichever order parts are merged, the same ones are kept, and two
runs keep the same ones. A column is a text of numbers: it packs as well as numbers do, and an
operator that only stores it holds one object instead of one for each number.
"""

from __future__ import annotations

import struct
from array import array
from collections import defaultdict
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import itemgetter, sub
from typing import TYPE_CHECKING, Any, Final

import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = [
    "COLUMNS",
    "MOST_ROWS",
    "OUTCOMES",
    "Row",
    "Rows",
    "merge_rows",
    "read_rows",
    "rows_of_trial",
]

MOST_ROWS: Final = 50_000
"""Rows of a trial, over all workers."""
OUTCOMES: Final = ("ok", "error", "incomplete", "timeout", "cancelled")
"""What the numbers of column `outcome` stand for."""
COLUMNS: Final = (
    "number",
    "entry",
    "due",
    "lag",
    "time_to_first_token",
    "latency",
    "output_tokens",
    "cached_tokens",
    "outcome",
)
"""In the order of the fields of `Row`. Times are microseconds, -1 stands for None."""

_RUN_BYTES: Final = 16 * 2**20
_ROW_BYTES: Final = 18
"""Of a stored row: what gzip makes of the text, as base64 in a ConfigMap (14 to 17 measured)."""
_RISING: Final = ("number", "entry", "due")
"""Written as differences."""
_PACK: Final = struct.Struct(f"={len(COLUMNS)}q").pack
_PLACES: Final = range(len(COLUMNS))
_WIDTH: Final = 8 * len(COLUMNS)
# Multiples of the golden ratio spread evenly whatever is cut out of them: a sample of every n-th
# number would take all of its requests from one worker where there are n of them.
_GOLDEN: Final = 0x9E3779B97F4A7C15
_BITS: Final = 64
_MASK: Final = 2**_BITS - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One request."""

    number: int
    """Its number in the phase."""
    entry: int
    """Its prompt: the index in the dataset."""
    due: int
    """Microseconds after the gate at which it was due, or at which its slot was free."""
    lag: int | None
    """Microseconds from there to the send; None when it was never sent."""
    time_to_first_token: int | None
    latency: int | None
    """Microseconds from the send to the last text."""
    output_tokens: int | None
    cached_tokens: int | None
    outcome: str


class Rows:
    """Collects rows, and drops half of them, at no cost, when there are too many."""

    def __init__(self, most: int = MOST_ROWS) -> None:
        self._most = most
        self._level = 0
        """One in 2^level of all numbers is kept."""
        self._count = 0
        self._by_rank: defaultdict[int, bytearray] = defaultdict(bytearray)

    def __len__(self) -> int:
        """Return the number of rows that are kept."""
        return self._count

    def add_all(self, columns: Sequence[Sequence[int]]) -> None:
        """Keep rows, given as `COLUMNS`, except for those left out."""
        by_rank, level = self._by_rank, self._level
        for rank, packed in zip(_ranks(columns[0]), map(_PACK, *columns), strict=True):
            if rank >= level:
                by_rank[rank] += packed
                self._count += 1
        while self._count > self._most:
            self._count -= len(self._by_rank.pop(self._level, b"")) // _WIDTH
            self._level += 1

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON, in the order of the requests' numbers."""
        values = array("q", b"".join(self._by_rank.values()))
        columns = [values[place :: len(COLUMNS)] for place in _PLACES]
        return _write(columns, most=self._most, level=self._level)


def merge_rows(documents: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Merge what `Rows.to_json` wrote in several places; {} when nobody kept rows.

    Raises:
        ValueError: a document holds no rows; it may come from a foreign pod.
    """
    parts = [document for document in documents if document]
    if len(parts) < 2:  # noqa: PLR2004 - nothing to merge
        return parts[0] if parts else {}
    read = [_read(part) for part in parts]
    most, level = max(p[1] for p in read), max(p[2] for p in read)
    columns = [list(chain.from_iterable(p[0][place] for p in read)) for place in _PLACES]
    return _write(*_thinned(columns, most=most, level=level))


def read_rows(document: Mapping[str, Any]) -> Iterator[Row]:
    """Yield the rows of a document in the order of their numbers.

    Raises:
        ValueError: the document holds no rows.
    """
    columns = _read(document)[0] if document else ()
    for number, entry, due, *optional, outcome in zip(*columns, strict=True):
        lag, first, latency, output, cached = (None if v < 0 else v for v in optional)
        yield Row(
            number=number,
            entry=entry,
            due=due,
            lag=lag,
            time_to_first_token=first,
            latency=latency,
            output_tokens=output,
            cached_tokens=cached,
            outcome=OUTCOMES[outcome],
        )


def rows_of_trial(trials: int) -> int:
    """Return how many rows each of the `trials` of a run may keep, so that all find room."""
    return min(MOST_ROWS, _RUN_BYTES // (max(trials, 1) * _ROW_BYTES))


def _ranks(numbers: Sequence[int]) -> list[int]:
    """Return the highest level at which each number is kept: half of all numbers have rank 0."""
    return [_BITS - (number * _GOLDEN & _MASK).bit_length() for number in numbers]


def _thinned(
    columns: Sequence[Sequence[int]], *, most: int, level: int
) -> tuple[Sequence[Sequence[int]], int, int]:
    """Go up to `level`, and on until there are not too many rows; the arguments of `_write`."""
    while True:
        kept = [place for place, rank in enumerate(_ranks(columns[0])) if rank >= level]
        if len(kept) < len(columns[0]):
            columns = _picked(columns, kept)
        if len(kept) <= most:
            return columns, most, level
        level += 1


def _picked(columns: Sequence[Sequence[int]], places: Sequence[int]) -> Sequence[Sequence[int]]:
    if len(places) < 2:  # noqa: PLR2004 - itemgetter returns no tuple then
        return [[column[place] for place in places] for column in columns]
    pick = itemgetter(*places)
    return [pick(column) for column in columns]


def _write(columns: Sequence[Sequence[int]], most: int, level: int) -> dict[str, Any]:
    order = sorted(range(len(columns[0])), key=columns[0].__getitem__)
    texts = {}
    for name, column in zip(COLUMNS, _picked(columns, order), strict=True):
        values = list(column)
        if name in _RISING:
            values = [*column[:1], *map(sub, column[1:], column)]
        # Six times as fast as writing number after number.
        texts[name] = orjson.dumps(values)[1:-1].replace(b",", b" ").decode()
    return {"most": most, "level": level, "columns": texts}


def _read(document: Mapping[str, Any]) -> tuple[Sequence[Sequence[int]], int, int]:
    """Return columns, most and level."""
    try:
        most, level = int(document["most"]), int(document["level"])
        columns = [_numbers(name, document["columns"][name]) for name in COLUMNS]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"no rows of requests: {error!r}") from error
    outcomes = columns[-1]
    fit = len({len(column) for column in columns}) == 1 and 0 <= level < _BITS and most > 0
    if not fit or not 0 <= max(outcomes, default=0) < len(OUTCOMES):
        raise ValueError("no rows of requests: the columns do not fit together")
    return columns, most, level


def _numbers(name: str, text: str) -> Sequence[int]:
    values = map(int, text.split())
    return list(accumulate(values) if name in _RISING else values)
