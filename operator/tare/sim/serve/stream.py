"""Answers as server-sent events, byte for byte in the order and shape of a vLLM 0.32.

The role's event comes with the first token, not before the prompt is computed; a token without text
gives an event with empty text; usage comes last, before `[DONE]`. What is the same for a whole
answer is built once, and an event of one word is then three byte strings put together. All words
have one length, so the chunk's size line is known beforehand.

The tokens of many answers are due at one moment, and each waits for those before it. So what the
next token will need is put together before it is due, and only written then.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson

from tare.sim.serve.http import LAST_CHUNK, chunk
from tare.sim.serve.reply import Reply
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.sim.core.generations import Generation
    from tare.sim.serve.openai import ApiError

__all__ = ["BadEnd", "StreamReply"]

TOKENS_PER_EVENT = 3
"""A real server under load was seen to put up to three tokens into one event."""
_DONE = chunk(b"data: [DONE]\n\n") + LAST_CHUNK


class BadEnd(StrEnum):
    """How a stream can fail although its status is 200."""

    ABORT = "abort"
    """`finish_reason: "abort"` and `[DONE]`, as after `/pause`."""
    ERROR_EVENT = "error_event"
    """An event with `{"error": …}` and `[DONE]`, as after the engine's death."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """The constant bytes of one API's events."""

    kind: bytes
    text_begin: bytes
    text_end: bytes
    unfinished: bytes
    finished: bytes


_CHAT = _Shape(
    kind=b"chat.completion.chunk",
    text_begin=b'{"index":0,"delta":{"content":"',
    text_end=b'"},"logprobs":null,"finish_reason":',
    unfinished=b'null,"token_ids":null}',
    finished=b'"%b","stop_reason":null,"token_ids":null}',
)
_COMPLETION = _Shape(
    kind=b"text_completion",
    text_begin=b'{"index":0,"text":"',
    text_end=b'","logprobs":null,"finish_reason":',
    unfinished=b'null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}',
    finished=b'"%b","stop_reason":null,"prompt_token_ids":null,"token_ids":null}',
)
_ROLE = (
    b'{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}'
)
_USAGE_SO_FAR = (
    b',"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,'
    b'"completion_tokens_details":null}'
)
_ENGINE_DEAD = chunk(
    b'data: {"error":{"message":"EngineCore encountered an issue.",'
    b'"type":"InternalServerError","param":null,"code":500}}\n\n'
)


class StreamReply(Reply):
    """An answer as server-sent events, each in a chunk of its own."""

    def __init__(self, *, bad_end: BadEnd | None = None, **common: Any) -> None:
        """Send the response's head at once; `bad_end` makes it fail after the first token."""
        super().__init__(**common)
        self._bad_end = bad_end
        self._shape = shape = _CHAT if self.request.chat else _COMPLETION
        self._begin = b'data: {"id":%b,"object":"%b","created":%d,"model":%b,"choices":[' % (
            orjson.dumps(self.identity),
            shape.kind,
            self.created,
            orjson.dumps(self.request.model),
        )
        before = self._begin + shape.text_begin
        after = shape.text_end + shape.unfinished + b"]}\n\n"
        self._words = self.answer.vocabulary.piece_bytes
        size = len(before) + len(self._words[0]) + len(after)
        self._word_before = b"%x\r\n%b" % (size, before)
        self._word_after = after + b"\r\n"
        self._plain = not self.request.continuous_usage and bad_end is None
        self._ahead: tuple[int, bytes] | None = None
        """A token, counted from 1, and its events."""
        self.connection.start_stream()

    @override
    def prepare(self, generation: Generation) -> None:
        """Put the events of the next token together."""
        done = generation.generated
        # What the usage says is known from the first token on.
        if done or generation.limit > 1:
            self._ahead = (done + 1, self._encoded(generation, done, done + 1))

    @override
    def send(self, generation: Generation, count: int) -> None:
        """Send the events of the `count` newest tokens in one write."""
        done, ahead = generation.generated, self._ahead
        if ahead is not None and count == 1 and ahead[0] == done:
            self.connection.write(ahead[1])
        else:
            self.connection.write(self._encoded(generation, done - count, done))
        if done == generation.limit:
            self.connection.finish()
        elif self._bad_end is not None:
            self.connection.write(b"".join((self._failure(generation), _DONE)))
            self.connection.finish()
            self.owner.on_abandoned(self)

    @override
    def refuse(self, error: ApiError) -> None:
        """Send the error as an event, since status 200 is on its way already."""
        event = chunk(b"data: %b\n\n" % orjson.dumps(error.document()))
        self.connection.write(event + _DONE)
        self.connection.finish()

    def _encoded(self, generation: Generation, first: int, done: int) -> bytes:
        """Return the events of the tokens `first` up to, but without, `done`."""
        if done == first + 1 and first and self._plain and done < generation.limit:
            word = self.answer.word(first)
            if word is not None:
                return self._word_before + self._words[word] + self._word_after
        return b"".join(self._events(generation, first, done))

    def _events(self, generation: Generation, first: int, done: int) -> Iterator[bytes]:
        finished = done == generation.limit
        if first == 0 and self.request.chat:
            yield self._event(_ROLE, generation, 0)
        for begin in range(first, done, TOKENS_PER_EVENT):
            end = min(begin + TOKENS_PER_EVENT, done)
            reason = self.request.finish_reason if finished and end == done else None
            yield self._text_event(generation, begin, end, reason)
        if not finished:
            return
        if self.request.include_usage:
            usage = orjson.dumps(self.usage(generation, done))
            yield chunk(b'%b],"usage":%b}\n\n' % (self._begin, usage))
        yield _DONE

    def _failure(self, generation: Generation) -> bytes:
        if self._bad_end is BadEnd.ERROR_EVENT:
            return _ENGINE_DEAD
        return self._text_event(generation, generation.generated, generation.generated, "abort")

    def _text_event(
        self, generation: Generation, begin: int, end: int, finish_reason: str | None
    ) -> bytes:
        shape = self._shape
        text = self.answer.text(begin, end).encode()
        reason = shape.unfinished
        if finish_reason is not None:
            reason = shape.finished % finish_reason.encode()
        return self._event(shape.text_begin + text + shape.text_end + reason, generation, end)

    def _event(self, choice: bytes, generation: Generation, generated: int) -> bytes:
        """Build one event; with `continuous_usage_stats` it carries the counts so far."""
        usage = b""
        if self.request.continuous_usage:
            prompt = generation.prompt_tokens
            usage = _USAGE_SO_FAR % (prompt, prompt + generated, generated)
        return chunk(b"%b%b]%b}\n\n" % (self._begin, choice, usage))
