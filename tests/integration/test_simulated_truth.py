"""What the simulated server logs about itself, and how it misbehaves when told to."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from support.simulated import (
    CHAT,
    TEXT,
    Simulated,
    cached,
    chat,
    ids,
    simulated,
    until_metric,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Simulated]:
    async with simulated() as running:
        yield running


# --- the log of truth


async def test_the_log_keeps_what_came_without_secrets(server: Simulated) -> None:
    before = time.monotonic_ns()
    await server.post(CHAT, chat("hello"), Authorization="Bearer x", X_Team="perf")
    (entry,) = (await server.get("/admin/requests")).json["requests"]
    assert entry["messages"] == [{"role": "user", "content": "hello"}]
    assert (entry["prompt_tokens"], entry["cached_tokens"], entry["finished"]) == (13, 0, True)
    assert before < entry["arrived_ns"] < time.monotonic_ns()
    assert entry["headers"]["x-team"] == "perf"
    assert "authorization" not in entry["headers"]


async def test_the_log_can_be_asked_for_the_last_requests(server: Simulated) -> None:
    for text in ("a", "b", "c"):
        await server.post(TEXT, {"prompt": text, "max_tokens": 1})
    for last, prompts in (("2", ["b", "c"]), ("0", []), ("9", ["a", "b", "c"])):
        logged = (await server.get(f"/admin/requests?last={last}")).json["requests"]
        assert [entry["prompt"] for entry in logged] == prompts
    assert (await server.get("/admin/requests?last=x")).status == 400


async def test_counts_can_be_set_to_zero_while_the_profiler_goes_on(server: Simulated) -> None:
    await server.post(TEXT, {"prompt": "a", "max_tokens": 1})
    await server.post("/start_profile")
    counters = (await server.post("/admin/reset_counters")).json
    assert (counters["requests"], counters["profiler_starts"]) == (0, 0)
    assert counters["profiler_running"]
    assert (await server.get("/admin/requests")).json == {"requests": []}


# --- faults


@pytest.mark.parametrize(
    ("fault", "status", "body"),
    [
        ("denied", 200, b'{"success":false}'),
        ("silent", 200, b'{"success":true}'),
    ],
)
async def test_a_reset_can_be_denied_or_claimed_without_being_done(
    server: Simulated, fault: str, status: int, body: bytes
) -> None:
    await cached(server, TEXT, {"prompt": ids(100)})
    await server.post("/admin/faults", {"reset": fault})
    answer = await server.post("/reset_prefix_cache")
    assert (answer.status, answer.body) == (status, body)
    assert await cached(server, TEXT, {"prompt": ids(100)}) == 96
    counters = await server.counters()
    assert (counters["resets"], counters["faults_served"]) == (0, {"reset": 1})


async def test_a_reset_can_answer_with_an_empty_body_as_old_servers_do(server: Simulated) -> None:
    await cached(server, TEXT, {"prompt": ids(100)})
    await server.post("/admin/faults", {"reset": "empty"})
    answer = await server.post("/reset_prefix_cache")
    assert (answer.status, answer.body) == (200, b"")
    assert await cached(server, TEXT, {"prompt": ids(100)}) == 0


@pytest.mark.parametrize(
    ("point", "method", "path"),
    [
        ("reset", "POST", "/reset_prefix_cache"),
        ("start_profile", "POST", "/start_profile"),
        ("stop_profile", "POST", "/stop_profile"),
        ("chat", "POST", CHAT),
        ("health", "GET", "/health"),
    ],
)
async def test_each_point_can_fail_with_a_status_twice_and_then_works(
    server: Simulated, point: str, method: str, path: str
) -> None:
    fault = {point: {"answer": 503, "times": 2, "retry_after": 1}}
    assert (await server.post("/admin/faults", fault)).status == 200
    body = chat("a") if point == "chat" else None
    answers = [await server.call(method, path, body) for _ in range(3)]
    assert [answer.status for answer in answers] == [503, 503, 200]
    assert answers[0].headers["retry-after"] == "1"


async def test_a_request_can_hang(server: Simulated) -> None:
    await server.post("/admin/faults", {"chat": "hang"})
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await server.post(CHAT, chat("a"))
    assert (await server.get("/health")).status == 200


async def test_a_stream_can_end_in_an_abort_or_an_error_and_done_all_the_same(
    server: Simulated,
) -> None:
    await server.post("/admin/faults", {"chat": "abort"})
    stream = await server.stream(CHAT, chat("a", max_tokens=50))
    assert stream.events[-1]["choices"][0]["finish_reason"] == "abort"
    assert stream.data[-1] == "[DONE]"
    await server.post("/admin/faults", {"chat": "error_event"})
    stream = await server.stream(CHAT, chat("a", max_tokens=50))
    assert stream.events[-1]["error"]["type"] == "InternalServerError"
    assert stream.data[-1] == "[DONE]"
    counters = await server.counters()
    assert (counters["requests_aborted"], counters["in_flight"]) == (2, 0)


async def test_a_wrong_fault_is_refused_with_what_is_allowed(server: Simulated) -> None:
    answer = await server.post("/admin/faults", {"rest": 500})
    assert answer.status == 400
    assert "choose from reset, start_profile" in answer.json["error"]["message"]
    assert (await server.get("/admin/faults")).json == {}


async def test_faults_can_be_switched_on_from_the_start() -> None:
    async with simulated("--faults", '{"health": {"answer": 503, "times": 1}}') as server:
        assert (await server.get("/health")).status == 503
        assert (await server.get("/health")).status == 200


@pytest.mark.parametrize("stream", [True, False])
async def test_who_waits_longer_than_a_server_model_allows_is_told_so(*, stream: bool) -> None:
    model = ("--server-model", "board@max_num_seqs=1,patience=1.2", "--max-model-len", "4096")
    async with simulated(*model, speed=()) as server:
        # Each takes 0.15 s and 4.4 ms a token, one after the other.
        first, second = ({"prompt": ids(10, start=n), "max_tokens": 200} for n in (0, 100))
        done = asyncio.ensure_future(server.post(TEXT, first))
        await until_metric(server, "vllm:num_requests_running", 1)
        if stream:
            refused = await server.stream(TEXT, second)
            assert refused.events[-1]["error"]["code"] == 503
            assert refused.data[-1] == "[DONE]"
        else:
            assert (await server.post(TEXT, second)).status == 503
        assert (await done).status == 200
        counters = await server.counters()
        assert (counters["requests_complete"], counters["requests_given_up"]) == (1, 1)
        assert counters["in_flight"] == 0


async def test_the_log_tells_when_tokens_were_due_and_how_late_they_were_written(
    server: Simulated,
) -> None:
    await server.post(TEXT, {"prompt": "a", "max_tokens": 11})
    (entry,) = (await server.get("/admin/requests")).json["requests"]
    assert entry["first_token_due_ns"] > entry["arrived_ns"]
    assert entry["last_token_due_ns"] - entry["first_token_due_ns"] == 10_000_000
    counters = await server.counters()
    assert 0 < counters["late_p50_ns"] <= counters["late_p99_ns"]
    counters = (await server.post("/admin/reset_counters")).json
    assert (counters["late_p50_ns"], counters["late_p99_ns"]) == (0, 0)
