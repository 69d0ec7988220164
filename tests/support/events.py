"""The notation of the public bug cases: events of a streamed chat completion as bytes."""

from __future__ import annotations

from typing import Any

import orjson

__all__ = [
    "DONE",
    "Timed",
    "chunk",
    "content",
    "event",
    "finish",
    "normal",
    "role",
    "usage",
    "wire",
]

Timed = list[tuple[float, bytes]]
"""(milliseconds after the request was read, bytes to write)."""

DONE = b"data: [DONE]\n\n"


def event(document: Any) -> bytes:
    """Any JSON document as one event."""
    return b"data: " + orjson.dumps(document) + b"\n\n"


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """A chat chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return event({"id": "c", "object": "chat.completion.chunk", "model": "m", "choices": [choice]})


def content(text: str) -> bytes:
    """`C`: a chunk with text."""
    return chunk({"content": text})


def role() -> bytes:
    """`R`: the first chunk of many servers, without text."""
    return chunk({"role": "assistant", "content": ""})


def finish(reason: str = "stop") -> bytes:
    """`F`: the end of the text."""
    return chunk({}, reason)


def usage(prompt: int, completion: int, **details: Any) -> bytes:
    """`U`: the usage event."""
    counts = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    return event({"choices": [], "usage": counts | details})


def normal(shift: float = 0) -> Timed:
    """The normal stream: text "abc" at 100, 110 and 120 ms."""
    return [
        (shift + 50, role()),
        (shift + 100, content("a")),
        (shift + 110, content("b")),
        (shift + 120, content("c")),
        (shift + 121, finish()),
        (shift + 122, usage(5, 3)),
        (shift + 123, DONE),
    ]


def wire(timed: Timed) -> bytes:
    """All bytes of a stream at once."""
    return b"".join(data for _, data in timed)
