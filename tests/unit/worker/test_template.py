from __future__ import annotations

from typing import Any

import orjson
import pytest

from tare.worker.template import Template


def event(text: str, key: str = "content", **more: Any) -> bytes:
    choice = {"index": 0, "delta": {key: text}, "finish_reason": None}
    return orjson.dumps({"id": "c", "model": "m", "choices": [choice], **more})


def learned(raw: bytes) -> Template | None:
    return Template.learn(raw, orjson.loads(raw))


@pytest.mark.parametrize("key", ["content", "text", "reasoning", "reasoning_content"])
def test_an_event_with_another_text_fits(key: str) -> None:
    template = learned(event(" the", key))
    assert template is not None
    assert template.fits(event(" quick, brown (fox): {}", key))


@pytest.mark.parametrize("text", ["", '"', "\\", "\n", "é", "\x7f"])
def test_a_text_that_is_empty_or_not_written_as_it_is_does_not(text: str) -> None:
    template = learned(event("a"))
    assert template is not None
    assert not template.fits(event(text))


@pytest.mark.parametrize(
    "other",
    [
        event("b", "reasoning"),
        event("b", usage={"completion_tokens": 2}),
        event("b").replace(b"null", b'"stop"'),
        event("b").replace(b'"c"', b'"d"'),
        event("b") + b" ",
        event("b")[:-1],
        b"[DONE]",
        b"",
    ],
)
def test_nothing_but_the_text_may_differ(other: bytes) -> None:
    template = learned(event("a"))
    assert template is not None
    assert not template.fits(other)


def test_head_and_tail_may_not_share_a_byte() -> None:
    template = learned(b'{"choices":[{"text":"a"}]}')
    assert template is not None
    assert not template.fits(b'{"choices":[{"text":"}]}')


@pytest.mark.parametrize(
    "raw",
    [
        event("a", usage={"completion_tokens": 1}),
        event("a").replace(b"null", b'"stop"'),
        event("a", choices=[{"index": 0, "text": "a"}, {"index": 1, "text": "b"}]),
        event("a").replace(b'"a"', b'["a"]'),
        event("\n"),
        event("index", tail={"index": 1}),
        b'{"choices":[{"delta":{"content":"a"},"a":"stop"}]}',
    ],
)
def test_an_event_whose_text_is_not_alone_or_not_certain_teaches_nothing(raw: bytes) -> None:
    assert learned(raw) is None
