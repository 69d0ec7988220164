"""Reads the answer to one completion request into a `Record`; no I/O, no clock of its own.

An answer is whole when a finish reason, a final usage or `[DONE]` was seen: servers differ in which
of them they send. HTTP 200 is not success: an error event, `finish_reason: "abort"`, broken JSON
and a stream without content are failures however well the transport ended. Events are not tokens:
tokens are counted by the server's usage, by events only where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from tare.worker import failure as kinds
from tare.worker.failure import Failure, http_kind, shorten
from tare.worker.record import Record, Status, TokenSource
from tare.worker.sse import EventStream
from tare.worker.template import Template

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.worker.http import Headers

__all__ = ["Answer"]

_DONE = b"[DONE]"
_MAX_ERROR_BODY = 16 * 1024
_MOST_TOKENS = 2**31 - 1
"""A server that claims more does not count."""
_BROKEN = (orjson.JSONDecodeError, AttributeError, TypeError, RecursionError)
"""Raised by a document that is none, is another one, or is nested a thousand times."""
_LESSONS = 4
"""Templates that are learned in a stream at most: some streams never repeat themselves."""


class Answer:
    """The reading side of one request; calls `done` exactly once, when the record is final."""

    __slots__ = (
        "_body",
        "_body_size",
        "_done",
        "_ended",
        "_failure",
        "_lessons",
        "_retry_after",
        "_saw_done",
        "_stream",
        "_streaming",
        "_template",
        "_text",
        "record",
    )

    def __init__(
        self,
        record: Record,
        *,
        streaming: bool,
        done: Callable[[Answer], None],
        text: list[str] | None = None,
    ) -> None:
        self.record = record
        self._streaming = streaming
        self._done: Callable[[Answer], None] | None = done
        self._text = text
        """Filled with the pieces of the answer's content when the caller wants them."""
        self._template: Template | None = None
        self._lessons = _LESSONS if text is None else 0
        self._stream: EventStream | None = None
        self._body: list[bytes] = []
        self._body_size = 0
        self._failure: Failure | None = None
        """The first thing that makes the answer a failure, whatever follows."""
        self._ended = False
        self._saw_done = False
        self._retry_after = ""

    @property
    def last_progress(self) -> int:
        """The last text, or the send: what an idle time-out counts from."""
        return self.record.last_text or self.record.sent

    def on_sent(self, at: int) -> None:
        """Keep the first attempt's moment: a second one must not make the answer look faster."""
        if self.record.sent:
            self.record.resent = True
        else:
            self.record.sent = at

    def on_head(self, at: int, status: int, headers: Headers) -> None:  # noqa: ARG002 - Exchange
        """Decide from status and type how the body is to be read."""
        content_type = b""
        for name, value in headers:
            if name == b"content-type":
                content_type = value.lower()
            elif name == b"retry-after":
                self._retry_after = value.decode("latin-1")
        self.record.http_status = status
        if 200 <= status < 300:  # noqa: PLR2004 - the class of success
            is_json = content_type.startswith(b"application/json")
            is_stream = content_type.startswith(b"text/event-stream")
            if is_stream or (self._streaming and not is_json):
                self._stream = EventStream()
                self.record.streamed = True

    def on_data(self, at: int, data: bytes) -> None:
        """Read events, or keep the piece of a body that is read at its end."""
        if self._stream is None:
            if not self._is_success:
                data = data[: _MAX_ERROR_BODY - self._body_size]
            self._body.append(data)
            self._body_size += len(data)
            return
        record, template = self.record, self._template
        for event in self._stream.feed(data):
            if template is not None and template.fits(event):
                record.gaps.append(at - record.last_text)
                record.last_text = at
                record.chunks += 1
            elif event == _DONE:
                self._saw_done = self._ended = True
            elif event:
                self._read_event(at, event)
                template = self._template

    def on_end(self, at: int) -> None:
        """Judge a body that came whole."""
        if self._stream is None:
            self._read_body(at)
        if self._failure is not None:
            self._finish(at, Status.ERROR, self._failure)
        elif not self._has_content:
            self._finish(at, Status.ERROR, Failure(kinds.EMPTY_STREAM, "200 without content"))
        elif self._ended:
            self._finish(at, Status.OK)
        else:
            message = "the stream ended without finish_reason, usage or [DONE]"
            self._finish(at, Status.INCOMPLETE, Failure(kinds.TRUNCATED, message))

    def on_failure(self, at: int, failure: Failure) -> None:
        """Judge what there is when the connection failed."""
        if self.record.http_status is None:
            self._finish(at, Status.ERROR, failure)
        elif not self._is_success:
            self._read_body(at)
            self._finish(at, Status.ERROR, self._failure)
        else:
            kind = kinds.TRUNCATED if failure.kind == kinds.CLOSED else failure.kind
            self._break_off(at, Status.INCOMPLETE, Failure(kind, failure.message))

    def give_up(self, at: int, status: Status, failure: Failure) -> None:
        """End it by our own decision; its connection is the caller's business."""
        self._break_off(at, status, failure)

    @property
    def _is_success(self) -> bool:
        return self.record.http_status is not None and self.record.http_status // 100 == 2  # noqa: PLR2004

    @property
    def _has_content(self) -> bool:
        record = self.record
        return bool(
            record.chunks or record.finish_reason is not None or record.token_source is not None
        )

    def _break_off(self, at: int, status: Status, failure: Failure) -> None:
        if self._failure is not None:
            self._finish(at, Status.ERROR, self._failure)
        elif self._ended and self._has_content:
            self._finish(at, Status.OK)
        else:
            self._finish(at, status, failure)

    def _finish(self, at: int, status: Status, failure: Failure | None = None) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        record = self.record
        record.closed = at
        record.status = status
        if failure is not None:
            record.error_kind, record.error_message = failure.kind, failure.message
        record.missing_done = status is Status.OK and record.streamed and not self._saw_done
        if record.streamed and record.chunks and not record.output_tokens:
            # A usage of 0 beside text is a server that does not count.
            record.output_tokens = record.chunks
            record.token_source = TokenSource.CHUNKS
        done(self)

    def _fail(self, kind: str, message: str) -> None:
        if self._failure is None:
            self._failure = Failure(kind, shorten(message))

    def _read_event(self, at: int, event: bytes) -> None:
        record = self.record
        if not record.first_event:
            record.first_event = at
        chunks = record.chunks
        try:
            document = orjson.loads(event)
            self._read_document(at, document)
            if self._lessons and record.chunks > chunks:
                self._lessons -= 1
                self._template = Template.learn(event, document) or self._template
        except _BROKEN as error:
            self._fail(kinds.BAD_CHUNK, f"{error}: {event[:256].decode(errors='replace')}")

    def _read_body(self, at: int) -> None:
        body = b"".join(self._body)
        if not self._is_success:
            status = self.record.http_status or 0
            retry = f" (Retry-After: {self._retry_after})" if self._retry_after else ""
            self._fail(http_kind(status), shorten(_error_message(body)) + retry)
            return
        try:
            self._read_document(at, orjson.loads(body) if body else {})
            self._ended = True
        except _BROKEN as error:
            self._fail(kinds.BAD_CHUNK, f"{error}: {body[:256].decode(errors='replace')}")

    def _read_document(self, at: int, document: Any) -> None:
        choices = document.get("choices")
        if choices:
            for choice in choices:
                self._read_choice(at, choice)
        elif (error := _error_of(document)) is not None:
            self._fail(kinds.STREAM_ERROR, error)
            return
        usage = document.get("usage")
        if usage:
            self._read_usage(usage)
            if not choices:
                self._ended = True

    def _read_choice(self, at: int, choice: Any) -> None:
        record = self.record
        reason = choice.get("finish_reason")
        if reason is not None:
            record.finish_reason = reason
            self._ended = True
            if reason == "abort":
                self._fail(kinds.ABORT, "the server aborted the request")
        part = choice.get("delta") or choice.get("message") or choice
        output = part.get("content") or part.get("text")
        if output and self._text is not None:
            self._text.append(output)
        if not output and (calls := part.get("tool_calls")):
            output = any(_has_text(call) for call in calls)
        if not output and not (part.get("reasoning_content") or part.get("reasoning")):
            return
        if not record.first_text:
            record.first_text = at
        else:
            record.gaps.append(at - record.last_text)
        if output and not record.first_output:
            record.first_output = at
        record.last_text = at
        record.chunks += 1

    def _read_usage(self, usage: Any) -> None:
        record = self.record
        if (tokens := _count(usage, "completion_tokens")) is not None:
            record.output_tokens = tokens
            record.token_source = TokenSource.USAGE
        if (tokens := _count(usage, "prompt_tokens")) is not None:
            record.prompt_tokens = tokens
        if details := usage.get("prompt_tokens_details"):
            record.cached_tokens = _count(details, "cached_tokens")
        if details := usage.get("completion_tokens_details"):
            record.reasoning_tokens = _count(details, "reasoning_tokens")


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


def _error_of(document: Any) -> str | None:
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


def _error_message(body: bytes) -> str:
    """Return the server's own words for a refusal, whatever shape they have."""
    plain = body.decode(errors="replace").strip()
    try:
        document = orjson.loads(body)
        return _error_of(document) or str(document.get("detail") or "") or plain
    except _BROKEN:
        return plain
