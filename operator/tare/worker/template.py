"""Recognises an event that differs from an earlier one of its stream in nothing but its text.

Nearly all events of a long answer are equal but for a few characters, and comparing bytes costs a
fraction of parsing them. The comparison is exact: a template is learned from an event that was
parsed, proven by parsing it once more with another text in the same place, and fits only text that
JSON writes as it is. An escape, a character that is not ASCII, a usage, a finish reason: whatever
is unusual does not fit, and is the parser's.
"""

from __future__ import annotations

from typing import Any, Final, Self

import orjson

__all__ = ["Template"]

# A string of these bytes stands in JSON as it is: https://www.rfc-editor.org/rfc/rfc8259#section-7
_PLAIN: Final = bytes(set(range(0x20, 0x7F)) - set(b'"\\'))
_TEXTS: Final = ("content", "text", "reasoning_content", "reasoning")
_OTHER: Final = "~"


class Template:
    """What stands before and behind the text in all events like one that was parsed."""

    __slots__ = ("_ends", "_head", "_start", "_stop", "_tail")

    def __init__(self, head: bytes, tail: bytes) -> None:
        self._head = head
        self._tail = tail
        self._start = len(head)
        self._stop = -len(tail)
        self._ends = len(head) + len(tail)

    @classmethod
    def learn(cls, event: bytes, document: Any) -> Self | None:
        """Learn from an event with text and what it was parsed to, which is spoilt.

        None when it has more in it than one text, or its text cannot be told from the rest.
        """
        choices = document["choices"]
        if len(choices) != 1 or document.get("usage"):
            return None
        (choice,) = choices
        part = choice.get("delta") or choice.get("message") or choice
        key = next((key for key in _TEXTS if part.get(key)), None)
        text = part[key] if key is not None else None
        if not isinstance(text, str) or choice.get("finish_reason") is not None:
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
        return cls(head, tail) if proven else None

    def fits(self, event: bytes) -> bool:
        """Whether parsing would find the same document, with another text that is not empty."""
        return (
            event.startswith(self._head)
            and event.endswith(self._tail)
            and len(event) > self._ends
            and not event[self._start : self._stop].translate(None, _PLAIN)
        )
