"""Random numbers that belong to a name instead of to a position in a sequence.

A worker that draws from a shared generator gets other numbers when the number of workers changes.
Here each number is a keyed hash of what it is for, so that anyone can compute any of them, in any
order, on any machine.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

__all__ = ["integer_below", "open_unit", "word"]

_WORD_BITS: Final = 64
_FRACTION_BITS: Final = 52


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
