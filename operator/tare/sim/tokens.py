"""Text to token ids and back, for the simulated model: simple, deterministic, same on each replica.

A token is a run of white space with the up to eight characters that follow it, so an English word
is about one token and long words are split. Its id is a checksum of its characters: no vocabulary
has to be kept or agreed on, equal texts give equal ids on all replicas, and two texts share the
tokens before their first difference, as with the tokenizers of real models. Real token counts are
not imitated; clients read them from `usage` or ask `/tokenize`.
"""

from __future__ import annotations

import itertools
import re
import zlib
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["MADE_UP", "Answer", "Vocabulary", "encode", "encode_chat"]

_PIECE = re.compile(r"\s{0,8}\S{1,8}|\s{1,8}")
_WORD = re.compile(r"\S{1,8}")

_MESSAGE_START = 1
_MESSAGE_END = 2
_NEWLINE = 3
_FRAGMENT = 4
"""A generated token that is no whole character, so it has no text of its own."""
_FIRST_ID = 16
_IDS = 2**31 - _FIRST_ID
_MEMO_SIZE = 65_536
_BEGINNING = 1024
"""Characters; system prompts and other beginnings that many texts share are longer."""
_BEGINNINGS = 1024

_ROLE_WIDTH = 3
"""A role takes this many tokens, so that the template's cost does not depend on the role."""


class _Memo(dict[str, int]):
    """Token id by piece: looking a piece up is four times faster than the checksum."""

    def __missing__(self, piece: str) -> int:
        if len(self) >= _MEMO_SIZE:
            self.clear()
        value = _FIRST_ID + zlib.crc32(piece.encode("utf-8", "surrogatepass")) % _IDS
        self[piece] = value
        return value


_id_of = _Memo()


class _Words(dict[str, int]):
    """Token id of a word behind a blank, by the word; none for what is not one token then."""

    def __missing__(self, word: str) -> int:
        if _WORD.fullmatch(word) is None:
            raise KeyError(word)
        if len(self) >= _MEMO_SIZE:
            self.clear()
        value = self[word] = _id_of[f" {word}"]
        return value


_words = _Words()


def encode(text: str) -> list[int]:
    """Split `text` into tokens and return their ids; the empty text has none."""
    if "\n" not in text:
        return _encode_line(text)
    return [token for line in _lines(text) for token in _encode_line(line)]


def _lines(text: str) -> list[str]:
    """Cut a text before the white space that begins with a new line; tokens end there anyway."""
    lines, start, at = [], 0, text.find("\n")
    while at >= 0:
        if at and not text[at - 1].isspace():
            lines.append(text[start:at])
            start = at
        at = text.find("\n", at + 1)
    lines.append(text[start:])
    return lines


_beginnings: dict[str, list[int]] = {}
"""Tokens of stretches of text that began others before."""


def _encode_line(text: str) -> list[int]:
    """Look up as much of the text as began another one, stretch by stretch, and split the rest."""
    ids: list[int] = []
    start = 0
    # A token ends before a blank behind a word, wherever the text is cut.
    while (end := text.find(" ", start + _BEGINNING)) > 0 and not text[end - 1].isspace():
        stretch = text[start:end]
        start = end
        if (known := _beginnings.get(stretch)) is None:
            if len(_beginnings) >= _BEGINNINGS:
                _beginnings.clear()
            known = _beginnings[stretch] = _encode_words(stretch)
            ids += known
            break
        ids += known
    ids += _encode_words(text[start:])
    return ids


def _encode_words(text: str) -> list[int]:
    first, *words = text.split(" ")
    try:
        # Short words with single blanks between them, as in synthetic prompts: four times faster.
        ids = list(map(_words.__getitem__, words))
    except KeyError:
        return _encode_pieces(text)
    if ids and first[-1:].isspace():
        return _encode_pieces(text)
    return _encode_pieces(first) + ids


def _encode_pieces(text: str) -> list[int]:
    return [_id_of[piece] for piece in _PIECE.findall(text)]


def encode_chat(messages: Iterable[tuple[str, str]]) -> list[int]:
    """Render (role, text) messages with the chat template.

    The template costs 7 tokens a message and 5 for the answer's opening, 12 for a single message.
    The role comes first: the same text as system and as user message shares no full block.
    """
    ids: list[int] = []
    for role, text in messages:
        ids += _opening(role)
        ids += encode(text)
        ids += (_MESSAGE_END, _NEWLINE)
    return ids + _opening("assistant")


def _opening(role: str) -> list[int]:
    return [_MESSAGE_START, *(_id_of[f"{role}/{i}"] for i in range(_ROLE_WIDTH)), _NEWLINE]


@dataclass(frozen=True)
class Vocabulary:
    """The words that answers are made of.

    All have one width, so that all JSON chunks of a stream have the same length; their number is a
    power of two.
    """

    pieces: tuple[str, ...]
    ids: tuple[int, ...]
    fragments: bool
    """Token 11 of every 16 is a fragment without text, for real streams have such events too: one
    in 16 of a measured stream of 800 tokens. An answer that is sent back as text then tokenises
    differently from there on, as it did on that server."""

    @cached_property
    def piece_bytes(self) -> tuple[bytes, ...]:
        """The words, ready for a JSON string; `Answer.word` is an index into it."""
        return tuple(piece.encode() for piece in self.pieces)


def _made_up() -> Vocabulary:
    consonants, vowels = "bdfgklmnprstvwzh", "aeio"
    letters = itertools.product(consonants, vowels, consonants, vowels, "s")
    pieces = tuple(" " + "".join(word) for word in letters)
    return Vocabulary(pieces, tuple(encode(piece)[0] for piece in pieces), fragments=True)


MADE_UP = _made_up()
"""4096 words that no language has."""

_FRAGMENT_EVERY = 16
_FRAGMENT_AT = 11


@dataclass(frozen=True, slots=True)
class Answer:
    """The text a simulated model gives to one prompt; it depends on seed and prompt only."""

    start: int
    step: int
    vocabulary: Vocabulary = MADE_UP

    @classmethod
    def to(cls, prompt: tuple[int, ...], seed: int, vocabulary: Vocabulary = MADE_UP) -> Answer:
        """Choose the answer to a prompt of these token ids."""
        # hash() of integers is the same in each process; only text is hashed with a random key.
        drawn = hash((seed, prompt))
        mask = len(vocabulary.pieces) - 1
        return cls(drawn & mask, (drawn >> 12) & mask | 1, vocabulary)

    def word(self, index: int) -> int | None:
        """Return the index in the vocabulary of token `index`; None for a fragment."""
        if index % _FRAGMENT_EVERY == _FRAGMENT_AT and self.vocabulary.fragments:
            return None
        return (self.start + index * self.step) & (len(self.vocabulary.pieces) - 1)

    def fragments(self, first: int, last: int) -> range:
        """Return which of the tokens `first` up to, but without, `last` have no text."""
        if not self.vocabulary.fragments:
            return range(0)
        return range(first + (_FRAGMENT_AT - first) % _FRAGMENT_EVERY, last, _FRAGMENT_EVERY)

    def text(self, first: int, last: int) -> str:
        """Return the text of the tokens `first` up to, but without, `last`."""
        words, pieces = map(self.word, range(first, last)), self.vocabulary.pieces
        return "".join(pieces[word] for word in words if word is not None)

    def ids(self, last: int, first: int = 0) -> list[int]:
        """Return the ids of the tokens `first` up to, but without, `last`."""
        ids, start, step = self.vocabulary.ids, self.start, self.step
        mask = len(ids) - 1
        found = [ids[start + index * step & mask] for index in range(first, last)]
        for index in self.fragments(first, last):
            found[index - first] = _FRAGMENT
        return found
