"""Random numbers that belong to a name instead of to a position in a sequence.

A worker that draws from a shared generator gets other numbers when the number of workers changes.
Here each number is a keyed hash of what it is for, so that anyone can compute any of them, in any
order, on any machine.
"""

from __future__ import annotations

import struct
from hashlib import blake2b, shake_128
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["integer_below", "open_unit", "open_units", "word"]

_WORD_BITS: Final = 64
_FRACTION_BITS: Final = 52
_BLOCK: Final = 256


def word(seed: int, purpose: str, *key: int) -> int:
    """Return 64 random bits for `key`; streams of different `purpose` are independent."""
    text = ":".join((str(seed), purpose, *map(str, key)))
    return int.from_bytes(blake2b(text.encode(), digest_size=_WORD_BITS // 8).digest(), "big")


def integer_below(limit: int, seed: int, purpose: str, *key: int) -> int:
    """Return a uniform integer of 0 … `limit` - 1."""
    return word(seed, purpose, *key) * limit >> _WORD_BITS


def open_unit(seed: int, purpose: str, *key: int) -> float:
    """Return a uniform number above 0 and below 1, so that its logarithm and quantiles exist."""
    bits = word(seed, purpose, *key) >> (_WORD_BITS - _FRACTION_BITS)
    return (bits + 0.5) / (1 << _FRACTION_BITS)


def open_units(seed: int, purpose: str) -> Iterator[float]:
    """Yield uniform numbers above 0 and below 1 without end; a hash makes a block of them.

    For what is walked through in order anyway, at a tenth of the price of `open_unit`.
    """
    scale = 1 / (1 << _FRACTION_BITS)
    for block in count():
        noise = shake_128(f"{seed}:{purpose}:{block}".encode()).digest(_BLOCK * _WORD_BITS // 8)
        for bits in struct.unpack(f"<{_BLOCK}Q", noise):
            yield ((bits >> (_WORD_BITS - _FRACTION_BITS)) + 0.5) * scale
