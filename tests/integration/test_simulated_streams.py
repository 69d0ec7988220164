"""What the simulated server streams, as measured on a vLLM 0.32."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from support.simulated import (
    CHAT,
    TEXT,
    USAGE,
    Simulated,
    chat,
    ids,
    read_head,
    request_bytes,
    simulated,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Simulated]:
    async with simulated() as running:
        yield running


@pytest.fixture
async def slow() -> AsyncIterator[Simulated]:
    """Prefill takes 100 ms, and then a token 10 ms."""
    async with simulated("--ttft-overhead", "100ms", "--itl", "10ms") as running:
        yield running


async def test_a_chat_stream_is_role_tokens_usage_and_done(server: Simulated) -> None:
    stream = await server.stream(CHAT, chat("hello", stream_options=USAGE))
    role, *tokens, usage = stream.events
    assert role["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    *reasons, last = [event["choices"][0]["finish_reason"] for event in tokens]
    assert (set(reasons) <= {None}, last) == (True, "length")
    assert all(event["choices"][0]["delta"]["content"] for event in tokens)
    assert usage["choices"] == []
    assert usage["usage"] == {
        "prompt_tokens": 13,
        "total_tokens": 16,
        "completion_tokens": 3,
        "prompt_tokens_details": {"cached_tokens": 0, "created_cache_tokens": 0},
    }
    assert stream.data[-1] == "[DONE]"
    assert len({event["id"] for event in stream.events}) == 1
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"


async def test_headers_come_at_once_and_no_event_before_the_prompt_is_computed() -> None:
    async with simulated("--ttft-overhead", "1m") as server:
        reader, writer = await server.connect()
        writer.write(request_bytes("POST", CHAT, chat("hello", stream=True), {}))
        status, headers = await read_head(reader)
        assert (status, headers["transfer-encoding"]) == (200, "chunked")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.read(1), 0.05)
        writer.close()


async def test_the_role_comes_with_the_first_token(slow: Simulated) -> None:
    stream = await slow.stream(CHAT, chat("hello"))
    role_at, first_token_at, *_ = stream.data_at
    assert role_at >= 0.1
    assert first_token_at - role_at < 0.05


async def test_a_completion_stream_has_no_role_and_no_created_tokens(server: Simulated) -> None:
    body = {"prompt": "hello", "max_tokens": 2, "stream_options": USAGE}
    stream = await server.stream(TEXT, body)
    assert {event["object"] for event in stream.events} == {"text_completion"}
    assert all("text" in choice for event in stream.events for choice in event["choices"])
    assert stream.usage["prompt_tokens_details"] == {"cached_tokens": 0}


async def test_without_include_usage_there_is_no_usage_at_all(server: Simulated) -> None:
    stream = await server.stream(CHAT, chat("hello"))
    assert not any("usage" in event for event in stream.events)


async def test_continuous_usage_grows_with_the_tokens_and_tells_nothing_of_the_cache(
    server: Simulated,
) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    stream = await server.stream(CHAT, chat("hello", max_tokens=20, stream_options=options))
    *so_far, last = [event["usage"] for event in stream.events]
    counts = [usage["completion_tokens"] for usage in so_far]
    assert counts[0] == 0
    assert counts == sorted(counts)
    assert counts[-1] == last["completion_tokens"] == 20
    assert not any("prompt_tokens_details" in usage for usage in so_far)
    assert "prompt_tokens_details" in last


async def test_some_tokens_have_no_text_and_the_last_can_be_one(server: Simulated) -> None:
    stream = await server.stream(CHAT, chat("hello", max_tokens=12, stream_options=USAGE))
    assert stream.texts[-1] == ""
    assert stream.events[-2]["choices"][0]["finish_reason"] == "length"
    assert stream.usage["completion_tokens"] == 12


async def test_tokens_that_are_due_together_share_events_of_at_most_three() -> None:
    async with simulated("--itl", "0") as server:
        stream = await server.stream(CHAT, chat("hello", max_tokens=10, stream_options=USAGE))
        assert [len(text.split()) for text in stream.texts] == [0, 3, 3, 3, 1]
        assert stream.usage["completion_tokens"] == 10


async def test_tokens_come_at_the_given_pace(slow: Simulated) -> None:
    stream = await slow.stream(CHAT, chat("hello", max_tokens=11))
    assert 0.1 + 10 * 0.01 <= stream.data_at[-2] < 1


async def test_the_same_prompt_gets_the_same_text_streamed_or_not(server: Simulated) -> None:
    body = chat("hello", max_tokens=40)
    stream = await server.stream(CHAT, body)
    whole = (await server.post(CHAT, body)).json
    assert whole["choices"][0]["message"]["content"] == "".join(stream.texts)
    assert whole["choices"][0]["finish_reason"] == "length"
    assert whole["usage"]["completion_tokens"] == 40


async def test_the_request_id_becomes_the_id_of_the_answer(server: Simulated) -> None:
    stream = await server.stream(CHAT, chat("hello"), X_Request_Id="abc-1")
    assert stream.events[0]["id"] == "chatcmpl-abc-1"
    whole = await server.post(TEXT, {"prompt": "a", "max_tokens": 1}, X_Request_Id='q"1')
    assert whole.json["id"] == 'cmpl-q"1'


async def test_the_newer_name_of_the_limit_wins_and_a_chat_without_one_ends_by_itself(
    server: Simulated,
) -> None:
    answer = await server.post(CHAT, chat("hello", max_completion_tokens=2))
    assert answer.json["usage"]["completion_tokens"] == 2
    free = (await server.post(CHAT, chat("hello", max_tokens=None))).json
    assert free["choices"][0]["finish_reason"] == "stop"
    full = (await server.post(TEXT, {"prompt": ids(4000), "ignore_eos": True})).json
    assert full["usage"]["completion_tokens"] == 96


async def test_without_timerfd_the_loop_drives_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    async with simulated("--ttft-overhead", "20ms") as server:
        stream = await server.stream(CHAT, chat("hello", stream_options=USAGE))
        assert stream.data_at[0] >= 0.02
        assert stream.usage["completion_tokens"] == 3
