from __future__ import annotations

from array import array
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tare.measure.counts import Count
from tare.measure.histogram import Histogram
from tare.plan.order import PhaseOrder
from tare.worker.columns import distributions, rows
from tare.worker.record import Record, Status, TokenSource
from tare.worker.recorder import PhaseRecorder

SECOND = 1_000_000_000
MS = 1_000_000

TEN_SECONDS = PhaseOrder(
    name="profiling", kind="profiling", type="concurrency", concurrency=1, duration=10.0
)


def _recorder(phase: PhaseOrder = TEN_SECONDS, **limits: int) -> PhaseRecorder:
    recorder = PhaseRecorder(phase, streaming=True, endpoints=["http://h:80"], limits=limits)
    recorder.begin(0)
    return recorder


def _record(*, sent: int = SECOND, number: int = 1, **more: Any) -> Record:
    """An ok answer of three tokens at 100, 110 and 120 ms after `sent`."""
    record = Record(
        number=number,
        entry=0,
        asked_tokens=3,
        due=sent,
        sent=sent,
        first_event=sent + 50 * MS,
        first_text=sent + 100 * MS,
        first_output=sent + 100 * MS,
        last_text=sent + 120 * MS,
        closed=sent + 123 * MS,
        gaps=array("q", [10 * MS, 10 * MS]),
        status=Status.OK,
        streamed=True,
        chunks=3,
        prompt_tokens=5,
        output_tokens=3,
        token_source=TokenSource.USAGE,
    )
    for name, value in more.items():
        setattr(record, name, value)
    return record


def _failed(kind: str, **more: Any) -> Record:
    return Record(
        number=9,
        entry=0,
        due=SECOND,
        sent=SECOND,
        closed=SECOND + MS,
        status=more.pop("status", Status.ERROR),
        error_kind=kind,
        error_message=f"first {kind}",
        **more,
    )


def test_b49_b51_failures_are_counted_by_kind_and_are_in_no_latency() -> None:
    recorder = _recorder()
    kinds = ["http_500"] * 12 + ["http_429"] * 5 + ["reset"] * 3
    for record in [*(_record() for _ in range(5)), *(_failed(kind) for kind in kinds)]:
        recorder.issue(0)
        recorder.add(record)
    result = recorder.result(finished=11 * SECOND, connections_opened=1)
    assert result.counts[Count.ISSUED] == 25
    assert (result.counts[Count.OK], result.counts[Count.FAILED]) == (5, 20)
    assert result.errors == {"http_500": 12, "http_429": 5, "reset": 3}
    assert result.error_samples["http_429"] == "first http_429"
    latency = Histogram.from_json(result.histograms["request_latency"])
    assert (latency.count, latency.mean) == (5, 120 * MS)
    assert result.endpoints == {"http://h:80": 25}


def test_incomplete_and_late_answers_are_failures_with_a_count_of_their_own() -> None:
    recorder = _recorder()
    recorder.add(_failed("truncated", status=Status.INCOMPLETE))
    recorder.add(_failed("request_timeout", status=Status.TIMEOUT))
    recorder.add(_failed("stopped", status=Status.CANCELLED))
    counts = recorder.counts
    assert counts[Count.FAILED] == 2
    assert counts[Count.INCOMPLETE] == counts[Count.TIMEOUT] == counts[Count.CANCELLED] == 1


def test_only_what_arrives_in_the_window_belongs_to_a_rate() -> None:
    recorder = _recorder()
    recorder.add(_record(sent=9 * SECOND))
    recorder.add(_record(sent=10 * SECOND - 110 * MS))  # Its last chunk comes 10 ms too late.
    recorder.add(_record(sent=10 * SECOND - 50 * MS))
    result = recorder.result(finished=10 * SECOND + 100 * MS, connections_opened=0)
    assert result.counts[Count.OK] == 3
    assert result.counts[Count.OK_IN_WINDOW] == 1
    assert result.counts[Count.OUTPUT_TOKENS_IN_WINDOW] == 3 + 2
    assert result.counts[Count.PROMPT_TOKENS_IN_WINDOW] == 5 + 5
    assert (result.seconds, result.drain_seconds) == (10, 0.1)


def test_tokens_of_a_request_that_was_cancelled_arrived_nevertheless() -> None:
    recorder = _recorder()
    recorder.add(_record(status=Status.CANCELLED))
    assert recorder.counts[Count.OUTPUT_TOKENS_IN_WINDOW] == 3
    assert recorder.counts[Count.OK_IN_WINDOW] == 0


def test_a_request_is_good_when_it_meets_every_limit() -> None:
    recorder = _recorder(time_to_first_token=100 * MS, inter_chunk_latency=10 * MS)
    recorder.add(_record())
    recorder.add(_record(first_text=SECOND + 101 * MS))
    recorder.add(_record(gaps=array("q", [10 * MS, 11 * MS])))
    recorder.add(_failed("http_500"))
    assert recorder.counts[Count.GOOD] == 1


def test_the_cache_is_judged_by_the_first_request_of_the_plan() -> None:
    recorder = _recorder()
    recorder.add(_record(number=2, cached_tokens=64))
    recorder.add(_record(number=0, cached_tokens=16))
    recorder.add(_record(number=1, cached_tokens=32))
    assert recorder.result(finished=SECOND, connections_opened=0).first_cached_tokens == 16


def test_an_answer_that_was_not_streamed_is_counted() -> None:
    recorder = _recorder()
    recorder.add(_record(streamed=False, first_text=0))
    assert recorder.counts[Count.NOT_STREAMED] == 1
    assert recorder.counts[Count.TPOT_UNDEFINED] == 1


def test_another_length_than_asked_for_is_counted_where_it_is_known() -> None:
    recorder = _recorder()
    for tokens in (3, 2, None):
        recorder.add(_record(output_tokens=tokens))
    assert recorder.counts[Count.OUTPUT_LENGTH_MISMATCH] == 1


def test_a_closed_loop_has_no_schedule_to_lag_behind() -> None:
    recorder = _recorder()
    recorder.add(_record())
    result = recorder.result(finished=SECOND, connections_opened=0)
    assert "schedule_lag" not in result.histograms


def test_the_clients_own_lateness_is_kept_for_an_open_loop() -> None:
    phase = PhaseOrder(name="profiling", kind="profiling", type="poisson", rate=1.0, requests=2)
    recorder = _recorder(phase)
    recorder.issue(3 * MS)
    recorder.issue(-1)
    lag = Histogram.from_json(
        recorder.result(finished=SECOND, connections_opened=0).histograms["send_lag"]
    )
    assert (lag.minimum, lag.maximum) == (0, 3 * MS)


def test_what_was_due_and_never_sent_is_counted_beside_what_was() -> None:
    phase = PhaseOrder(name="profiling", kind="profiling", type="poisson", rate=1.0, duration=9.0)
    recorder = _recorder(phase)
    recorder.issue(0)
    recorder.leave(4)
    assert (recorder.counts[Count.ISSUED], recorder.counts[Count.UNSENT]) == (1, 3)


def test_a_request_that_is_cancelled_on_purpose_is_no_failure() -> None:
    recorder = _recorder()
    recorder.add(_failed("planned_cancel", status=Status.CANCELLED))
    recorder.add(_failed("grace_over", status=Status.CANCELLED))
    counts = recorder.counts
    assert (counts[Count.CANCELLED], counts[Count.PLANNED_CANCEL]) == (2, 1)
    assert (counts[Count.FAILED], recorder.result(finished=0, connections_opened=0).errors) == (
        0,
        {},
    )


TOKENS = st.none() | st.integers(0, 5)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Any request, whether its moments make sense together or not."""
    sent = draw(st.just(0) | st.integers(1, 5) | st.integers(SECOND, 12 * SECOND))
    steps = st.integers(0, 3) | st.integers(0, 5 * SECOND)
    first = sent + draw(steps) if sent and draw(st.booleans()) else 0
    gaps = draw(st.lists(steps, max_size=3)) if first else []
    last = first + sum(gaps)
    return Record(
        number=draw(st.integers(0, 500)),
        entry=1,
        asked_tokens=draw(st.integers(0, 3)),
        due=max(sent - draw(steps), 0),
        sent=sent,
        first_event=first and max(first - draw(steps), sent),
        first_text=first,
        first_output=first and draw(st.sampled_from([0, last])),
        last_text=last,
        closed=max(last, sent) + draw(steps),
        gaps=array("q", gaps),
        status=draw(st.sampled_from(Status)),
        error_kind=draw(st.sampled_from([None, "reset", "planned_cancel"])),
        streamed=draw(st.booleans()),
        missing_done=draw(st.booleans()),
        chunks=len(gaps) + 1 if first else 0,
        prompt_tokens=draw(TOKENS),
        output_tokens=draw(TOKENS),
        cached_tokens=draw(TOKENS),
        token_source=draw(st.sampled_from([None, *TokenSource])),
    )


@given(st.lists(records(), max_size=8))
def test_a_column_holds_what_each_request_says_of_itself(some: list[Record]) -> None:
    columns = distributions(some)
    assert columns.pop("stream_closed") == [r.closed - r.sent for r in some]
    assert columns.pop("chunks") == [r.chunks for r in some if r.streamed]
    for name, values in columns.items():
        own = [getattr(record, name) for record in some]
        assert sorted(values) == sorted(value for value in own if value is not None)
    for name, column in zip(("time_to_first_token", "latency"), rows(some, 0)[4:6], strict=True):
        own = [getattr(r, "request_latency" if name == "latency" else name) for r in some]
        assert column == [-1 if value is None else value // 1000 for value in own]


@settings(deadline=None)
@given(st.lists(records(), max_size=30), st.sets(st.integers(0, 30)))
def test_sums_do_not_depend_on_when_they_are_asked_for(some: list[Record], asked: set[int]) -> None:
    limits = {"time_to_first_token": 100 * MS, "inter_chunk_latency": 10 * MS}
    at_once, singly = _recorder(TEN_SECONDS, **limits), _recorder(TEN_SECONDS, **limits)
    for place, record in enumerate(some):
        at_once.add(record)
        singly.add(record)
        if place in asked:
            assert sum(singly.counts[kind] for kind in ("ok", "failed", "cancelled")) == place + 1
    finished = 30 * SECOND
    assert at_once.result(finished=finished, connections_opened=0) == singly.result(
        finished=finished, connections_opened=0
    )
    expected = sum(record.tokens_until(10 * SECOND) for record in some)
    assert at_once.counts[Count.OUTPUT_TOKENS_IN_WINDOW] == expected
    in_time = [r for r in some if r.prompt_tokens and 0 < r.first_text <= 10 * SECOND]
    assert at_once.counts[Count.PROMPT_TOKENS_IN_WINDOW] == sum(
        record.prompt_tokens or 0 for record in in_time
    )
    ok = [r for r in some if r.status is Status.OK and (r.ended or r.closed) <= 10 * SECOND]
    assert at_once.counts[Count.OK_IN_WINDOW] == len(ok)


def test_progress_sees_every_request_that_has_ended() -> None:
    recorder = _recorder()
    for number in range(250):
        recorder.issue(0)
        recorder.add(_record(number=number))
        if number % 7 == 0:
            assert recorder.counts[Count.OK] == number + 1
    latency = Histogram.from_json(recorder.histogram("request_latency"))
    assert (recorder.counts[Count.ISSUED], latency.count) == (250, 250)
