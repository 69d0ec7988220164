"""How many tokens words and markers have, and words that have exactly so many tokens together.

Nearly all words of the vocabulary are one token for nearly all tokenizers, so that one question
about all of them answers it. Where the sum shows that some are longer, halves are asked about until
those are found: ten questions for a single one. Nobody to ask: a word is taken for a token, and
everything that follows from it is marked as approximate.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from tare.api.names import MARKER_TOKENS
from tare.plan.cache.outline import Frame
from tare.plan.markers import DIGEST_LENGTH
from tare.workload.vocabulary import WORDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tare.plan.markers import Marker

__all__ = ["CountedBy", "TokenSizes", "by_words", "measure"]

_SAMPLES: Final = 8
"""Digests whose cost is asked for: with most tokenizers they differ by a token or two."""


class CountedBy(StrEnum):
    """Who counts tokens."""

    SERVER = "server"
    """The model server, by its `/tokenize`."""
    TOKENIZERS = "tokenizers"
    """The optional Python package of this name, with the model's own file."""
    WORDS = "words"
    """Nobody: a word is taken for a token."""


@dataclass(frozen=True, kw_only=True)
class TokenSizes:
    """Sizes of the vocabulary's words and of the workload's marker, in tokens."""

    counted_by: CountedBy = CountedBy.WORDS
    exact: bool = False
    """Whether a text of a length in tokens has that length for the server."""
    longer: Mapping[str, int] = field(default_factory=dict)
    """Words behind a blank that are more than one token."""
    longer_first: Mapping[str, int] = field(default_factory=dict)
    """The same at the beginning of a text, where no blank stands before them."""
    exact_words: bool = False
    """Whether only the marker's digests, if anything, make a text longer or shorter."""
    marker: int = 0
    """The marker with its blank line; 0 without one, or when it is no text."""
    marker_range: tuple[int, int] | None = None
    """The least and the most that it was found to have, over some digests; None when nobody was
    asked."""
    system: int | None = None
    """The user's own system prompt, where somebody counted it."""
    frame: Frame | None = None
    """What the server's template adds; None when it did not say."""

    def fit(self, words: Sequence[str], tokens: int, *, first: bool = True) -> list[str]:
        """Take leading words of `tokens` tokens together, and short ones for the rest.

        Args:
            words: as many as tokens are wanted, or more.
            tokens: wanted.
            first: the words begin a text.
        """
        if not (self.longer or self.longer_first):
            return list(words[:tokens])
        taken: list[str] = []
        left = tokens
        for word in words:
            sizes = self.longer_first if first and not taken else self.longer
            size = sizes.get(word, 1)
            if size > left:
                break
            taken.append(word)
            left -= size
        return taken + [self._filler] * left

    def count(self, words: Sequence[str]) -> int:
        """Return the size of a text of these words."""
        first = self.longer_first.get(words[0], 1)
        return first + sum(self.longer.get(word, 1) for word in words[1:])

    @cached_property
    def _filler(self) -> str:
        """A word of one token; without any the text is too long, and said to be approximate."""
        return next((word for word in WORDS if word not in self.longer), WORDS[0])


def by_words(marker: Marker | None) -> TokenSizes:
    """Return the sizes when nobody can be asked."""
    if marker is None or marker.carrier == "salt":
        return TokenSizes()
    return TokenSizes(marker=MARKER_TOKENS[marker.kind])


async def measure(
    count: Callable[[str], Awaitable[int]], counted_by: CountedBy, marker: Marker | None
) -> TokenSizes:
    """Ask `count` for the number of tokens of texts, many at once, until all sizes are known.

    Whatever `count` raises ends it.
    """
    longer, longer_first, cost = await asyncio.gather(
        _behind_blanks(count), _at_beginnings(count), _costs(count, marker)
    )
    sizes = TokenSizes(
        counted_by=counted_by,
        longer=longer,
        longer_first=longer_first,
        marker=round(sum(cost) / len(cost)),
    )
    # Sizes only add up where a tokenizer never joins two words.
    sample = WORDS[::-1]
    fits = await count(" ".join(sample)) == sizes.count(sample)
    has_filler = len(longer) < len(WORDS)
    words = fits and has_filler
    return replace(
        sizes,
        exact_words=words,
        exact=words and len(set(cost)) == 1,
        marker_range=(min(cost), max(cost)),
    )


async def _behind_blanks(count: Callable[[str], Awaitable[int]]) -> dict[str, int]:
    """Sizes of words in the middle of a text: each after a word that it is counted without."""
    lead = WORDS[0]
    alone = await count(lead)

    async def size(words: Sequence[str]) -> int:
        return await count(" ".join((lead, *words))) - alone

    return await _longer(WORDS, size)


async def _at_beginnings(count: Callable[[str], Awaitable[int]]) -> dict[str, int]:
    """Sizes of words that begin a text: each on a line of its own, for one question about many."""
    one, other = WORDS[:2]
    alone = await asyncio.gather(count(one), count(other), count(f"{one}\n\n{other}"))
    gap = alone[2] - alone[0] - alone[1]

    async def size(words: Sequence[str]) -> int:
        return await count("\n\n".join(words)) - gap * (len(words) - 1)

    return await _longer(WORDS, size)


async def _longer(
    words: Sequence[str], size: Callable[[Sequence[str]], Awaitable[int]]
) -> dict[str, int]:
    """Find the words of more than one token by halving the groups that have some."""
    total = await size(words)
    if total == len(words):
        return {}
    if len(words) == 1:
        return {words[0]: max(total, 1)}
    middle = len(words) // 2
    left, right = await asyncio.gather(_longer(words[:middle], size), _longer(words[middle:], size))
    return left | right


async def _costs(count: Callable[[str], Awaitable[int]], marker: Marker | None) -> list[int]:
    """What the marker adds to a text, for some digests."""
    if marker is None or marker.carrier == "salt":
        return [0]
    digests = {sha256(bytes([n])).hexdigest()[:DIGEST_LENGTH] for n in range(_SAMPLES)}
    markers = sorted({marker.text(digest) for digest in digests})
    text = " ".join(WORDS[:2])
    plain, *marked = await asyncio.gather(
        count(text),
        *(count(text + each if marker.place.at_end else each + text) for each in markers),
    )
    return [tokens - plain for tokens in marked]
