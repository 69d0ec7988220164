"""Token sizes, asked of tokenizers that are simple but not made for our words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.plan.markers import Marker, MarkerKind, Place
from tare.sim.tokens import encode
from tare.workload.sizes import CountedBy, TokenSizes, by_words, measure
from tare.workload.synthetic import SyntheticPrompts
from tare.workload.vocabulary import WORDS

if TYPE_CHECKING:
    from collections.abc import Callable

RID = Marker(kind=MarkerKind.RID, place=Place.TURN_START)
SUFFIX = Marker(kind=MarkerKind.RID, place=Place.TURN_END)
SALT = Marker(kind=MarkerKind.RID, place=Place.TURN_START, carrier="salt")


def pairs(text: str) -> int:
    """A word has a token for each four letters, and one more at the beginning of a line."""
    words = re.findall(r"( ?)([a-z]+)|(\n+)|[^a-z ]", text)
    return sum((len(word) + 3) // 4 + (not blank) if word else 1 for blank, word, _ in words)


def greedy(text: str) -> int:
    """Joins every two words: sizes do not add up."""
    return (len(text.split()) + 1) // 2


class Asked:
    """Counts questions, and asks each text once as the worker's counter does."""

    def __init__(self, tokenizer: Callable[[str], int]) -> None:
        self.tokenizer = tokenizer
        self.texts: list[str] = []

    async def __call__(self, text: str) -> int:
        self.texts.append(text)
        return self.tokenizer(text)


async def test_a_tokenizer_that_knows_all_words_is_asked_a_few_times() -> None:
    asked = Asked(lambda text: len(encode(text)))
    sizes = await measure(asked, CountedBy.SERVER, RID)
    assert (sizes.exact, sizes.longer, sizes.longer_first) == (True, {}, {})
    assert sizes.marker == 3
    assert len(asked.texts) < 20


async def test_words_of_several_tokens_are_found() -> None:
    sizes = await measure(Asked(pairs), CountedBy.SERVER, None)
    assert sizes.longer == {word: pairs(f" {word}") for word in WORDS if len(word) > 4}
    assert sizes.longer_first == {word: pairs(word) for word in WORDS}
    assert sizes.exact


@given(st.integers(0, 10_000), st.integers(8, 400))
def test_a_text_has_as_many_tokens_as_asked_for(entry: int, tokens: int) -> None:
    longer = {word: pairs(f" {word}") for word in WORDS if len(word) > 4}
    first = {word: pairs(word) for word in WORDS}
    sizes = TokenSizes(exact=True, longer=longer, longer_first=first)
    words = SyntheticPrompts(3).question(entry, 0, tokens)
    assert pairs(" ".join(sizes.fit(words, tokens))) == tokens
    behind = sizes.fit(words, tokens, first=False)
    assert pairs(" " + " ".join(behind)) == tokens


async def test_where_sizes_do_not_add_up_lengths_are_called_approximate() -> None:
    assert not (await measure(Asked(greedy), CountedBy.SERVER, None)).exact


async def test_digests_of_different_cost_are_called_approximate() -> None:
    def odd(text: str) -> int:
        return len(encode(text)) + text.count("a", text.find("[rid:"), text.find("]"))

    sizes = await measure(Asked(odd), CountedBy.SERVER, SUFFIX)
    assert not sizes.exact
    assert sizes.marker > 3


@pytest.mark.parametrize(("marker", "tokens"), [(RID, 16), (None, 0), (SALT, 0)])
def test_by_words_a_marker_costs_what_tokenizers_need_at_most(
    marker: Marker | None, tokens: int
) -> None:
    assert by_words(marker).marker == tokens
    assert not by_words(marker).exact


async def test_a_salt_takes_nothing_of_the_prompt() -> None:
    sizes = await measure(Asked(lambda text: len(encode(text))), CountedBy.SERVER, SALT)
    assert (sizes.marker, sizes.exact) == (0, True)
