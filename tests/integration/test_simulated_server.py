"""Requests, errors and connections of the simulated server, as measured on a vLLM 0.32."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from support.simulated import (
    CHAT,
    TEXT,
    USAGE,
    Simulated,
    Stream,
    chat,
    ids,
    read_answer,
    request_bytes,
    simulated,
)
from tare.sim.serve import http
from tare.sim.serve.options import parse_options
from tare.sim.serve.server import Server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def server() -> AsyncIterator[Simulated]:
    async with simulated() as running:
        yield running


# --- errors


@pytest.mark.parametrize(
    ("path", "body", "status", "kind", "param", "words"),
    [
        (
            CHAT,
            chat("a", model="nope"),
            404,
            "NotFoundError",
            "model",
            "The model `nope` does not exist. Valid aliases: tiny.",
        ),
        (
            CHAT,
            chat("w " * 5000, stream=True),
            400,
            "BadRequestError",
            "input_tokens",
            "maximum context length is 4096 tokens",
        ),
        (
            CHAT,
            chat("a", max_tokens=5000),
            400,
            "BadRequestError",
            "max_tokens",
            "cannot be greater than max_model_len=4096",
        ),
        (
            CHAT,
            chat("a", max_tokens=0),
            400,
            "BadRequestError",
            "max_tokens",
            "max_tokens must be at least 1, got 0.",
        ),
        (CHAT, chat("a", max_tokens="x"), 400, "Bad Request", "body.max_tokens", "int_parsing"),
        (
            CHAT,
            chat("a", stream_options=USAGE),
            400,
            "BadRequestError",
            "stream_options",
            "only be defined when `stream=True`",
        ),
        (CHAT, chat("a", n=2), 400, "BadRequestError", "n", "one answer"),
        (CHAT, {"model": "tiny"}, 400, "Bad Request", "body.messages", "Field required"),
        (CHAT, {"messages": []}, 400, "BadRequestError", None, "empty conversation"),
        (
            CHAT,
            {"messages": [{"content": "a"}]},
            400,
            "Bad Request",
            "body.messages.0.role",
            "Field required",
        ),
        (
            CHAT,
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            400,
            "BadRequestError",
            None,
            "multimodal",
        ),
        (CHAT, b"{bad", 400, "Bad Request", "body.1", "json_invalid"),
        (CHAT, b"[1]", 400, "Bad Request", "body", "dictionary"),
        (
            TEXT,
            {"max_tokens": 1},
            400,
            "BadRequestError",
            "prompt",
            "must be provided and non-empty",
        ),
        (TEXT, {"prompt": ["a", "b"]}, 400, "BadRequestError", "prompt", "one prompt"),
        ("/tokenize", {"prompt": ["a", "b"]}, 400, "Bad Request", "body.prompt", "valid string"),
    ],
)
async def test_a_request_that_is_wrong_is_refused_in_vllm_words(
    server: Simulated,
    path: str,
    body: object,
    status: int,
    kind: str,
    param: str | None,
    words: str,
) -> None:
    answer = await server.post(path, body)
    assert answer.status == status
    error = answer.json["error"]
    assert (error["type"], error["param"], error["code"]) == (kind, param, status)
    assert words in error["message"]


async def test_another_content_type_is_refused_with_400(server: Simulated) -> None:
    answer = await server.post(CHAT, chat("a"), Content_Type="text/plain")
    assert (answer.status, answer.json["error"]["type"]) == (400, "Bad Request")


async def test_prompt_and_limit_beyond_the_context_silently_give_fewer_tokens(
    server: Simulated,
) -> None:
    answer = (await server.post(TEXT, {"prompt": ids(4000), "max_tokens": 200})).json
    assert answer["usage"]["completion_tokens"] == 96
    assert answer["choices"][0]["finish_reason"] == "length"


async def test_unknown_fields_are_ignored_and_the_model_may_be_left_out(server: Simulated) -> None:
    answer = await server.post(CHAT, chat("a", wish="rain", stop=["b"], temperature=0))
    assert (answer.status, answer.json["model"]) == (200, "tiny")


async def test_unknown_routes_and_methods_answer_as_fastapi_does(server: Simulated) -> None:
    unknown = await server.get("/nope")
    assert (unknown.status, unknown.json) == (404, {"detail": "Not Found"})
    head = await server.call("HEAD", "/health")
    assert (head.status, head.headers["allow"], head.body) == (405, "GET", b"")
    get = await server.get(CHAT)
    assert (get.status, get.json) == (405, {"detail": "Method Not Allowed"})


async def test_the_api_key_guards_v1_only() -> None:
    async with simulated("--api-key", "secret") as server:
        refused = await server.post(CHAT, chat("a"))
        assert (refused.status, refused.json) == (401, {"error": "Unauthorized"})
        assert (await server.get("/v1/models")).status == 401
        assert (await server.post(CHAT, chat("a"), Authorization="Bearer secret")).status == 200
        for path in ("/reset_prefix_cache", "/start_profile", "/stop_profile"):
            assert (await server.post(path)).status == 200
        assert (await server.get("/metrics")).status == 200


# --- the rest of the API


async def test_models_version_and_health(server: Simulated) -> None:
    (model,) = (await server.get("/v1/models")).json["data"]
    assert (model["id"], model["max_model_len"]) == ("tiny", 4096)
    assert (await server.get("/version")).json["version"].startswith("0.32.0")
    health = await server.get("/health")
    assert (health.status, health.body) == (200, b"")


async def test_tokenize_counts_as_usage_does_with_the_template_for_messages(
    server: Simulated,
) -> None:
    text = (await server.post("/tokenize", {"prompt": "one two three"})).json
    assert (text["count"], text["max_model_len"], text["token_strs"]) == (3, 4096, None)
    messages = (await server.post("/tokenize", chat("one two three"))).json
    usage = (await server.post(CHAT, chat("one two three"))).json["usage"]
    assert messages["count"] == usage["prompt_tokens"] == 3 + 12


async def test_metrics_have_the_names_and_labels_of_vllm(server: Simulated) -> None:
    await server.post(TEXT, {"prompt": ids(40), "max_tokens": 5})
    labels = '{engine="0",model_name="tiny"'
    assert await server.metric(f"vllm:generation_tokens_total{labels}") == 5
    assert await server.metric(f'vllm:request_success_total{labels},finished_reason="length"') == 1
    assert await server.metric(f"vllm:num_requests_running{labels}") == 0
    assert await server.metric(f"vllm:time_to_first_token_seconds_count{labels}") == 1
    assert await server.metric(f'vllm:e2e_request_latency_seconds_bucket{labels},le="+Inf"') == 1
    text = (await server.get("/metrics")).body.decode()
    assert 'vllm:cache_config_info{block_size="32"' in text
    assert 'num_gpu_blocks="8192"' in text


async def test_cached_tokens_can_be_kept_from_usage() -> None:
    async with simulated("--no-prompt-tokens-details") as server:
        stream = await server.stream(CHAT, chat("a", stream_options=USAGE))
        assert set(stream.usage) == {"prompt_tokens", "total_tokens", "completion_tokens"}


# --- connections


async def test_one_connection_serves_many_requests(server: Simulated) -> None:
    reader, writer = await server.connect()
    for _ in range(3):
        writer.write(request_bytes("POST", TEXT, {"prompt": "a", "max_tokens": 1}, {}))
        assert (await read_answer(reader)).status == 200
    writer.close()


async def test_an_idle_connection_is_closed_without_a_byte_but_a_fresh_one_stays(
    server: Simulated, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert http.IDLE_SECONDS == 5
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.1)
    fresh_reader, fresh = await server.connect()
    reader, writer = await server.connect()
    for _ in range(2):
        writer.write(request_bytes("GET", "/health", None, {}))
        await read_answer(reader)
        answered = time.monotonic()
        await asyncio.sleep(0.06)
    assert await reader.read() == b""
    assert 0.09 < time.monotonic() - answered < 2
    fresh.write(request_bytes("GET", "/health", None, {}))
    assert (await read_answer(fresh_reader)).status == 200
    writer.close()
    fresh.close()


async def test_a_connection_is_closed_when_the_client_says_so(server: Simulated) -> None:
    reader, writer = await server.connect()
    writer.write(request_bytes("GET", "/health", None, {"Connection": "close"}))
    assert (await read_answer(reader)).headers["connection"] == "close"
    assert await reader.read() == b""
    writer.close()


async def test_a_chunked_body_in_pieces_is_read_whole(server: Simulated) -> None:
    reader, writer = await server.connect()
    head = "POST /v1/completions HTTP/1.1\r\nHost: sim\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    for piece in (b'{"prompt": "a b"', b', "max_tokens": 1}', b""):
        await asyncio.sleep(0.005)
        writer.write(b"%x\r\n%b\r\n" % (len(piece), piece))
    assert (await read_answer(reader)).json["usage"]["prompt_tokens"] == 2
    writer.close()


async def test_what_is_no_http_is_answered_with_400(server: Simulated) -> None:
    reader, writer = await server.connect()
    writer.write(b"what?\r\n\r\n")
    assert (await read_answer(reader)).status == 400
    assert await reader.read() == b""
    writer.close()


async def test_three_hundred_requests_at_once_are_all_answered(server: Simulated) -> None:
    bodies = [chat(f"question {number}", stream_options=USAGE) for number in range(300)]
    streams: list[Stream] = await asyncio.gather(*(server.stream(CHAT, body) for body in bodies))
    assert {stream.usage["completion_tokens"] for stream in streams} == {3}
    assert (await server.counters())["requests_complete"] == 300


# --- start


async def test_connections_are_refused_during_the_startup_delay() -> None:
    options = ["--host", "127.0.0.1", "--port", "0", "--startup-delay", "100ms"]
    server = Server(parse_options(options))
    starting = asyncio.ensure_future(server.start())
    await asyncio.sleep(0)
    with pytest.raises(ConnectionRefusedError):
        await Simulated(server).get("/health")
    await starting
    assert (await Simulated(server).get("/health")).status == 200
    await server.stop(grace_seconds=0)


async def test_an_address_in_use_shows_before_the_startup_delay(server: Simulated) -> None:
    port = server.origin.rpartition(":")[2]
    with pytest.raises(OSError, match="in use"):
        Server(parse_options(["--host", "127.0.0.1", "--port", port]))
