"""Synthetic prompts: any number of distinct texts of about the asked length, made from a seed.

A prompt is a function of the seed and its entry alone, so that every worker, and every later run of
the same manifest, makes the same one. The first words spell the entry's number with the vocabulary
as digits, the lowest digit first: no two prompts begin alike, so none finds a part of another in
the server's prefix cache, and neighbours differ in their very first word. The vocabulary's order
depends on the seed, so that prompts of different seeds differ as well.

How many words make how many tokens is the business of `workload.sizes`.
"""

from __future__ import annotations

import struct
from hashlib import blake2b, shake_128

from tare.workload.vocabulary import WORDS

__all__ = ["MAX_ENTRIES", "SyntheticPrompts"]

_DIGITS = 3
MAX_ENTRIES = len(WORDS) ** _DIGITS
"""Prompts of three words or more that a seed can tell apart."""


class SyntheticPrompts:
    """The prompts of one seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        key = str(seed).encode()[:64]
        self._words = sorted(WORDS, key=lambda word: blake2b(word.encode(), key=key).digest())

    @staticmethod
    def distinct(entry: int, words: int) -> bool:
        """Whether `words` words can spell the entry, so that no other prompt begins like it."""
        limit: int = len(WORDS) ** min(words, _DIGITS)
        return entry < limit

    def text(self, entry: int, words: int) -> str:
        """Return prompt `entry`, `words` words long."""
        return " ".join(self.question(entry, 0, words))

    def question(self, entry: int, turn: int, words: int) -> list[str]:
        """Return the words of a session's question in a turn, the first being turn 0."""
        return self._draw(f"{entry}:{turn}" if turn else str(entry), entry, words)

    def system(self, words: int) -> list[str]:
        """Return the words of the system prompt that all sessions share."""
        return self._draw("system", None, words)

    def context(self, entry: int, words: int) -> list[str]:
        """Return the words of a session's own context."""
        return self._draw(f"context:{entry}", entry, words)

    def prefix(self, index: int, words: int) -> list[str]:
        """Return the words of prefix `index` of the pool."""
        return self._draw(f"pool:{index}", index, words)

    def _draw(self, key: str, number: int | None, count: int) -> list[str]:
        """Spell `number`, then go on at random."""
        size = len(WORDS)
        lead: list[int] = []
        if number is not None:
            lead = [number // size**place % size for place in range(min(_DIGITS, count))]
        rest = count - len(lead)
        noise = shake_128(f"{self._seed}:{key}".encode()).digest(2 * rest)
        numbers = (*lead, *struct.unpack(f"<{rest}H", noise))
        return [self._words[number % size] for number in numbers]
