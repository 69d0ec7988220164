"""Public bug cases of group C: failures, as a worker counts them.

Numbers and wanted values: reference/bug-cases.md. B53 and B57 run in a tenth of their time here and
in their own on injected clocks in tests/unit/worker/test_phase.py; B48 waits on an injected clock.
What a run makes of B48 and B55 stands in tests/integration/test_targets.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.events import DONE, chunk, content, event, finish, normal, usage
from support.load import ask, closed_loop, histogram, milliseconds, open_loop, run_load, work_order
from support.scripted import Script, ScriptedServer, Seen
from support.scripted_http import Reply, json_reply, scripted
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.preflight import Target, preflight
from tare.measure.counts import Count
from tare.measure.trial import TrialSummary, summarize
from tare.plan.order import TargetOrder
from tare.worker.record import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.events import Timed
    from tare.measure.hooks import PreflightReport
    from tare.measure.messages import PhaseResult
    from tare.plan.order import PhaseOrder

NORMAL = Script(writes=normal())
QUICK = Script(writes=[(0, data) for _, data in normal()])
OOM = {"error": {"message": "CUDA OOM", "type": "InternalServerError", "code": 500}}
LATENCIES = ("time_to_first_token", "request_latency", "inter_chunk_latency", "output_tokens")


def failing(status: int, message: str, **more: Any) -> Script:
    """An answer that refuses."""
    return Script.json({"error": {"message": message}}, status=status, **more)


def in_turn(*scripts: Script | None) -> Callable[[Seen], Script | None]:
    """Answer one request after the other, round and round."""
    asked = iter(range(10**6))
    return lambda _: scripts[next(asked) % len(scripts)]


async def measure(
    handler: Callable[[Seen], Script | None] | Script, phase: PhaseOrder, **more: Any
) -> tuple[PhaseResult, TrialSummary, int]:
    """Run one phase; returns its result, what the operator makes of it, and requests seen."""
    async with ScriptedServer(handler) as server:
        result = await run_load(work_order(server, phases=(phase,), **more))
        seen = len(server.requests)
    goodput = dict(more.get("goodput") or {})
    return result.phases[0], summarize([result], goodput=goodput, cost=None), seen


async def test_b42_an_error_event_in_a_stream_of_200_is_a_failure() -> None:
    writes: Timed = [(100, event(OOM)), (100, DONE)]
    answered = await ask(Script(writes=writes))
    record = answered.record
    assert (record.status, record.error_kind) == (Status.ERROR, "stream_error")
    assert (record.http_status, record.error_message) == (200, "CUDA OOM")
    assert record.time_to_first_token is None
    phase, _, _ = await measure(Script(writes=writes), closed_loop(requests=1))
    assert phase.counts[Count.FAILED] == 1
    assert phase.error_samples == {"stream_error": "CUDA OOM"}


@pytest.mark.parametrize(
    "document",
    [
        OOM,
        {"error": "CUDA OOM"},
        {"object": "error", "message": "CUDA OOM", "code": 500},
        {"message": "CUDA OOM", "type": "Internal Error", "code": 500},
    ],
)
@pytest.mark.parametrize("tokens_before", [0, 3])
async def test_b42_holds_for_every_shape_of_the_error_and_after_tokens_too(
    document: dict[str, Any], tokens_before: int
) -> None:
    tokens: Timed = [(0, content("a"))] * tokens_before
    record = (await ask(Script(writes=[*tokens, (5, event(document)), (5, DONE)]))).record
    assert (record.status, record.error_kind) == (Status.ERROR, "stream_error")
    assert record.error_message == "CUDA OOM"


@pytest.mark.parametrize(
    "said",
    [
        chunk({"content": ""}, "error"),
        event({"error": {"message": "gone"}, "choices": [{"delta": {}, "finish_reason": "stop"}]}),
        b"event: error\ndata: gone\n\n",
        b'data: [{"error":{"message":"gone"}}]\n\n',
    ],
)
async def test_b42_holds_wherever_the_error_is_said(said: bytes) -> None:
    record = (await ask(Script(writes=[(0, content("a")), (5, said), (5, DONE)]))).record
    assert (record.status, record.error_kind) == (Status.ERROR, "stream_error")


async def test_b42_a_long_message_is_kept_to_a_kibibyte() -> None:
    long = {"error": {"message": "ä" * 4000}}
    record = (await ask(Script(writes=[(0, event(long)), (0, DONE)]))).record
    assert len(record.error_message.encode()) <= 1024
    assert set(record.error_message) == {"ä"}


@pytest.mark.parametrize("end", ["keep", "close", "reset"])
async def test_b44_a_stream_without_an_end_is_incomplete(end: Any) -> None:
    broken = Script(writes=[(0, content("x"))] * 10, end=end)
    phase, summary, _ = await measure(in_turn(QUICK, broken), closed_loop(requests=4))
    assert phase.counts[Count.INCOMPLETE] == phase.counts[Count.FAILED] == 2
    assert {histogram(phase, name).count for name in LATENCIES[:2]} == {2}
    assert summary.metrics["error_rate"]["mean"] == 0.5


@pytest.mark.parametrize(
    "first",
    [
        [usage(5, 0), content("x")],
        [content("x"), finish(), content("y")],
        [chunk({"content": "x"}, ""), chunk({"content": "y"}, "")],
    ],
    ids=["usage first", "text after the finish reason", "empty finish reasons"],
)
async def test_b44_what_only_looks_like_an_end_is_none(first: list[bytes]) -> None:
    broken = Script(writes=[(0, data) for data in first])
    phase, _, _ = await measure(in_turn(QUICK, broken), closed_loop(requests=4))
    assert phase.counts[Count.INCOMPLETE] == phase.counts[Count.FAILED] == 2


async def test_b46_broken_json_between_good_chunks_is_a_failure_of_its_kind() -> None:
    half = b'data: {"choices":[{"delta":{"content":"a"\n\n'
    broken = Script(
        writes=[
            *((at, data) for at, data in ((0, content("a")), (5, half), (10, content("c")))),
            (10, finish()),
            (10, usage(5, 3)),
            (10, DONE),
        ]
    )
    phase, _, seen = await measure(in_turn(QUICK, broken), closed_loop(requests=10))
    assert (seen, phase.counts[Count.OK]) == (10, 5)  # The run goes on.
    assert phase.errors == {"bad_chunk": 5}


async def test_b47_a_refusal_with_retry_after_is_counted_and_never_tried_again() -> None:
    busy = failing(429, "slow down", headers=(("retry-after", "1"),))
    phase, _, seen = await measure(
        in_turn(QUICK, busy), closed_loop(requests=100, concurrency=10), entries=100
    )
    assert seen == phase.counts[Count.ISSUED] == 100
    assert phase.counts[Count.OK] == 50
    assert phase.errors == {"http_429": 50}
    assert phase.error_samples == {"http_429": "slow down (Retry-After: 1)"}
    assert histogram(phase, "request_latency").count == 50
    assert phase.seconds < 1  # Nobody waited the second.


async def ready_within(seconds: float, *, loading: int) -> tuple[PreflightReport, float]:
    """Preflight of a server that says 503 so many times; returns the time that passed too."""
    clock = FakeClock()
    async with scripted() as server, ControlClient() as http:
        busy = [Reply(status=503, body=b"loading")] * loading
        server.on("/health", Reply())
        server.on("/v1/models", *busy, json_reply({"data": [{"id": "m"}]}))
        body = b'data: {"choices":[{"delta":{"content":"yes"}}]}\n\ndata: [DONE]\n\n'
        server.on("/v1/chat/completions", Reply(body=body))
        order = TargetOrder(urls=(server.origin,), model="m")

        async def find() -> Target:
            return Target(order=order, headers={})

        report = await preflight(
            find, ready_timeout=seconds, http=http, clock=clock, tell=lambda _: None
        )
    return report, clock.now()


async def test_b48_a_server_that_loads_is_waited_for_and_then_measured() -> None:
    report, _ = await ready_within(600, loading=5)
    assert report.ok


async def test_b48_a_server_that_loads_for_too_long_is_not_ready() -> None:
    report, passed = await ready_within(3, loading=10**6)
    assert (report.ok, report.reason) == (False, Reason.TARGET_NOT_READY)
    assert passed == pytest.approx(3, abs=1)
    assert "503 loading" in report.message


async def test_b49_failures_do_not_pull_the_latency_down() -> None:
    refused = failing(500, "no", at=1)
    phase, summary, _ = await measure(
        in_turn(NORMAL, refused),
        closed_loop(requests=100, concurrency=25),
        goodput={"request_latency": 10.0},
    )
    mean = milliseconds(round(histogram(phase, "request_latency").mean or 0))
    assert mean is not None
    assert mean >= 115  # Sixty, had the failures counted; a busy machine adds to it.
    assert phase.counts[Count.FAILED] == 50
    assert summary.metrics["good_request_fraction"]["mean"] <= 0.5


async def test_b51_failures_are_counted_by_occurrence_and_kind() -> None:
    reset = Script(writes=[(0, content("x"))], end="reset")
    scripts = [QUICK] * 5 + [failing(500, "a")] * 12 + [failing(429, "b")] * 5 + [reset] * 3
    phase, summary, _ = await measure(in_turn(*scripts), closed_loop(requests=25))
    assert phase.counts[Count.FAILED] == 20
    assert phase.errors == {"http_500": 12, "http_429": 5, "reset": 3}
    assert summary.metrics["error_rate"]["mean"] == pytest.approx(0.8)


async def test_b53_requests_that_are_never_answered_time_out_and_the_phase_ends() -> None:
    silent = Script(writes=[], end="silence")
    phase, _, seen = await measure(
        silent,
        closed_loop(requests=8, concurrency=4),
        target={"request_timeout": 0.2},
    )
    assert (seen, phase.errors) == (8, {"request_timeout": 8})
    assert phase.counts[Count.TIMEOUT] == 8
    assert 0.4 <= phase.seconds < 1.2


async def test_b55_a_cell_that_is_refused_as_a_whole_keeps_the_servers_words() -> None:
    words = "This model's maximum context length is 2048 tokens."
    short, _, _ = await measure(QUICK, closed_loop(requests=5))
    long, summary, _ = await measure(failing(400, words), closed_loop(requests=5))
    assert histogram(short, "request_latency").count == 5
    assert (long.errors, long.error_samples) == ({"http_400": 5}, {"http_400": words})
    assert not long.histograms
    assert (summary.counts.get(Count.OK), summary.metrics["error_rate"]["mean"]) == (None, 1.0)


async def test_b57_everything_that_is_due_is_sent_and_late_answers_are_not_lost() -> None:
    late = Script(writes=[(300, data) for _, data in normal()])
    phase, _, seen = await measure(late, open_loop(100.0, duration=1.0))
    assert seen == phase.counts[Count.ISSUED] == phase.counts[Count.OK] == 100
    assert phase.seconds == 1.0
    assert 0.2 < phase.drain_seconds < 1
    # Sent in the last 0.3 s, they were answered after the window.
    assert phase.counts[Count.OK_IN_WINDOW] == pytest.approx(70, abs=8)
