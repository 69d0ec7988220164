"""Random numbers between 0 and 1: one stream read in order, or numbers found by key.

*Read in order*: ChaCha with 12 rounds, seeded as `StdRng::seed_from_u64` of the Rust crate `rand`
0.9 does it, so that published results of programs that use it can be reproduced to the digit.

*Keyed*: a number depends on seed, session, turn and position, not on what was drawn before it. Two
runs with other settings then see the same workload (common random numbers), and what they differ
by is the setting.

numba compiles the scalar functions. Plain Python reads `ordered`, which computes many ChaCha blocks
at once by packing them into one big integer: 0.2 µs a number, and no library needed.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from itertools import chain, count
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "ARRIVALS",
    "SESSIONS",
    "WORKLOAD",
    "Key",
    "Ordered",
    "chacha_key",
    "key_of",
    "narrow",
    "new_ordered",
    "next_keyed",
    "next_ordered",
    "ordered",
    "read",
    "run_keys",
    "scattered",
    "scattered_signed",
    "turn_key",
    "unit",
    "unit_signed",
]

ARRIVALS: Final = 0
WORKLOAD: Final = 0x9E3779B97F4A7C15
SESSIONS: Final = 0x5851F42D4C957F2D
"""What the seed is combined with (XOR) for the three streams of a run."""

Key = tuple[int, ...]
"""Eight words of 32 bits."""

_MASK: Final = 0xFFFFFFFF
_MASK64: Final = (1 << 64) - 1
_CONSTANTS: Final = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_BLOCKS: Final = 512
_STEP: Final = 0x1E3779B97F4A7C15
"""Between the words of neighbours: odd, and below 2⁶³ so that compiled code takes it as signed."""
_UNIT: Final = 2.0**-53
_ROUNDS: Final = 6
"""Pairs of rounds."""
_NUMBERS: Final = 8
"""Numbers in a block."""


def chacha_key(seed: int) -> Key:
    """Expand a 64-bit seed to the eight words of a key with the generator PCG32.

    https://docs.rs/rand_core/0.9/rand_core/trait.SeedableRng.html#method.seed_from_u64
    """
    state, words = seed & _MASK64, []
    for _ in range(8):
        state = (state * 6364136223846793005 + 11634580027462260723) & _MASK64
        mixed = (((state >> 18) ^ state) >> 27) & _MASK
        turn = state >> 59
        words.append(((mixed >> turn) | (mixed << ((32 - turn) & 31))) & _MASK)
    return tuple(words)


def run_keys(seed: int) -> tuple[Key, Key, Key]:
    """Return the keys of the streams of a run: of arrivals, of tokens, and of sessions."""
    return chacha_key(seed ^ ARRIVALS), chacha_key(seed ^ WORKLOAD), chacha_key(seed ^ SESSIONS)


def ordered(key: Key) -> Iterator[float]:
    """Yield the stream of a key, without end; compiled code has `new_ordered` instead."""
    return chain.from_iterable(_batch(key, number) for number in count())


def read(stream: Iterator[float]) -> float:
    """Return the next number of a stream; compiled code has `next_ordered` instead."""
    return next(stream)


# A sweep reads the same streams again for every setting.
@lru_cache(maxsize=128)
def _batch(key: Key, number: int) -> list[float]:
    """Compute `_BLOCKS` blocks of the stream; each lane of 64 bits of an integer is one block.

    https://cr.yp.to/chacha/chacha-20080128.pdf
    """
    ones = _packed([1] * _BLOCKS)
    low = ones * _MASK
    counter = _packed(list(range(number * _BLOCKS, (number + 1) * _BLOCKS)))
    start = [word * ones for word in (*_CONSTANTS, *key)]
    start += [counter & low, counter >> 32 & low, 0, 0]
    state = list(start)

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for right, left in ((16, 12), (8, 7)):
            state[a] = (state[a] + state[b]) & low
            word = state[d] ^ state[a]
            state[d] = (word << right | word >> 32 - right) & low
            state[c] = (state[c] + state[d]) & low
            word = state[b] ^ state[c]
            state[b] = (word << left | word >> 32 - left) & low

    for _ in range(_ROUNDS):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    words = [(word + first) & low for word, first in zip(state, start, strict=True)]
    bits = ones * ((1 << 53) - 1)
    columns = (
        _unpacked((even | odd << 32) >> 11 & bits)
        for even, odd in zip(words[::2], words[1::2], strict=True)
    )
    return [value * _UNIT for row in zip(*columns, strict=True) for value in row]


def _packed(lanes: list[int]) -> int:
    return int.from_bytes(array("Q", lanes).tobytes(), "little")


def _unpacked(packed: int) -> array[int]:
    return array("Q", packed.to_bytes(8 * _BLOCKS, "little"))


class Ordered(NamedTuple):
    """State of a scalar stream."""

    words: list[int]
    """16 words of the next block, and the place to read at."""
    numbers: list[float]
    """Those of this block."""


def new_ordered(key: Key) -> Ordered:
    """Return a scalar stream at its start."""
    words = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574]
    for word in key:
        words.append(word)  # noqa: PERF402 - numba cannot extend a list by a tuple
    for word in (0, 0, 0, 0, _NUMBERS):
        words.append(word)  # noqa: PERF402
    return Ordered(words, [0.0] * _NUMBERS)


def next_ordered(stream: Ordered) -> float:
    """Return the next number of a scalar stream."""
    if stream.words[16] == _NUMBERS:
        _block(stream.words, stream.numbers)
        stream.words[16] = 0
    place = stream.words[16]
    stream.words[16] = place + 1
    return stream.numbers[place]


def _block(words: list[int], numbers: list[float]) -> None:
    """Compute the next block of a scalar stream; sixteen local names are sixteen registers."""
    a, b, c, d = narrow(words[0]), narrow(words[1]), narrow(words[2]), narrow(words[3])
    e, f, g, h = narrow(words[4]), narrow(words[5]), narrow(words[6]), narrow(words[7])
    i, j, k, l = narrow(words[8]), narrow(words[9]), narrow(words[10]), narrow(words[11])  # noqa: E741
    m, n, o, p = narrow(words[12]), narrow(words[13]), narrow(words[14]), narrow(words[15])
    for _ in range(_ROUNDS):
        a, e, i, m = _quarter(a, e, i, m)
        b, f, j, n = _quarter(b, f, j, n)
        c, g, k, o = _quarter(c, g, k, o)
        d, h, l, p = _quarter(d, h, l, p)  # noqa: E741
        a, f, k, p = _quarter(a, f, k, p)
        b, g, l, m = _quarter(b, g, l, m)  # noqa: E741
        c, h, i, n = _quarter(c, h, i, n)
        d, e, j, o = _quarter(d, e, j, o)
    numbers[0] = _number(a + words[0], b + words[1])
    numbers[1] = _number(c + words[2], d + words[3])
    numbers[2] = _number(e + words[4], f + words[5])
    numbers[3] = _number(g + words[6], h + words[7])
    numbers[4] = _number(i + words[8], j + words[9])
    numbers[5] = _number(k + words[10], l + words[11])
    numbers[6] = _number(m + words[12], n + words[13])
    numbers[7] = _number(o + words[14], p + words[15])
    counter = words[12] + (words[13] << 32) + 1
    words[12] = counter & _MASK
    words[13] = counter >> 32


def narrow(word: int) -> int:
    """Return the lower 32 bits.

    Compiled code has a type of that width, which is four times faster than masks.
    """
    return word & _MASK


def _number(even: int, odd: int) -> float:
    return ((narrow(odd) << 21) + (narrow(even) >> 11)) * _UNIT


def _quarter(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    first = narrow(a + b)
    fourth = _rotated(d ^ first, 16)
    third = narrow(c + fourth)
    second = _rotated(b ^ third, 12)
    first = narrow(first + second)
    fourth = _rotated(fourth ^ first, 8)
    third = narrow(third + fourth)
    second = _rotated(second ^ third, 7)
    return first, second, third, fourth


def _rotated(word: int, left: int) -> int:
    return narrow(word << left | word >> 32 - left)


def key_of(seed: int, session: int) -> int:
    """Return the key of a session's numbers; session 0 stands for the arrivals."""
    return scattered(scattered(seed) + session * _STEP)


def turn_key(key: int, turn: int) -> int:
    """Return the key of the numbers of one turn of the session with that key."""
    return scattered(key + turn * _STEP)


def next_keyed(key: int, place: int) -> float:
    """Return number `place` of a key."""
    return unit(scattered(key + place * _STEP))


def scattered(word: int) -> int:
    """Scatter 64 bits, as SplitMix64 does: each input bit turns about half of the output bits.

    https://prng.di.unimi.it/splitmix64.c
    """
    first = word & _MASK64
    second = (first ^ first >> 30) * 0xBF58476D1CE4E5B9 & _MASK64
    third = (second ^ second >> 27) * 0x94D049BB133111EB & _MASK64
    return third ^ third >> 31


def unit(word: int) -> float:
    """Return the number from 0 to 1 that the upper bits of a scattered word stand for."""
    return (word >> 11) * _UNIT


def scattered_signed(word: int) -> int:
    """Do the same as `scattered` with the signed 64-bit integers of compiled code, which wrap."""
    second = (word ^ (word >> 30 & 0x3FFFFFFFF)) * -0x40A7B892E31B1A47
    third = (second ^ (second >> 27 & 0x1FFFFFFFFF)) * -0x6B2FB644ECCEEE15
    return third ^ (third >> 31 & 0x1FFFFFFFF)


def unit_signed(word: int) -> float:
    """Do the same as `unit` with a signed word."""
    return (word >> 11 & 0x1FFFFFFFFFFFFF) * _UNIT
