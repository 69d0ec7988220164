"""Makes answers that a server could send, or that no server should: bytes, and how they end.

Most of them are nearly right, since a parser breaks at the border between right and wrong: streams
from a grammar of what servers are known to send, then now and then cut, doubled, spoilt. Everything
follows from a `random.Random`, so that a seed names a case and hypothesis can shrink it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

__all__ = ["Case", "cut", "make"]


@dataclass(frozen=True, kw_only=True)
class Case:
    """One answer."""

    wire: bytes
    """Everything that the server sends."""
    end: Exception | None
    """What the connection ends with."""
    streaming: bool
    """Whether the client asked for a stream."""
    sibling: bytes
    """The same but for the id of the answer."""


_TEXTS: Final = (
    "a",
    " the",
    "~",
    "content",
    "tiny",
    "é",
    "日本",
    '"',
    "\\",
    "\n",
    "\x7f",
    "{}",
    "",
)
_NUMBERS: Final = (0, 1, 3, 57, 10**6, 2**63, 10**30, -1, 2.5, True, None, "3")
_ODD: Final[tuple[Any, ...]] = (
    None,
    0,
    7,
    -1,
    2.5,
    True,
    "",
    "x",
    [],
    [1],
    {},
    {"a": 1},
    [[]],
    ["content"],
)
_EVENT_END: Final = re.compile(rb"(?<=\n\n)")
"""Where a server flushes that sends each event in a chunk of its own."""
_IDS: Final = (b"chatcmpl-1", b"finish_reason", b"choices", b"stop", b"e57", b"57", b"tiny", b"x y")
"""Of answers; some stand in other places, too."""
_REASONS: Final = ("stop", "length", "abort", "tool_calls", "", 7, {"a": 1})
_HEADS: Final = (200, 200, 200, 200, 200, 200, 201, 204, 302, 304, 400, 429, 500, 503)
_TYPES: Final = (
    b"text/event-stream",
    b"text/event-stream; charset=utf-8",
    b"TEXT/EVENT-STREAM",
    b"application/json",
    b"text/html",
    b"",
)
_BREAKS: Final = (b"\n", b"\n", b"\n", b"\r\n", b"\r")
_LINES: Final = (b": ping", b"id: 7", b"event: x", b"retry: 1", b"data", b"data:", b"database: y")


def make(random: Random) -> Case:
    """Return a case."""
    streaming = random.random() < 0.9
    body = _stream(random) if random.random() < 0.85 else _document(random)
    if random.random() < 0.3:
        body = _spoilt(random, body)
    wire = _framed(random, body)
    if random.random() < 0.1:
        wire = random.choice((b"", b"HTTP/1.1 100 Continue\r\n\r\n", wire)) + wire
    if random.random() < 0.1:
        wire = _spoilt(random, wire)
    if random.random() < 0.02:
        wire = random.randbytes(random.randrange(200))
    end = random.choice((None, None, ConnectionResetError("reset by peer"), ValueError("odd")))
    id_ = next((id_ for id_ in _IDS if b'"id":"%b"' % id_ in wire), _IDS[0])
    sibling = wire.replace(id_, id_[::-1])
    return Case(wire=wire, end=end, streaming=streaming, sibling=sibling)


def cut(random: Random, wire: bytes) -> list[bytes]:
    """Return the same bytes in pieces, at places where it hurts and at any others."""
    edges = [at + 1 for at, byte in enumerate(wire) if byte in b"\r\n" and random.random() < 0.3]
    edges += [random.randrange(len(wire) + 1) for _ in range(random.randrange(8))]
    if random.random() < 0.05:
        edges = list(range(len(wire)))
    edges = sorted({0, len(wire), *edges})
    return [wire[a:b] for a, b in pairwise(edges)]


def _stream(random: Random) -> bytes:
    line_break = random.choice(_BREAKS)
    write = _writer(random, line_break)
    id_ = _IDS[0] if random.random() < 0.7 else random.choice(_IDS)
    common = {"id": id_.decode(), "object": "chat.completion.chunk", "model": "tiny"}
    if random.random() < 0.1:
        common = dict(reversed(common.items()))
    key = random.choice(("content", "content", "text", "reasoning", "reasoning_content"))
    events = [b"\xef\xbb\xbf"] if random.random() < 0.05 else []
    for _ in range(random.randrange(12)):
        kind = random.random()
        if kind < 0.6:
            document = common | {"choices": [_text_choice(random, key)]}
        elif kind < 0.9:
            document = common | _odd_members(random)
        else:
            events.append(_noise(random, line_break))
            continue
        events.append(write(document))
    if random.random() < 0.7:
        events.append(write(common | {"choices": [_choice({}, random.choice(_REASONS))]}))
    if random.random() < 0.7:
        events.append(write(common | {"choices": [], "usage": _usage(random)}))
    if random.random() < 0.7:
        events.append(b"data: [DONE]" + line_break * 2)
    return b"".join(events)


def _writer(random: Random, line_break: bytes) -> Callable[[Any], bytes]:
    """Return how this server writes an event."""
    before = random.choice((b"data: ", b"data: ", b"data:", b": ping\ndata: "))
    style: dict[str, Any] = random.choice(
        (
            {"separators": (",", ":")},
            {"separators": (",", ":"), "ensure_ascii": False},
            {"ensure_ascii": False},
            {"indent": 1},
        )
    )

    def write(document: Any) -> bytes:
        raw = json.dumps(document, **style).encode()
        return before + raw.replace(b"\n", line_break + b"data: ") + line_break * 2

    return write


def _choice(delta: Any, finish_reason: Any = None, **more: Any) -> dict[str, Any]:
    return {"index": 0, "delta": delta, **more, "finish_reason": finish_reason}


def _text_choice(random: Random, key: str) -> dict[str, Any]:
    text = {key: random.choice(_TEXTS)}
    if key == "text" or random.random() < 0.05:
        return {"index": 0, **text, "logprobs": None, "finish_reason": None}
    return _choice(text, logprobs=None)


def _odd_members(random: Random) -> dict[str, Any]:
    """Members of a document that no two servers agree on, or that nobody should send."""
    odd = random.choice(_ODD)
    text = random.choice(_TEXTS)
    call = {"id": "x", "function": random.choice(({"name": text, "arguments": text}, odd))}
    return random.choice(
        (
            {"choices": [_choice({"role": "assistant", "content": ""})]},
            {"choices": [_choice({"role": "assistant", "content": text})], "usage": odd},
            {"choices": [_choice({"content": text}), _choice({"content": text})]},
            {"choices": [_choice({"content": text}, random.choice(_REASONS))]},
            {"choices": [_choice({"content": text})], "usage": _usage(random)},
            {"choices": [_choice({"tool_calls": random.choice(([call], [call, call], odd))})]},
            {"choices": [_choice({"content": odd, "text": text, "reasoning": odd})]},
            {"choices": [_choice(odd)]},
            {"choices": [odd]},
            {"choices": odd},
            {"choices": odd, "usage": _usage(random), "content": text},
            {"error": random.choice((odd, {"message": text, "code": 500}))},
            {"object": "error", "message": odd},
            {},
        )
    )


def _usage(random: Random) -> Any:
    if random.random() < 0.2:
        return random.choice(_ODD)
    number = random.choice
    usage: dict[str, Any] = {
        "prompt_tokens": 5 if random.random() < 0.8 else number(_NUMBERS),
        "completion_tokens": 3 if random.random() < 0.8 else number(_NUMBERS),
    }
    if random.random() < 0.3:
        usage["prompt_tokens_details"] = number((None, {"cached_tokens": number(_NUMBERS)}, 7))
    if random.random() < 0.1:
        usage["completion_tokens_details"] = {"reasoning_tokens": number(_NUMBERS)}
    return usage


def _document(random: Random) -> bytes:
    """An answer in one piece, or the words of a refusal."""
    deep = random.randrange(1, 1200)
    return random.choice(
        (
            _dumps({"choices": [{"message": {"content": "abc"}, "finish_reason": "stop"}]}),
            _dumps({"choices": [{"text": "abc"}], "usage": {"completion_tokens": 3}}),
            _dumps({"error": {"message": "too long" * random.randrange(4000)}}),
            _dumps({"detail": random.choice(_ODD), "message": random.choice(_ODD)}),
            _dumps(random.choice(_ODD)),
            b'{"error":' * deep + b"1" + b"}" * deep,
            b'data: {"choices":[{"delta":{"content":"a"},"x":'
            + b"[" * deep
            + b"]" * deep
            + b"}]}\n\n",
            b"<html>bad gateway</html>" * random.randrange(3),
        )
    )


def _dumps(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _noise(random: Random, line_break: bytes) -> bytes:
    lines = [random.choice(_LINES) for _ in range(random.randrange(1, 4))]
    if random.random() < 0.3:
        lines.append(b"data: " + random.randbytes(random.randrange(12)))
    return line_break.join(lines) + line_break * random.randrange(3)


def _framed(random: Random, body: bytes) -> bytes:
    """Put a head before it and frame it as the head says, most of the time."""
    head = b"HTTP/1.1 %d Word\r\n" % random.choice(_HEADS)
    if (kind := random.choice(_TYPES)) or random.random() < 0.5:
        head += b"Content-Type: %b\r\n" % kind
    if random.random() < 0.1:
        head += random.choice((b"Connection: close\r\n", b"Retry-After: 1\r\n", b"X: \xff\r\n"))
    framing = random.random()
    if framing < 0.6:
        end = b"0\r\n\r\n" if random.random() < 0.9 else b""
        chunks = b"".join(
            b"%x%b\r\n%b\r\n" % (len(piece), random.choice((b"", b"", b";e=1")), piece)
            for piece in (cut(random, body) if random.random() < 0.5 else _EVENT_END.split(body))
            if piece
        )
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + end
    if framing < 0.8:
        wrong = random.choice((0, 0, 0, -1, 1, 40))
        return head + b"content-length: %d\r\n\r\n%b" % (max(len(body) + wrong, 0), body)
    return head + b"\r\n" + body


def _spoilt(random: Random, data: bytes) -> bytes:
    """Change something, somewhere."""
    a, b = sorted(random.randrange(len(data) + 1) for _ in range(2))
    b = min(b, a + random.choice((1, 1, 3, 40)))
    return random.choice(
        (
            data[:a],
            data[:a] + data[b:],
            data[:b] + data[a:],
            data[:a] + random.randbytes(random.randrange(1, 6)) + data[b:],
            data[:a] + bytes(random.choice(b'"\\{}[]:,\r\n \x00\xff') for _ in range(2)) + data[b:],
        )
    )
