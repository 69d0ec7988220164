"""What one document of an answer says, apart from when it came.

An event of a stream and an answer in one piece are documents of nearly the same form. Servers
disagree about what may be missing in them, so each member is looked for where it was seen; a
document of another kind raises nothing, it is a failure beside what was understood before it.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

from tare.worker import failure as kinds
from tare.worker.failure import Failure, shorten
from tare.worker.record import TokenSource

__all__ = ["BROKEN", "Meaning", "error_of"]

_MOST_TOKENS = 2**31 - 1
"""A server that claims more does not count."""
_EXCERPT = 256
BROKEN: Final = (orjson.JSONDecodeError, AttributeError, TypeError, RecursionError)
"""Raised by a document that is none, is another one, or is nested a thousand times."""


class Meaning:
    """What a document says; not changed after `read`.

    Most events say one thing only: what they do not say is a default of the class.
    """

    texts = 0
    """Choices with text of any kind."""
    output = False
    """One of them is not reasoning."""
    pieces: tuple[str, ...] = ()
    """The content itself."""
    facts: tuple[tuple[str, Any], ...] = ()
    """Fields of a `Record` that are known by it, each with its value; a later one counts."""
    ended = False
    """A finish reason, or a usage that stands alone: the answer is whole."""
    failure: Failure | None = None

    @classmethod
    def read(cls, raw: bytes) -> Meaning:
        """Read a document as far as it can be understood."""
        meaning = cls()
        try:
            meaning._read(orjson.loads(raw))
        except BROKEN as error:
            excerpt = raw[:_EXCERPT].decode(errors="replace")
            meaning._fail(kinds.BAD_CHUNK, f"{error}: {excerpt}")
        return meaning

    def _fail(self, kind: str, message: str) -> None:
        if self.failure is None:
            self.failure = Failure(kind, shorten(message))

    def _read(self, document: Any) -> None:
        choices = document.get("choices")
        if choices:
            for choice in choices:
                self._read_choice(choice)
        elif (error := error_of(document)) is not None:
            self._fail(kinds.STREAM_ERROR, error)
            return
        usage = document.get("usage")
        if usage:
            self._read_usage(usage)
            if not choices:
                self.ended = True

    def _read_choice(self, choice: Any) -> None:
        reason = choice.get("finish_reason")
        if reason is not None:
            self._know(finish_reason=reason)
            self.ended = True
            if reason == "abort":
                self._fail(kinds.ABORT, "the server aborted the request")
        part = choice.get("delta") or choice.get("message") or choice
        output = part.get("content") or part.get("text")
        if output:
            self.pieces += (output,)
        elif calls := part.get("tool_calls"):
            output = any(_has_text(call) for call in calls)
        if output or part.get("reasoning_content") or part.get("reasoning"):
            self.texts += 1
            self.output = self.output or bool(output)

    def _read_usage(self, usage: Any) -> None:
        if (tokens := _count(usage, "completion_tokens")) is not None:
            self._know(output_tokens=tokens, token_source=TokenSource.USAGE)
        if (tokens := _count(usage, "prompt_tokens")) is not None:
            self._know(prompt_tokens=tokens)
        if details := usage.get("prompt_tokens_details"):
            self._know(cached_tokens=_count(details, "cached_tokens"))
        if details := usage.get("completion_tokens_details"):
            self._know(reasoning_tokens=_count(details, "reasoning_tokens"))

    def _know(self, **facts: Any) -> None:
        self.facts += tuple(facts.items())


def error_of(document: Any) -> str | None:
    """Return the message of a document that reports an error; two shapes are in use."""
    if error := document.get("error"):
        return _message(error)
    if document.get("object") == "error" or document.get("message"):
        return _message(document)
    return None


def _message(error: Any) -> str:
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)
    return str(error)


def _count(usage: Any, name: str) -> int | None:
    count = usage.get(name)
    if count is None:
        return None
    if type(count) is not int or not 0 <= count <= _MOST_TOKENS:
        raise TypeError(f"usage.{name} is {count!r}")
    return count


def _has_text(call: Any) -> bool:
    """Whether a piece of a tool call was generated: its id is not, name and arguments are."""
    function = call.get("function") or {}
    return bool(function.get("name") or function.get("arguments"))
