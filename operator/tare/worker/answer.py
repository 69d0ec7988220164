"""Reads the answer to one completion request into a `Record`; no I/O, no clock of its own.

An answer is whole when a finish reason, a final usage or `[DONE]` was seen: servers differ in which
of them they send. Text that follows the first two takes that back, and of several choices each has
to finish. HTTP 200 is not success: an error event, `finish_reason: "abort"`, broken JSON
and a stream without content are failures however well the transport ended. Events are not tokens:
tokens are counted by the server's usage, by events only where there is none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from tare.worker import failure as kinds
from tare.worker.body import Body, foreign_coding, words_of
from tare.worker.failure import Failure, http_kind, shorten
from tare.worker.meaning import Meaning
from tare.worker.record import Record, Status, TokenSource
from tare.worker.sse import ErrorEvent, EventStream
from tare.worker.template import NOTHING_FITS, PLAIN, Patterns, Template, is_text, text_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.worker.http import Headers

__all__ = ["Answer"]

_DONE = b"[DONE]"
_DONE_LINE = b"data: [DONE]\n\n"
_EVENT_END = b"\n\n"
_GAP_BYTES = 8
_LESSONS = 4
"""Templates that are learned in a stream at most: some streams never repeat themselves."""


class Answer:
    """The reading side of one request; calls `done` exactly once, when the record is final."""

    __slots__ = (
        "_begun",
        "_body",
        "_done",
        "_ended_at",
        "_expected",
        "_failure",
        "_finished",
        "_id",
        "_lessons",
        "_marks",
        "_output",
        "_patterns",
        "_saw_done",
        "_stream",
        "_streaming",
        "_success",
        "_text",
        "_wanted",
        "_whole",
        "record",
    )

    def __init__(
        self,
        record: Record,
        *,
        streaming: bool,
        done: Callable[[Answer], None],
        text: list[str] | None = None,
        patterns: Patterns | None = None,
    ) -> None:
        """Begin to read.

        `text` is filled with the pieces of the answer's content, if it is wanted. `patterns` is
        what other answers of the same target have taught; without it every event is parsed.
        """
        self.record = record
        self._streaming = streaming
        self._done: Callable[[Answer], None] | None = done
        self._text = text
        self._patterns = patterns
        self._id = b""
        """The answer's own, as its events say it."""
        self._marks = self._expected = NOTHING_FITS
        """What the next event with text is expected to be like; `_expected` while it may begin."""
        self._output = False
        """The event is one of output then, and not of reasoning alone."""
        self._wanted: list[str] | None = None
        """Where that text goes, if it goes anywhere."""
        self._lessons = _LESSONS
        self._whole = self._patterns is not None
        """The next piece begins with an event, which may be recognised."""
        self._stream: EventStream | None = None
        """Needed from the first piece on that is not an event like others."""
        self._body: Body | None = None
        """Of an answer that is no stream, as far as its head says."""
        self._failure: Failure | None = None
        """The first thing that makes the answer a failure, whatever follows."""
        self._ended_at = -1
        """Number of chunks when a finish reason or a usage on its own was seen last."""
        self._begun = self._finished = 0
        """Bits of the choices, as soon as there is another one than the first."""
        self._saw_done = self._success = False

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
        self.record.http_status = status
        self._success = success = 200 <= status < 300  # noqa: PLR2004 - the class of success
        if success:
            if b"content-encoding" in headers and (coded := foreign_coding(headers)):
                self._fail(kinds.PROTOCOL, coded)
            if headers.get(b"content-type", b"").lower().startswith(b"text/event-stream"):
                self.record.streamed = True
                return
        self._body = Body(headers, success=success, streaming=self._streaming)

    def on_data(self, at: int, pieces: Sequence[bytes]) -> None:
        """Read events, or keep the pieces of a body that is read at its end.

        A piece of an event stream is mostly one event, as servers flush each of them: then it is
        compared as it is, and nothing has to be cut.
        """
        if not self.record.streamed and not (pieces := self._keep(pieces)):
            return
        head, tail, around = self._expected
        texts = 0
        for piece in pieces:
            # `template.text_in` without its call, which would double the cost of an event.
            text = piece.removeprefix(head).removesuffix(tail)
            if (
                text
                and len(text) + around == len(piece)
                and (not text.strip(PLAIN) or is_text(text))
            ):
                texts += 1
                if self._wanted is not None:
                    self._wanted.append(orjson.loads(b'"%b"' % text))
                continue
            if texts:
                self._add_texts(at, texts, output=self._output)
                texts = 0
            if not (self._whole and self._recognise(at, piece)):
                self._read_piece(at, piece)
            head, tail, around = self._expected
        if texts:
            self._add_texts(at, texts, output=self._output)

    def on_end(self, at: int) -> None:
        """Judge a body that came whole."""
        if not self.record.streamed:
            self._read_body(at)
        if self._failure is not None:
            self._finish(at, Status.ERROR, self._failure)
        elif not self._has_content():
            self._finish(at, Status.ERROR, Failure(kinds.EMPTY_STREAM, self._no_content()))
        elif self._saw_done or self._has_ended():
            self._finish(at, Status.OK)
        else:
            message = "no finish_reason, usage or [DONE] after the last text"
            self._finish(at, Status.INCOMPLETE, Failure(kinds.TRUNCATED, message))

    def on_failure(self, at: int, failure: Failure) -> None:
        """Judge what there is when the connection failed."""
        if self.record.http_status is None:
            self._finish(at, Status.ERROR, failure)
        else:
            kind = kinds.TRUNCATED if failure.kind == kinds.CLOSED else failure.kind
            self._break_off(at, Status.INCOMPLETE, Failure(kind, failure.message))

    def give_up(self, at: int, status: Status, failure: Failure) -> None:
        """End it by our own decision; its connection is the caller's business."""
        self._break_off(at, status, failure)

    def _has_ended(self) -> bool:
        """Whether a usage, or the finish reason of each choice, came after the last text."""
        return self._ended_at == self.record.chunks and self._begun == self._finished

    def _no_content(self) -> str:
        """Say what came instead, as far as it is words."""
        if self._body is not None:
            raw = self._body.document
        else:
            raw = self._stream.strange if self._stream is not None else b""
        found = words_of(raw)
        status = f"{self.record.http_status} without content"
        return shorten(f"{status}: {found}") if found else status

    def _has_content(self) -> bool:
        record = self.record
        return (
            record.chunks > 0 or record.finish_reason is not None or record.token_source is not None
        )

    def _break_off(self, at: int, status: Status, failure: Failure) -> None:
        if self.record.http_status is not None and not self._success:
            self._read_body(at)
        if self._failure is not None:
            self._finish(at, Status.ERROR, self._failure)
        elif (self._saw_done or self._has_ended()) and self._has_content():
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
        elif record.streamed and not self._saw_done:
            record.missing_done = True
        if record.streamed and record.chunks and not record.output_tokens:
            # A usage of 0 beside text is a server that does not count.
            record.output_tokens = record.chunks
            record.token_source = TokenSource.CHUNKS
        done(self)

    def _fail(self, kind: str, message: str) -> None:
        if self._failure is None:
            self._failure = Failure(kind, shorten(message))

    def _recognise(self, at: int, event: bytes) -> bool:
        """Read an event, with the frame around it, that is like an earlier one."""
        if event == _DONE_LINE:
            self._saw_done = True
            return True
        patterns = self._patterns
        assert patterns is not None
        if self._id:
            meaning = patterns.meaning(event, self._id)
        else:
            self._id, meaning = patterns.opening(event)
            if self._id and patterns.template is not None:
                self._expect(patterns.template)
        if meaning is None:
            return self._fit(at, event)
        record = self.record
        if not record.first_event:
            record.first_event = at
        if meaning.ended:
            self._ended_at = record.chunks
        for name, value in meaning.facts:
            setattr(record, name, value)
        return True

    def _fit(self, at: int, event: bytes) -> bool:
        """Read an event, with the frame around it, if it has the expected form of text."""
        text = text_in(self._marks, event)
        if not text:
            return False
        self._add_texts(at, 1, output=self._output)
        if self._wanted is not None:
            self._wanted.append(orjson.loads(b'"%b"' % text))
        return True

    def _read_piece(self, at: int, piece: bytes) -> None:
        """Read any piece of a stream."""
        if self._whole and piece.endswith(_EVENT_END) and piece.count(_EVENT_END) > 1:
            # Several events in one piece, as behind a proxy: each may be like an earlier one.
            events = piece[: -len(_EVENT_END)].split(_EVENT_END)
            self.on_data(at, [event + _EVENT_END for event in events])
            return
        if self._stream is None:
            begun = bool(self.record.first_event) or self._saw_done
            self._stream = EventStream(started=begun)
        for event in self._stream.feed(piece):
            data = event.strip()
            if data == _DONE:
                self._saw_done = True
            elif data:
                self._read_event(at, event)
        self._whole = self._patterns is not None and self._stream.idle
        self._expected = self._marks if self._whole else NOTHING_FITS

    def _read_event(self, at: int, event: bytes) -> None:
        """Read the data of an event."""
        patterns = self._patterns
        if isinstance(event, ErrorEvent):
            self._fail(kinds.STREAM_ERROR, words_of(bytes(event)))
        elif patterns is None or b"\n" in event:
            self._take(at, Meaning.read(event))
        else:
            line = b"data: %b\n\n" % event
            if not self._fit(at, line) and not self._recognise(at, line):
                self._learn(at, event, line, patterns)

    def _learn(self, at: int, event: bytes, line: bytes, patterns: Patterns) -> None:
        """Read the data of an event that is like none before it, and keep what it teaches."""
        meaning = Meaning.read(event)
        self._take(at, meaning)
        if meaning.failure is not None or meaning.choices > 1:
            return
        if not meaning.texts:
            patterns.keep(line, self._id, meaning)
        elif self._lessons:
            self._lessons -= 1
            if (learned := Template.learn(event, self._id, output=meaning.output)) is not None:
                patterns.template = learned
                self._expect(learned)

    def _expect(self, template: Template) -> None:
        self._marks = self._expected = template.marks(self._id)
        self._output = template.output
        self._wanted = self._text if template.content else None

    def _take(self, at: int, meaning: Meaning) -> None:
        """Take in what an event says, or a whole body."""
        record = self.record
        if meaning.choices > 1 or self._begun:
            self._take_choices(meaning)
        if not record.first_event and record.streamed:
            record.first_event = at
        if meaning.texts:
            self._add_texts(at, meaning.texts, output=meaning.output)
            if self._text is not None:
                self._text += meaning.pieces
        for name, value in meaning.facts:
            setattr(record, name, value)
        if meaning.ended:
            self._ended_at = record.chunks
        if self._failure is None:
            self._failure = meaning.failure

    def _take_choices(self, meaning: Meaning) -> None:
        """Know of each choice whether it has ended, once there are several.

        From then on every event is parsed: one that is like others may be of another choice.
        """
        if not self._begun:
            self._begun = int(self.record.first_event > 0)
            self._finished = int(self._ended_at >= 0)
            self._patterns, self._whole = None, False
            self._marks = self._expected = NOTHING_FITS
        self._begun |= meaning.choices
        if meaning.ended:
            self._finished |= meaning.finished or self._begun

    def _add_texts(self, at: int, texts: int, *, output: bool) -> None:
        """Count texts that came in one read, and so without a gap between them."""
        record = self.record
        if not record.first_text:
            record.first_text = at
            record.first_event = record.first_event or at
        else:
            record.gaps.append(at - record.last_text)
        if texts > 1:
            record.gaps.frombytes(bytes(_GAP_BYTES * (texts - 1)))
        if output and not record.first_output:
            record.first_output = at
        record.last_text = at
        record.chunks += texts

    def _keep(self, pieces: Sequence[bytes]) -> Sequence[bytes]:
        """Keep pieces of a body until its end; return all of it if it is a stream after all."""
        assert self._body is not None
        if not (stream := self._body.add(pieces)):
            return ()
        self.record.streamed, self._body = True, None
        return (stream,)

    def _read_body(self, at: int) -> None:
        assert self._body is not None
        if not self._success:
            self._fail(http_kind(self.record.http_status or 0), self._body.refusal)
            return
        self._take(at, Meaning.read(self._body.document or b"{}"))
        del self.record.gaps[:]  # Choices that come in one piece have no time between them.
        self._ended_at, self._finished = self.record.chunks, self._begun
