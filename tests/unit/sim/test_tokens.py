"""The simulated tokenizer: what a text costs and what two texts share."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.sim import tokens
from tare.sim.tokens import MADE_UP, Answer, encode, encode_chat


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("word", 1),
        ("four short plain words", 4),
        ("extraordinarily", 2),
        ("a\nb\n\nc", 3),
        (" ", 1),
        (" " * 20, 3),
    ],
)
def test_a_token_is_a_word_and_long_words_are_split(text: str, count: int) -> None:
    assert len(encode(text)) == count


@given(st.text(), st.text())
def test_texts_share_the_tokens_before_their_first_difference(one: str, other: str) -> None:
    kept = encode(one)[:-1]
    assert encode(one + " " + other)[: len(kept)] == kept


@given(st.text())
def test_no_character_is_lost(text: str) -> None:
    assert "".join(tokens._PIECE.findall(text)) == text


@given(
    st.lists(st.sampled_from(["word", "extraordinarily", "", "\t", "\x85", "é"]), max_size=9),
    st.text(max_size=5),
)
def test_long_texts_have_the_tokens_of_their_pieces_also_when_others_began_alike(
    words: list[str], end: str
) -> None:
    text = " ".join(["plain"] + ["text", *words] * 300)
    for one in (text, text + end, text):
        pieces = tokens._PIECE.findall(one)
        assert encode(one) == [tokens._id_of[piece] for piece in pieces]


def test_the_template_costs_twelve_tokens_for_one_message_whatever_its_role() -> None:
    for role in ("system", "user", "assistant", "tool"):
        assert len(encode_chat([(role, "one two three")])) == 3 + 12


def test_the_same_text_as_system_and_as_user_message_differs_before_any_text() -> None:
    system, user = encode_chat([("system", "same")]), encode_chat([("user", "same")])
    assert system[0] == user[0]
    assert system[1] != user[1]


def test_a_conversation_shares_all_of_its_earlier_turns() -> None:
    first = [("system", "rules"), ("user", "question")]
    later = [*first, ("assistant", "answer"), ("user", "more")]
    # The opening of the answer is where the answer's own message begins.
    assert encode_chat(later)[: len(encode_chat(first))] == encode_chat(first)


def test_ids_are_the_same_in_each_process() -> None:
    code = "from tare.sim.tokens import *; print(encode('a b'), Answer.to((1, 2), 7).ids(5))"
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    seen = {
        subprocess.check_output(
            [sys.executable, "-c", code], env={**environ, "PYTHONHASHSEED": key}
        )
        for key in ("1", "2")
    }
    assert len(seen) == 1


def test_an_answer_depends_on_prompt_and_seed() -> None:
    texts = {Answer.to(prompt, seed).text(0, 8) for prompt in ((1,), (2,)) for seed in (0, 1)}
    assert len(texts) == 4
    assert Answer.to((1,), 0) == Answer.to((1,), 0)


def test_an_answer_sent_back_as_text_has_the_same_tokens_up_to_the_first_fragment() -> None:
    answer = Answer.to((1, 2, 3), 0)
    assert encode(answer.text(0, 11)) == answer.ids(11)
    assert answer.word(11) is None
    assert encode(answer.text(0, 30)) != answer.ids(30)


def test_all_words_have_one_length_and_need_no_escape() -> None:
    assert {len(piece) for piece in MADE_UP.piece_bytes} == {6}
    assert len(set(MADE_UP.piece_bytes)) == 4096
    assert all(piece.strip().isalpha() for piece in MADE_UP.piece_bytes)


@given(st.text("abc\n \t", max_size=60) | st.text(max_size=40))
def test_a_text_is_cut_as_the_pattern_says_however_its_words_stand(text: str) -> None:
    pieces = tokens._PIECE.findall(text)
    assert encode(text) == [tokens._id_of[piece] for piece in pieces]
    assert "".join(pieces) == text
