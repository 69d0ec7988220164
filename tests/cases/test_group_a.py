"""Public bug reports, group A: framing of event streams. Sources: docs of each case's number."""

from __future__ import annotations

import asyncio
import itertools
import random
import tracemalloc
from typing import TYPE_CHECKING

import orjson
import pytest

from support.events import DONE, chunk, content, event, finish, normal, role, usage
from support.expect import is_normal
from support.load import ask, ask_server, milliseconds, pool_of
from support.scripted import Script, ScriptedServer
from tare.worker.record import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.events import Timed


def _each(change: Callable[[bytes], bytes], timed: Timed | None = None) -> Timed:
    return [(at, change(data)) for at, data in timed or normal()]


def _after_data(piece: bytes) -> list[bytes]:
    return [piece[:5], piece[5:]]


def _bytes(piece: bytes) -> list[bytes]:
    return [piece[i : i + 1] for i in range(len(piece))]


@pytest.mark.parametrize("cut", [_after_data, _bytes])
async def test_b01_an_event_may_be_cut_anywhere(cut: Callable[[bytes], list[bytes]]) -> None:
    is_normal(await ask(Script(writes=normal(), cut=cut)))


async def test_b02_no_space_is_needed_after_the_colon() -> None:
    is_normal(await ask(Script(writes=_each(lambda e: e.replace(b"data: ", b"data:")))))


async def test_b03_lines_may_end_with_crlf() -> None:
    is_normal(await ask(Script(writes=_each(lambda e: e.replace(b"\n", b"\r\n")))))


async def test_b05_comments_before_the_first_token_are_no_events() -> None:
    pings: Timed = [(20, b": ping\n\n"), (40, b":\n\n")]
    is_normal(await ask(Script(writes=[*pings, *normal(shift=100)])), shift=100)


async def test_b07_ids_names_retries_and_comment_blocks_carry_nothing() -> None:
    numbers = itertools.count()
    writes = _each(lambda e: b"id: %d\nevent: message\nretry: 3000\n%b" % (next(numbers), e))
    writes.insert(1, (60, b": ping\n\n"))
    is_normal(await ask(Script(writes=writes)))


async def test_b09_many_events_may_come_in_one_read() -> None:
    answered = await ask(
        Script(writes=[(100, content("x") * 200), (101, usage(5, 200)), (102, DONE)])
    )
    record = answered.record
    assert record.status is Status.OK
    assert (record.chunks, record.output_tokens) == (200, 200)
    assert milliseconds(record.time_to_first_token) == answered.at(100)
    assert milliseconds(record.request_latency) == answered.at(100)
    assert record.time_per_output_token is None


async def test_b10_half_events_under_concurrency_lose_no_request() -> None:
    generator = random.Random(10)  # noqa: S311 - no secret

    def slices(piece: bytes) -> list[bytes]:
        pieces = []
        while piece:
            size = generator.randint(1, 50)
            pieces.append(piece[:size])
            piece = piece[size:]
        return pieces

    script = Script(writes=[(0, role() + content("a") + finish() + usage(5, 1) + DONE)], cut=slices)
    async with ScriptedServer(script) as server:
        pool = pool_of(server)
        statuses: list[Status] = []

        async def client() -> None:
            for _ in range(4):
                answered = await ask_server(server, pool=pool)
                statuses.append(answered.record.status)

        await asyncio.gather(*(client() for _ in range(256)))
    assert statuses == [Status.OK] * 1024


async def test_b11_a_character_may_be_cut_between_reads() -> None:
    text = "日本€🙂"
    raw = content(text)
    assert text.encode() in raw
    answered = await ask(Script(writes=[(0, raw), (0, finish()), (0, DONE)], cut=_bytes))
    assert answered.record.status is Status.OK
    assert answered.text == text


async def test_b11_a_character_may_be_cut_between_events() -> None:
    """By servers that cut their text by bytes, or by halves of a surrogate pair."""
    halves = [b"\xe6\x97", b"\xa5", rb"\ud83d", rb"\ude42"]
    events = [content("@").replace(b"@", half) for half in halves]
    answered = await ask(Script(writes=[(0, b"".join(events)), (0, finish()), (0, DONE)]))
    assert answered.record.status is Status.OK
    assert answered.record.chunks == len(answered.text) == 4


async def test_b14_an_event_may_be_a_mebibyte_long() -> None:
    size = 1024 * 1024
    writes: Timed = [(0, content("x" * size)), (0, usage(5, 1)), (0, DONE)]
    tracemalloc.start()
    try:
        answered = await ask(Script(writes=writes))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answered.record.status is Status.OK
    assert len(answered.text) == size
    assert peak < 20 * 1024 * 1024


@pytest.mark.parametrize("last", [5, 6], ids=["after the finish reason", "after the usage"])
async def test_b15_a_missing_done_is_noted_and_no_failure(last: int) -> None:
    answered = await ask(Script(writes=normal()[:last], end="close"))
    record = answered.record
    assert record.status is Status.OK
    assert record.missing_done
    assert milliseconds(record.request_latency) == answered.at(120)


async def test_b18_quirks_of_the_json_change_nothing() -> None:
    def with_extras(data: bytes) -> bytes:
        if data == DONE:
            return data
        document = {"usage": None, "system_fingerprint": None, "x": 1}
        return event(document | orjson.loads(data.removeprefix(b"data: ")))

    quirks = [{"choices": None}, {}, {"choices": [{"index": 0, "finish_reason": None}]}]
    writes = _each(with_extras)
    writes[1:1] = [(60 + 10 * i, event(quirk)) for i, quirk in enumerate(quirks)]
    is_normal(await ask(Script(writes=writes)))


async def test_b20_an_answer_in_one_piece_has_no_first_token() -> None:
    completion = {
        "choices": [{"index": 0, "message": {"content": "abc"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 3},
    }
    answered = await ask(Script.json(completion, at=300))
    record = answered.record
    assert record.status is Status.OK
    assert not record.streamed
    assert record.time_to_first_token is None
    assert record.time_per_output_token is None
    assert not record.gaps
    assert milliseconds(record.request_latency) == answered.at(300)
    assert record.output_tokens == 3


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "binary/octet-stream"])
async def test_b20_a_stream_under_a_wrong_type_is_a_stream(content_type: str) -> None:
    is_normal(await ask(Script(writes=normal(), content_type=content_type)))


@pytest.mark.parametrize("content_type", ["text/plain", "text/html", "application/problem+json"])
async def test_b20_an_answer_in_one_piece_under_a_wrong_type_is_one(content_type: str) -> None:
    body = {"choices": [{"index": 0, "message": {"content": "a"}, "finish_reason": "stop"}]}
    script = Script(writes=[(0, orjson.dumps(body))], content_type=content_type, framing="length")
    record = (await ask(script)).record
    assert (record.status, record.streamed, record.time_to_first_token) == (Status.OK, False, None)


def test_the_notation_is_that_of_the_cases() -> None:
    assert chunk({"content": "x"}) == content("x")
    assert content("x") == (
        b'data: {"id":"c","object":"chat.completion.chunk","model":"m","choices":'
        b'[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}\n\n'
    )
