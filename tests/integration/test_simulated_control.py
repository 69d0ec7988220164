"""Resets and the profiler of the simulated server, as measured on a vLLM 0.32."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from support.simulated import (
    TEXT,
    Simulated,
    cached,
    ids,
    request_bytes,
    simulated,
    start_long_stream,
    until_metric,
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


# --- reset


async def test_an_idle_server_confirms_a_reset_and_is_cold(server: Simulated) -> None:
    await cached(server, TEXT, {"prompt": ids(100)})
    for path in ("/reset_prefix_cache", "/reset_prefix_cache?reset_external=true"):
        answer = await server.post(path)
        assert (answer.status, answer.body) == (200, b'{"success":true}')
    assert await cached(server, TEXT, {"prompt": ids(100)}) == 0
    assert (await server.counters())["resets"] == 2


async def test_a_reset_is_denied_in_the_body_while_a_request_runs(slow: Simulated) -> None:
    writer = await start_long_stream(slow)
    answer = await slow.post("/reset_prefix_cache")
    assert (answer.status, answer.body) == (200, b'{"success":false}')
    preempting = await slow.post("/reset_prefix_cache?reset_running_requests=true")
    assert preempting.json == {"success": True}
    assert await slow.metric("vllm:num_preemptions_total") == 1
    writer.close()
    assert (await slow.counters())["resets_refused"] == 1


async def test_a_client_that_goes_frees_its_blocks_and_is_no_success(slow: Simulated) -> None:
    writer = await start_long_stream(slow)
    assert await slow.metric("vllm:kv_cache_usage_perc") > 0
    writer.close()
    await until_metric(slow, "vllm:num_requests_running", 0)
    assert (await slow.post("/reset_prefix_cache")).json == {"success": True}
    assert await slow.metric("vllm:kv_cache_usage_perc") == 0
    assert (
        await slow.metric(
            'vllm:request_success_total{engine="0",model_name="tiny",finished_reason="abort"'
        )
        == 0
    )
    assert (await slow.counters())["requests_aborted"] == 1


async def test_a_waiting_client_that_goes_before_its_first_token_is_forgotten() -> None:
    async with simulated("--max-num-seqs", "1", "--itl", "10ms") as server:
        running = await start_long_stream(server)
        _, waiting = await server.connect()
        waiting.write(request_bytes("POST", TEXT, {"prompt": "a"}, {}))
        await until_metric(server, "vllm:num_requests_waiting", 1)
        waiting.close()
        await until_metric(server, "vllm:num_requests_waiting", 0)
        assert await server.metric("vllm:num_requests_running") == 1
        running.close()


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/reset_prefix_cache", 405),
        ("POST", "/reset_prefix_cache?reset_running_requests=maybe", 400),
        ("POST", "/flush_cache", 404),
    ],
)
async def test_other_ways_to_ask_for_a_reset_are_refused(
    server: Simulated, method: str, path: str, status: int
) -> None:
    assert (await server.call(method, path)).status == status


async def test_without_dev_mode_and_profiler_their_routes_do_not_exist() -> None:
    async with simulated("--no-dev-mode", "--no-profiler") as server:
        for path in ("/reset_prefix_cache", "/start_profile", "/stop_profile"):
            answer = await server.post(path)
            assert (answer.status, answer.json) == (404, {"detail": "Not Found"})


async def test_sglang_flushes_by_get_or_post_and_answers_400_when_busy() -> None:
    async with simulated("--server-style", "sglang", "--itl", "10ms") as server:
        assert (await server.get("/flush_cache")).status == 200
        writer = await start_long_stream(server)
        busy = await server.post("/flush_cache")
        assert (busy.status, b"running" in busy.body) == (400, True)
        writer.close()
        counters = await server.counters()
        assert (counters["resets"], counters["resets_refused"]) == (1, 1)
        assert (await server.post("/reset_prefix_cache")).status == 404
        assert await server.metric("sglang:num_queue_reqs") == 0


async def test_models_by_name_have_engines_of_their_own_and_one_reset_is_for_all_of_them() -> None:
    names = ("chapter-4", "chapter-4@cost.step=0.05")
    models = [word for name in names for word in ("--model", name)]
    async with simulated("--models-by-name", *models, speed=()) as server:
        for name in names:
            assert await cached(server, TEXT, {"prompt": ids(100), "model": name}) == 0
            assert await cached(server, TEXT, {"prompt": ids(100), "model": name}) == 99
        hits = 'vllm:prefix_cache_hits_total{engine="1",model_name="chapter-4@cost.step=0.05"}'
        assert await server.metric(hits) == 99
        running = await start_long_stream(server, model=names[1])
        assert (await server.post("/reset_prefix_cache")).json == {"success": False}
        assert await cached(server, TEXT, {"prompt": ids(100), "model": names[0]}) == 99
        running.close()
        await until_metric(server, 'vllm:num_requests_running{engine="1"', 0)
        assert (await server.post("/reset_prefix_cache")).json == {"success": True}
        for name in names:
            assert await cached(server, TEXT, {"prompt": ids(100), "model": name}) == 0


# --- profiler


async def test_a_second_start_of_the_profiler_is_a_conflict(server: Simulated) -> None:
    started = await server.post("/start_profile", {"profile_prefix": "cell-1"})
    assert (started.status, started.body) == (200, b"")
    again = await server.post("/start_profile")
    assert again.status == 409
    assert again.json == {
        "error": {
            "message": "A profiling session is already active. "
            "Call /stop_profile before starting another session.",
            "type": "Conflict",
            "param": None,
            "code": 409,
        }
    }
    for _ in range(2):  # a stop without a start is no error
        stopped = await server.post("/stop_profile")
        assert (stopped.status, stopped.body) == (200, b"")


async def test_the_log_knows_when_the_profiler_ran_and_what_ran_under_it(server: Simulated) -> None:
    await server.post(TEXT, {"prompt": "before", "max_tokens": 1})
    begin = time.monotonic_ns()
    await server.post("/start_profile", {"profile_prefix": "cell-1"})
    await server.post(TEXT, {"prompt": "during", "max_tokens": 1})
    assert (await server.counters())["profiler_running"]
    await server.post("/stop_profile")
    counters = await server.counters()
    assert (counters["profiler_starts"], counters["profiler_stops"]) == (1, 1)
    assert (counters["requests"], counters["requests_while_profiling"]) == (2, 1)
    (window,) = counters["profiler_windows"]
    assert begin < window["start_ns"] < window["stop_ns"] < time.monotonic_ns()
    assert window["body"] == {"profile_prefix": "cell-1"}
    logged = (await server.get("/admin/requests")).json["requests"]
    assert [(entry["prompt"], entry["while_profiling"]) for entry in logged] == [
        ("before", False),
        ("during", True),
    ]


async def test_a_wrong_type_in_the_body_of_a_start_is_refused(server: Simulated) -> None:
    assert (await server.post("/start_profile", {"profile_prefix": 7})).status == 400
    assert not (await server.counters())["profiler_running"]


@pytest.mark.parametrize(
    ("point", "path", "count"),
    [
        ("reset", "/reset_prefix_cache", "resets"),
        ("start_profile", "/start_profile", "profiler_starts"),
        ("stop_profile", "/stop_profile", "profiler_stops"),
    ],
)
async def test_an_answer_can_be_lost_after_the_server_did_what_was_asked(
    server: Simulated, point: str, path: str, count: str
) -> None:
    await server.post("/admin/faults", {point: {"answer": "lost", "times": 1}})
    reader, writer = await server.connect()
    writer.write(request_bytes("POST", path, None, {}))
    async with asyncio.timeout(5):
        while (counters := await server.counters())[count] == 0:  # noqa: ASYNC110 - another's state
            await asyncio.sleep(0.005)
    assert counters["faults_served"] == {point: 1}
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(reader.read(1), 0.02)
    writer.close()
