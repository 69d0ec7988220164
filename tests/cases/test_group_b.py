"""Public bug reports, group B: tokens and time stamps."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

from support.events import DONE, chunk, content, event, finish, normal, role, usage
from support.expect import gaps, is_normal
from support.load import (
    ask,
    ask_server,
    closed_loop,
    histogram,
    milliseconds,
    open_loop,
    run_load,
    work_order,
)
from support.scripted import Script, ScriptedServer
from support.server_process import server_process
from tare.measure.counts import Count
from tare.measure.histogram import Histogram
from tare.worker.record import Status, TokenSource

if TYPE_CHECKING:
    from support.events import Timed
    from tare.measure.messages import PhaseResult


async def _measure(script: Script, *, goodput: dict[str, float] | None = None) -> PhaseResult:
    async with ScriptedServer(script) as server:
        order = work_order(server, phases=(closed_loop(requests=1),), goodput=goodput or {})
        (phase,) = (await run_load(order)).phases
    return phase


async def test_b21_a_role_is_no_token() -> None:
    answered = await ask(
        Script(
            writes=[
                (5, role()),
                (214, content("a")),
                (224, content("b")),
                (225, finish()),
                (225, usage(5, 2)),
                (225, DONE),
            ]
        )
    )
    assert milliseconds(answered.record.time_to_first_token) == answered.at(214)
    assert milliseconds(answered.record.time_to_first_event) == answered.at(5)
    assert gaps(answered) == [answered.between(214, 224)]
    assert milliseconds(answered.record.time_per_output_token) == answered.between(214, 224)


async def test_b22_reasoning_is_text_under_both_its_names() -> None:
    answered = await ask(
        Script(
            writes=[
                (100, chunk({"reasoning_content": "t"})),
                (120, chunk({"reasoning_content": "t"})),
                (140, chunk({"reasoning": "t"})),
                (150, chunk({"content": None})),
                (200, content("a")),
                (201, finish()),
                (201, usage(5, 4)),
                (201, DONE),
            ]
        )
    )
    record = answered.record
    assert milliseconds(record.time_to_first_token) == answered.at(100)
    assert milliseconds(record.time_to_first_output_token) == answered.at(200)
    assert milliseconds(record.request_latency) == answered.at(200)
    assert (record.chunks, record.output_tokens) == (4, 4)


async def test_b23_reasoning_tokens_are_part_of_the_completion() -> None:
    details = {"completion_tokens_details": {"reasoning_tokens": 60}}
    answered = await ask(
        Script(writes=[(0, content("a")), (0, finish()), (0, usage(5, 100, **details)), (0, DONE)])
    )
    assert answered.record.output_tokens == 100
    assert answered.record.reasoning_tokens == 60


@pytest.mark.parametrize("choices", [{"choices": []}, {"choices": None}, {}])
async def test_b25_the_usage_event_needs_no_choices(choices: dict[str, Any]) -> None:
    writes = normal()
    counts = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    writes[5] = (122, event(choices | {"usage": counts}))
    is_normal(await ask(Script(writes=writes)))


async def test_b26_usage_on_every_chunk_is_a_running_total() -> None:
    def counted(delta: dict[str, Any], tokens: int) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": None}
        return event({"choices": [choice], "usage": {"completion_tokens": tokens}})

    deltas = [{"role": "assistant", "content": ""}, *({"content": c} for c in "abc")]
    writes: Timed = [(10 * i, counted(delta, i)) for i, delta in enumerate(deltas)]
    answered = await ask(Script(writes=[*writes, (31, finish()), (31, DONE)]))
    assert answered.record.status is Status.OK
    assert answered.record.output_tokens == 3


async def test_b27_without_usage_chunks_are_counted_and_said_so() -> None:
    writes: Timed = [(20 * i, content("x")) for i in range(1, 6)]
    async with ScriptedServer(Script(writes=[*writes, (101, finish()), (101, DONE)])) as server:
        answered = await ask_server(server, max_tokens=512)
    body = server.requests[0].json
    assert (body["max_tokens"], body["stream_options"]) == (512, {"include_usage": True})
    record = answered.record
    assert (record.output_tokens, record.token_source) == (5, TokenSource.CHUNKS)
    pace = milliseconds(record.time_per_output_token)
    assert pace == answered.between(20, 100, parts=4)


async def test_b29_a_chunk_may_hold_several_tokens() -> None:
    writes: Timed = [(100 + 40 * i, content("four")) for i in range(4)]
    answered = await ask(Script(writes=[*writes, (221, usage(5, 16)), (221, DONE)]))
    record = answered.record
    assert milliseconds(record.time_to_first_token) == answered.at(100)
    assert milliseconds(record.request_latency) == answered.at(220)
    pace = milliseconds(record.time_per_output_token)
    assert pace == answered.between(100, 220, parts=15)
    moments = (100, 140, 180, 220)
    assert gaps(answered) == [answered.between(a, b) for a, b in pairwise(moments)]
    assert (record.output_tokens, record.chunks) == (16, 4)


async def test_b30_the_first_token_is_no_gap() -> None:
    answered = await ask(Script(writes=normal()))
    assert len(gaps(answered)) == answered.record.chunks - 1 == 2
    assert max(gaps(answered)) < 60  # A gap that held the first token would be 100.


async def test_b31_one_token_has_no_pace_and_passes_by_its_first_token() -> None:
    script = Script(
        writes=[(100, content("a")), (101, finish("length")), (101, usage(5, 1)), (101, DONE)]
    )
    phase = await _measure(
        script, goodput={"time_per_output_token": 0.005, "time_to_first_token": 0.2}
    )
    assert histogram(phase, "time_per_output_token").count == 0
    assert phase.counts[Count.TPOT_UNDEFINED] == 1
    assert phase.counts[Count.GOOD] == 1


async def test_b32_no_token_at_all_is_kept_and_is_not_good() -> None:
    script = Script(writes=[(50, role()), (60, finish()), (60, usage(5, 0)), (60, DONE)])
    phase = await _measure(script, goodput={"time_to_first_token": 1.0})
    assert phase.counts[Count.OK] == phase.counts[Count.EMPTY_OUTPUT] == 1
    assert phase.counts[Count.GOOD] == 0
    assert histogram(phase, "time_to_first_token").count == 0
    assert histogram(phase, "time_per_output_token").count == 0
    assert histogram(phase, "output_tokens").maximum == 0


async def test_b34_what_follows_the_last_text_is_no_latency() -> None:
    answered = await ask(
        Script(
            writes=[
                (100, content("a")),
                (300, content("b")),
                (301, finish()),
                (800, usage(5, 2)),
                (900, DONE),
            ]
        )
    )
    record = answered.record
    assert milliseconds(record.request_latency) == answered.at(300)
    assert milliseconds(record.time_per_output_token) == answered.between(100, 300)
    assert milliseconds(record.closed - record.sent) == answered.at(900)


async def test_b36_a_tool_call_is_an_answer() -> None:
    def call(arguments: str, **more: Any) -> bytes:
        function = {"arguments": arguments, **more}
        return chunk({"tool_calls": [{"index": 0, "id": "x", "function": function}]})

    answered = await ask(
        Script(
            writes=[
                (100, call("", name="f")),
                (120, call('{"a":')),
                (140, call("1}")),
                (141, finish("tool_calls")),
                (141, usage(5, 12)),
                (141, DONE),
            ]
        )
    )
    record = answered.record
    assert record.status is Status.OK
    assert milliseconds(record.time_to_first_token) == answered.at(100)
    assert milliseconds(record.request_latency) == answered.at(140)
    assert record.output_tokens == 12


@pytest.mark.parametrize(
    "delta",
    [
        {"refusal": "no"},
        {"function_call": {"name": "f", "arguments": ""}},
        {"content": [{"type": "text", "text": "a"}]},
        {"content": "", "tool_calls": [{"function": {"arguments": "{}"}}]},
    ],
)
async def test_b36_whatever_the_model_wrote_is_an_answer(delta: dict[str, Any]) -> None:
    writes: Timed = [(0, role()), (30, chunk(delta)), (31, finish()), (31, usage(5, 3)), (31, DONE)]
    answered = await ask(Script(writes=writes))
    record = answered.record
    assert (record.status, record.chunks, record.output_tokens) == (Status.OK, 1, 3)
    assert milliseconds(record.time_to_first_token) == answered.at(30)


@pytest.mark.parametrize("writes", [[(50, DONE)], []], ids=["only [DONE]", "empty body"])
async def test_b37_a_stream_without_content_is_a_failure(writes: Timed) -> None:
    phase = await _measure(Script(writes=writes))
    assert phase.counts[Count.FAILED] == 1
    assert phase.errors == {"empty_stream": 1}
    assert not phase.histograms


async def test_b38_shorter_answers_than_asked_are_counted() -> None:
    def answer(_: object) -> Script:
        return Script(
            writes=[(0, content("x" * 300)), (0, finish("length")), (0, usage(5, 300)), (0, DONE)]
        )

    async with ScriptedServer(answer) as server:
        order = work_order(
            server,
            phases=(closed_loop(requests=10, concurrency=2),),
            osl=1024,
            target={"extra_body": {"ignore_eos": True}},
        )
        (phase,) = (await run_load(order)).phases
    for seen in server.requests:
        assert (seen.json["max_tokens"], seen.json["ignore_eos"]) == (1024, True)
    assert histogram(phase, "output_tokens").mean == 300
    assert phase.counts[Count.OUTPUT_LENGTH_MISMATCH] == phase.counts[Count.OK] == 10


def test_b40_a_busy_client_does_not_inflate_the_first_token_unseen() -> None:
    # A crowded machine delays the stub as well, whose late reads are no error of the client's: it
    # may try again. A client that was late itself must say so by its lag.
    seen = []
    for _ in range(4):
        added, late = of_five_hundred_streams()
        if late > 10 or (added[50] <= 10 and added[99] <= 40):
            return
        seen.append((added, late))
    pytest.fail(f"added to p50 and p99, and the client's lag, in ms: {seen}")


def of_five_hundred_streams() -> tuple[dict[int, float], float]:
    """By percentile, milliseconds that the client adds to the first token; p99 of its lag."""
    streams = 500
    writes: Timed = [(500 + 50 * i, content("x")) for i in range(20)]
    script = Script(writes=[*writes, (1451, finish()), (1451, usage(5, 20)), (1451, DONE)])
    with server_process(script) as server:
        # All are in flight together, but sent within a quarter of a second: a burst would
        # measure how fast the stub reads.
        order = work_order(
            phases=(open_loop(2000.0, requests=streams),),
            entries=streams,
            osl=20,
            target={"urls": (server.url,)},
        )
        result = uvloop.run(run_load(order))
        delays = Histogram()
        for delay in server.first_writes():
            delays.record(delay)
    (phase,) = result.phases
    assert phase.counts[Count.OK] == streams
    lag = Histogram.from_json(result.event_loop_lag)
    client = histogram(phase, "time_to_first_token")
    added = {
        percent: ((client.percentile(percent) or 0) - (delays.percentile(percent) or 0)) / 1e6
        for percent in (50, 99)
    }
    return added, (lag.percentile(99) or 0) / 1e6
