from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.workload.synthetic import MAX_ENTRIES, SyntheticPrompts
from tare.workload.vocabulary import WORDS

ENTRIES = st.integers(0, MAX_ENTRIES - 1)


def test_the_vocabulary_holds_512_distinct_short_words() -> None:
    assert len(WORDS) == len(set(WORDS)) == 512
    assert all(word.isascii() and word.islower() and len(word) <= 7 for word in WORDS)


@given(ENTRIES, st.integers(1, 300))
def test_a_prompt_has_as_many_words_as_asked_for(entry: int, words: int) -> None:
    assert len(SyntheticPrompts(7).text(entry, words).split(" ")) == words


@given(ENTRIES, ENTRIES)
def test_two_prompts_differ_within_their_first_three_words(one: int, other: int) -> None:
    prompts = SyntheticPrompts(7)
    heads = [prompts.text(entry, 50).split(" ")[:3] for entry in (one, other)]
    assert (heads[0] == heads[1]) == (one == other)


def test_neighbours_differ_in_their_first_word() -> None:
    prompts = SyntheticPrompts(7)
    first = [prompts.text(entry, 50).split(" ")[0] for entry in range(512)]
    assert len(set(first)) == 512


def test_the_rest_of_a_prompt_is_not_that_of_its_neighbour() -> None:
    prompts = SyntheticPrompts(7)
    one, other = (prompts.text(entry, 200).split(" ")[3:] for entry in (0, 1))
    assert sum(a == b for a, b in zip(one, other, strict=True)) < 10


def test_a_seed_means_the_same_prompts_for_ever() -> None:
    # A change of these texts changes every published workload: it needs a new major version.
    assert SyntheticPrompts(7).text(0, 8) == "along along along call club son arrive other"
    assert SyntheticPrompts(7).text(513, 8) == "guide guide along above pepper branch pepper please"


def test_other_seeds_give_other_prompts() -> None:
    texts = {SyntheticPrompts(seed).text(0, 20) for seed in range(50)}
    assert len(texts) == 50


@pytest.mark.parametrize(("entry", "words", "distinct"), [(511, 1, True), (512, 1, False)])
def test_few_words_tell_few_prompts_apart(entry: int, words: int, *, distinct: bool) -> None:
    assert SyntheticPrompts.distinct(entry, words) is distinct
