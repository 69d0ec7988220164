"""What one document of an answer says, apart from when it came.

An event of a stream and an answer in one piece are documents of nearly the same form. Servers
disagree about what may be missing in them, so each member is looked for where it was seen; a
document of another kind raises nothing, it is a failure beside what was understood before it.

Generated text is what the model wrote, whatever it is for: content, reasoning, the name and the
arguments of a call, a refusal. Content may be a text or a list of parts, thoughts among them:
https://docs.mistral.ai/capabilities/reasoning/
"""

from __future__ import annotations

import re
from typing import Any, Final

import orjson

from tare.worker import failure as kinds
from tare.worker.failure import Failure, shorten
from tare.worker.record import TokenSource

__all__ = ["BROKEN", "Meaning", "document_of", "error_of"]

_MOST_TOKENS = 2**31 - 1
"""A server that claims more does not count."""
_EXCERPT = 256
_MOST_CHOICES = 128
# What begins with a backslash, pairs first: a backslash that is escaped itself begins nothing.
_ESCAPES: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<lone>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_REPLACEMENT: Final = rb"\ufffd"
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
    choices = 0
    """Of which choices it speaks: bit n for the one with index n."""
    finished = 0
    """Which of them have a finish reason in it."""
    ended = False
    """A finish reason, or a usage that stands alone: the answer is whole unless text follows."""
    failure: Failure | None = None

    @classmethod
    def read(cls, raw: bytes) -> Meaning:
        """Read a document as far as it can be understood."""
        meaning = cls()
        try:
            meaning._read(document_of(raw))
        except BROKEN as error:
            excerpt = raw[:_EXCERPT].decode(errors="replace")
            meaning._fail(kinds.BAD_CHUNK, f"{error}: {excerpt}")
        return meaning

    def _fail(self, kind: str, message: str) -> None:
        if self.failure is None:
            self.failure = Failure(kind, shorten(message))

    def _read(self, document: Any) -> None:
        choices = document.get("choices")
        if error := document.get("error"):
            # Said beside choices too, whose finish reason may look well.
            self._fail(kinds.STREAM_ERROR, _message(error))
        if choices:
            for choice in choices:
                self._read_choice(choice)
        elif (words := error_of(document)) is not None:
            self._fail(kinds.STREAM_ERROR, words)
            return
        usage = document.get("usage")
        if usage:
            self._read_usage(usage)
            if not choices:
                self.ended = True

    def _read_choice(self, choice: Any) -> None:
        index = choice.get("index")
        bit = 1 << index if type(index) is int and 0 < index < _MOST_CHOICES else 1
        self.choices |= bit
        if error := choice.get("error"):
            self._fail(kinds.STREAM_ERROR, _message(error))
        # Some servers write an empty one into every event.
        if reason := choice.get("finish_reason"):
            self._know(finish_reason=reason)
            self.ended = True
            self.finished |= bit
            if reason == "abort":
                self._fail(kinds.ABORT, "the server aborted the request")
            elif reason == "error":
                self._fail(kinds.STREAM_ERROR, "the server ended the answer with an error")
        self._read_part(choice.get("delta") or choice.get("message") or choice)

    def _read_part(self, part: Any) -> None:
        content = part.get("content") or part.get("text")
        thought = part.get("reasoning_content") or part.get("reasoning")
        if content and not isinstance(content, str):
            content, of_parts = _joined(content)
            thought = thought or of_parts
        output = bool(content)
        if content:
            self.pieces += (content,)
        else:
            output = bool(part.get("refusal")) or _has_call(part)
        if output or thought:
            self.texts += 1
            self.output = self.output or output

    def _read_usage(self, usage: Any) -> None:
        if (tokens := _count(usage, "completion_tokens")) is not None:
            self._know(output_tokens=tokens, token_source=TokenSource.USAGE)
        if (tokens := _count(usage, "prompt_tokens")) is not None:
            self._know(prompt_tokens=tokens)
        # A later usage that does not speak of them takes nothing back.
        details = usage.get("prompt_tokens_details")
        if details and (tokens := _count(details, "cached_tokens")) is not None:
            self._know(cached_tokens=tokens)
        details = usage.get("completion_tokens_details")
        if details and (tokens := _count(details, "reasoning_tokens")) is not None:
            self._know(reasoning_tokens=tokens)

    def _know(self, **facts: Any) -> None:
        self.facts += tuple(facts.items())


def error_of(document: Any) -> str | None:
    """Return the message of a document that reports an error; several shapes are in use."""
    if error := document.get("error"):
        return _message(error)
    if document.get("object") == "error" or document.get("message"):
        return _message(document)
    if detail := document.get("detail"):
        return str(detail)
    return None


def document_of(raw: bytes) -> Any:
    """Parse a document, or the only one of a list: some gateways wrap their errors so.

    What is no character becomes U+FFFD, as the standard of event streams asks: a server that cuts
    its text by bytes, or by halves of a pair, sends such.
    https://encoding.spec.whatwg.org/#utf-8-decode

    Raises:
        orjson.JSONDecodeError: it is none for another reason.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        mended = _ESCAPES.sub(_whole_escape, raw.decode(errors="replace").encode())
        if mended == raw:
            raise
        document = orjson.loads(mended)
    return document[0] if isinstance(document, list) and len(document) == 1 else document


def _whole_escape(found: re.Match[bytes]) -> bytes:
    return found[0] if found["lone"] is None else _REPLACEMENT


def _joined(parts: Any) -> tuple[str, bool]:
    """Return the text of a list of parts, and whether there are thoughts in it."""
    if not isinstance(parts, list):
        raise TypeError(f"content is {type(parts).__name__}")
    texts = [part if isinstance(part, str) else part.get("text") or "" for part in parts]
    return "".join(texts), any(isinstance(p, dict) and p.get("thinking") for p in parts)


def _message(error: Any) -> str:
    if isinstance(error, list) and error:
        error = error[0]
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


def _has_call(part: Any) -> bool:
    """Whether a piece of a call was generated: its id is not, name and arguments are."""
    functions = [call.get("function") for call in part.get("tool_calls") or ()]
    functions.append(part.get("function_call"))
    return any(f and (f.get("name") or f.get("arguments")) for f in functions)
