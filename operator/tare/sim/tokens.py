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
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["PIECE_BYTES", "Answer", "encode", "encode_chat"]

_PIECE = re.compile(r"\s{0,8}\S{1,8}|\s{1,8}")

_MESSAGE_START = 1
_MESSAGE_END = 2
_NEWLINE = 3
_FRAGMENT = 4
"""A generated token that is no whole character, so it has no text of its own."""
_FIRST_ID = 16
_IDS = 2**31 - _FIRST_ID
_MEMO_SIZE = 65_536

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


def encode(text: str) -> list[int]:
    """Split `text` into tokens and return their ids; the empty text has none."""
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


def _vocabulary() -> tuple[str, ...]:
    """Return 4096 made-up words of one width: all JSON chunks of a stream have the same length."""
    consonants, vowels = "bdfgklmnprstvwzh", "aeio"
    letters = itertools.product(consonants, vowels, consonants, vowels, "s")
    return tuple(" " + "".join(word) for word in letters)


_PIECES = _vocabulary()
_PIECE_IDS = tuple(map(encode, _PIECES))
PIECE_BYTES = tuple(piece.encode() for piece in _PIECES)
"""The words of answers, ready for a JSON string; `Answer.word` is an index into it."""
_MASK = len(_PIECES) - 1

_FRAGMENT_EVERY = 16
_FRAGMENT_AT = 11


@dataclass(frozen=True, slots=True)
class Answer:
    """The text a simulated model gives to one prompt; it depends on the seed and the prompt only.

    Token 11 of every 16 is a fragment without text, for real streams have such events too: one in
    16 of a measured stream of 800 tokens. An answer that is sent back as text therefore tokenises
    differently from there on, as it does on a real server.
    """

    start: int
    step: int

    @classmethod
    def to(cls, prompt: tuple[int, ...], seed: int) -> Answer:
        """Choose the answer to a prompt of these token ids."""
        # hash() of integers is the same in each process; only text is hashed with a random key.
        drawn = hash((seed, prompt))
        return cls(drawn & _MASK, (drawn >> 12) & _MASK | 1)

    def word(self, index: int) -> int | None:
        """Return the index in `PIECE_BYTES` of token `index`; None for a fragment."""
        if index % _FRAGMENT_EVERY == _FRAGMENT_AT:
            return None
        return (self.start + index * self.step) & _MASK

    def text(self, first: int, last: int) -> str:
        """Return the text of the tokens `first` up to, but without, `last`."""
        words = map(self.word, range(first, last))
        return "".join(_PIECES[word] for word in words if word is not None)

    def ids(self, count: int) -> list[int]:
        """Return the ids of the first `count` tokens."""
        words = map(self.word, range(count))
        return [_FRAGMENT if word is None else _PIECE_IDS[word][0] for word in words]
