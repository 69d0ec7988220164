"""Recognises events that differ from earlier ones of a target in nothing that matters.

Nearly all events of a long answer are equal but for a few characters of text, and the first and the
last ones of all answers are equal but for the answer's id. Comparing bytes costs a fraction of
parsing them, and the comparison is exact. A template is learned from an event that was parsed, and
proven by parsing it once more with another text in the same place; it fits what is the same but for
one string of JSON. Of an event without text the meaning is kept, under all of its bytes. In both
the id, and nothing else, may be another one: it is the whole value of a member that nobody reads. A
usage beside a text, an error: whatever is unusual is the parser's.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING, Final, Self

import orjson

if TYPE_CHECKING:
    from tare.worker.meaning import Meaning

__all__ = ["NOTHING_FITS", "PLAIN", "Marks", "Patterns", "Template", "id_of", "is_text", "text_in"]

Marks = tuple[bytes, bytes, int]
"""What stands before and behind the text, and the bytes of both."""

# A string of these bytes stands in JSON as it is: https://www.rfc-editor.org/rfc/rfc8259#section-7
PLAIN: Final = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
NOTHING_FITS: Final[Marks] = (b"", b"", -1)

_TEXTS: Final = ("content", "text", "reasoning_content", "reasoning")
_OTHER: Final = "~"
_FRAME: Final = (b"data: ", b"\n\n")
_ID_BYTES: Final = b"_.:-" + (string.ascii_letters + string.digits).encode()
_ID_LENGTH: Final = 256
_ID: Final = re.compile(rb'"id": ?"([%b]{1,%d})"' % (re.escape(_ID_BYTES), _ID_LENGTH))
_BEFORE_ID: Final = (b'"id":"', b'"id": "')
_MOST_MEANINGS: Final = 1024
"""All are forgotten when there are more: many servers write the second of each answer in it."""
_LONGEST: Final = 1024
"""Bytes of an event that is kept."""


class Template:
    """What stands before and behind the text in all events like one that was parsed."""

    __slots__ = ("_head", "_tail", "content", "output")

    def __init__(
        self, head: list[bytes], tail: list[bytes], *, content: bool, output: bool
    ) -> None:
        self._head = head
        """In two parts where the id stands between them."""
        self._tail = tail
        self.content = content
        """The text is part of the answer itself."""
        self.output = output
        """The event is one of output, and not of reasoning alone."""

    @classmethod
    def learn(cls, event: bytes, answer_id: bytes, *, output: bool) -> Self | None:
        """Learn from an event with one text and no other meaning.

        None when its text cannot be told from the rest.
        """
        try:
            document = orjson.loads(event)
        except orjson.JSONDecodeError:
            return None  # It was mended before it was read.
        choices = document["choices"] if isinstance(document, dict) else None
        if choices is None or len(choices) != 1 or document.get("usage"):
            return None
        (choice,) = choices
        part = choice.get("delta") or choice.get("message") or choice
        key = next((key for key in _TEXTS if part.get(key)), None)
        text = part[key] if key is not None else None
        if not isinstance(text, str) or choice.get("finish_reason"):
            return None
        head, found, tail = event.rpartition(b'"%b"' % text.encode(errors="replace"))
        if not found:
            return None
        part[key] = text = text + _OTHER
        head, tail = head + b'"', b'"' + tail
        # The last such string need not be the one that was read: it may be a key, or a name.
        try:
            proven = orjson.loads(head + text.encode() + tail) == document
        except (orjson.JSONDecodeError, RecursionError):
            return None
        before, behind = _FRAME
        parts = _without_id(before + head, answer_id), _without_id(tail + behind, answer_id)
        return cls(*parts, content=key in _TEXTS[:2], output=output) if proven else None

    def marks(self, answer_id: bytes) -> Marks:
        """Return what events of the answer with this id have to be like, frame and all."""
        head, tail = answer_id.join(self._head), answer_id.join(self._tail)
        return head, tail, len(head) + len(tail)


def text_in(marks: Marks, event: bytes) -> bytes:
    """Return the text of an event if parsing would find the same document with another one.

    It is as JSON spells it, and empty when the event is another one. One that is shorter by what
    stands around the text had both parts of it, and no byte in common.
    """
    head, tail, around = marks
    text = event.removeprefix(head).removesuffix(tail)
    fits = len(text) + around == len(event) and (not text.strip(PLAIN) or is_text(text))
    return text if fits else b""


def is_text(raw: bytes) -> bool:
    """Whether bytes between quotes are the inside of one string of JSON."""
    try:
        orjson.loads(b'"%b"' % raw)
    except orjson.JSONDecodeError:
        return False
    return True


class Patterns:
    """What was learned of a target's events, in all of its answers; events are framed lines."""

    __slots__ = ("_meanings", "_opening", "template")

    def __init__(self) -> None:
        self.template: Template | None = None
        """The one learned last: events with text that many answers have in common."""
        self._meanings: dict[tuple[bytes, bytes], Meaning] = {}
        self._opening: tuple[Marks, Meaning] | None = None
        """Around the id of the answer that began last, and what the event said."""

    def opening(self, event: bytes) -> tuple[bytes, Meaning | None]:
        """Return the id of the answer that an event is of, and what parsing it would find.

        The id is empty when the event has none that is plain, the meaning None if it is not known.
        """
        if self._opening is not None:
            (before, behind, around), meaning = self._opening
            answer_id = event.removeprefix(before).removesuffix(behind)
            if len(answer_id) + around == len(event) and is_id(answer_id):
                return answer_id, meaning
        answer_id = id_of(event)
        known = self.meaning(event, answer_id)
        if answer_id and known is not None:
            # What was kept has its id in a place of its own: where an id would be found first.
            before, _, behind = event.partition(answer_id)
            self._opening = (before, behind, len(before) + len(behind)), known
        return answer_id, known

    def meaning(self, event: bytes, answer_id: bytes) -> Meaning | None:
        """Return what parsing it would find, if that is known."""
        if answer_id:
            before, _, behind = event.partition(answer_id)
            return self._meanings.get((before, behind))
        return self._meanings.get((event, b""))

    def keep(self, event: bytes, answer_id: bytes, meaning: Meaning) -> None:
        """Keep what an event means that has neither text nor failure in it."""
        if len(event) > _LONGEST:
            return
        parts = _without_id(event, answer_id)
        if len(parts) == 1 and answer_id and answer_id in event:
            return
        if len(self._meanings) >= _MOST_MEANINGS:
            self._meanings.clear()
        self._meanings[parts[0], b"".join(parts[1:])] = meaning


def id_of(event: bytes) -> bytes:
    """Return the id of an answer, as an event of it says; empty when it is none that is plain."""
    found = _ID.search(event)
    return found[1] if found is not None else b""


def is_id(raw: bytes) -> bool:
    """Whether bytes are an id that `id_of` would return."""
    return 0 < len(raw) <= _ID_LENGTH and not raw.strip(_ID_BYTES)


def _without_id(event: bytes, answer_id: bytes) -> list[bytes]:
    """Cut the id out, if what is cut is the whole value of a member called so."""
    if answer_id:
        before, found, behind = event.partition(answer_id)
        if found and before.endswith(_BEFORE_ID) and behind.startswith(b'"'):
            return [before, behind]
    return [event]
