from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.timers import ManualTimers
from tare.measure.counts import Count
from tare.measure.histogram import Histogram
from tare.plan.order import PhaseOrder, RampOrder, TargetOrder
from tare.plan.schedule import worker_share
from tare.worker.arrivals import arrivals_of
from tare.worker.phase import PhaseRunner
from tare.worker.record import Record, Status
from tare.worker.recorder import PhaseRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.measure.messages import PhaseResult
    from tare.worker.failure import Failure
    from tare.worker.phase import Call


class _Call:
    def __init__(self, record: Record, done: Callable[[Call], None]) -> None:
        self.record = record
        self.last_progress = record.sent
        self._done = done

    def give_up(self, at: int, status: Status, failure: Failure) -> None:
        self.record.status, self.record.error_kind = status, failure.kind
        self._end(at)

    def answer(self, at: int) -> None:
        self.record.status = Status.OK
        self.record.http_status = 200
        self.record.output_tokens = self.record.chunks = 1
        self._end(at)

    def _end(self, at: int) -> None:
        self.record.closed = at
        self._done(self)


class _Bench:
    """A phase whose server is the test: requests are answered when it says so, or after a time."""

    def __init__(
        self,
        order: PhaseOrder,
        *,
        answer_after: float | None = None,
        streaming: bool = True,
        request_timeout: float = 600,
        idle_timeout: float = 600,
    ) -> None:
        self.timers = ManualTimers()
        self.sent: list[tuple[int, int]] = []
        """(number, due in ms after the gate)."""
        self.open: list[_Call] = []
        self.peak = 0
        self.finished = 0
        self.sent_all = 0
        self.connections_opened = 0
        self._answer_after = answer_after
        self._began = self.timers.now()
        share = worker_share(order, 0, 1)
        target = TargetOrder(
            urls=("http://h",),
            model="m",
            streaming=streaming,
            request_timeout=request_timeout,
            idle_timeout=idle_timeout,
        )
        self.runner = PhaseRunner(
            order,
            share,
            arrivals=arrivals_of(order, share),
            target=target,
            recorder=PhaseRecorder(order, streaming=False, endpoints=["http://h:80"], limits={}),
            sender=self,
            timers=self.timers,
            on_finished=self._on_finished,
            on_sent=self._on_sent,
        )
        self.runner.start()

    def send(self, number: int, due: int, done: Callable[[Call], None]) -> Call:
        now = self.timers.now()
        call = _Call(Record(number=number, entry=0, due=due, sent=now), done)
        self.sent.append((number, (due - self._began) // 1_000_000))
        self.open.append(call)
        self.peak = max(self.peak, len(self.open))
        if self._answer_after is not None:
            self.timers.call_later(self._answer_after, lambda: self.answer(call))
        return call

    def answer(self, call: _Call) -> None:
        if call in self.open:
            self.open.remove(call)
            call.answer(self.timers.now())

    @property
    def result(self) -> PhaseResult:
        return self.runner.result()

    def _on_sent(self) -> None:
        self.sent_all += 1

    def _on_finished(self) -> None:
        self.finished += 1


def _closed(**more: Any) -> PhaseOrder:
    return PhaseOrder(name="p", kind="profiling", type="concurrency", **more)


def _open(**more: Any) -> PhaseOrder:
    return PhaseOrder(name="p", kind="profiling", type="constant", **more)


def test_a_closed_loop_keeps_its_slots_full_and_ends_with_its_last_request() -> None:
    bench = _Bench(_closed(concurrency=3, requests=7), answer_after=0.1)
    bench.timers.advance(1)
    assert (bench.peak, bench.finished) == (3, 1)
    assert [number for number, _ in bench.sent] == list(range(7))
    result = bench.result
    assert result.seconds == pytest.approx(0.3)
    assert result.drain_seconds == 0
    assert result.counts[Count.ISSUED] == result.counts[Count.OK_IN_WINDOW] == 7


def test_the_window_of_a_seamless_phase_ends_with_its_last_send() -> None:
    """The next phase begins then; what is answered later is counted, and in no rate."""
    bench = _Bench(_closed(concurrency=3, requests=7, seamless=True), answer_after=0.1)
    bench.timers.advance(0.19)
    assert (bench.sent_all, bench.finished) == (0, 0)
    bench.timers.advance(0.02)
    assert (bench.sent_all, bench.finished) == (1, 0)
    bench.timers.advance(1)
    assert (bench.sent_all, bench.finished) == (1, 1)
    result = bench.result
    assert result.seamless
    assert result.seconds == pytest.approx(0.2)
    assert result.drain_seconds == pytest.approx(0.1)
    assert (result.counts[Count.OK], result.counts[Count.OK_IN_WINDOW]) == (7, 6)


def test_a_phase_that_is_stopped_was_not_sent() -> None:
    bench = _Bench(_closed(concurrency=3, requests=7, seamless=True))
    bench.runner.stop()
    assert (bench.sent_all, bench.finished) == (0, 1)


def test_b57_what_is_due_in_the_duration_is_sent_and_awaited() -> None:
    bench = _Bench(_open(rate=10.0, duration=10.0), answer_after=3)
    bench.timers.advance(12.8)
    assert bench.finished == 0
    bench.timers.advance(0.2)
    result = bench.result
    assert bench.finished == 1
    assert result.counts[Count.ISSUED] == result.counts[Count.OK] == 100
    assert result.counts[Count.OK_IN_WINDOW] == 71  # Sent at 0.0 … 7.0 s.
    assert result.seconds == 10
    assert result.drain_seconds == pytest.approx(2.9)


def test_an_open_loop_that_ends_by_time_has_its_whole_window() -> None:
    bench = _Bench(_open(rate=1.0, duration=10.0), answer_after=0.01)
    bench.timers.advance(9.9)
    assert bench.finished == 0
    bench.timers.advance(0.1)
    assert (bench.finished, bench.result.seconds) == (1, 10)


def test_an_open_loop_that_ends_by_requests_does_not_wait_for_its_time() -> None:
    bench = _Bench(_open(rate=10.0, requests=5, duration=60.0), answer_after=0.05)
    bench.timers.advance(1)
    assert bench.finished == 1
    assert bench.result.seconds == pytest.approx(0.45)


def test_b67_lateness_is_in_the_latency_from_due_and_hidden_in_that_from_send() -> None:
    bench = _Bench(_open(rate=10.0, duration=20.0, max_concurrency=1))
    while bench.finished == 0:
        bench.timers.advance(0.010)
        frozen = 6.0 <= bench.timers.now() / 1e9 < 11.0  # Seconds 5 to 10 of the phase.
        for call in bench.open[:] if not frozen else ():
            bench.answer(call)
    result = bench.result
    assert result.counts[Count.OK] == 200
    due = Histogram.from_json(result.histograms["request_latency_from_due"])
    sent = Histogram.from_json(result.histograms["request_latency"])
    lag = Histogram.from_json(result.histograms["schedule_lag"])
    seconds = {p: (due.percentile(p) or 0) / 1e9 for p in (50, 90, 99)}
    assert seconds[50] == pytest.approx(0.01, abs=0.02)
    assert seconds[90] == pytest.approx(3.2, abs=0.2)
    assert seconds[99] == pytest.approx(4.8, abs=0.2)
    assert (sent.percentile(99) or 0) / 1e9 == pytest.approx(0.01, abs=0.02)
    assert (sent.maximum or 0) / 1e9 == pytest.approx(5, abs=0.1)
    assert (lag.maximum or 0) / 1e9 == pytest.approx(4.9, abs=0.1)


def test_unanswered_requests_are_cancelled_when_the_grace_period_is_over() -> None:
    bench = _Bench(_closed(concurrency=2, duration=5.0, grace=3.0))
    bench.timers.advance(7.9)
    assert bench.finished == 0
    bench.timers.advance(0.2)
    assert bench.finished == 1
    result = bench.result
    assert result.counts[Count.CANCELLED] == 2
    assert Count.FAILED not in result.counts
    assert (result.seconds, result.drain_seconds) == (5, 3)


def test_a_stop_ends_everything_before_it_returns() -> None:
    bench = _Bench(_closed(concurrency=2, duration=60.0))
    bench.timers.advance(2)
    bench.runner.stop()
    assert (bench.finished, bench.runner.in_flight) == (1, 0)
    bench.timers.advance(100)
    assert len(bench.sent) == 2
    result = bench.result
    assert (result.seconds, result.counts[Count.CANCELLED]) == (2, 2)


def test_a_stop_while_nothing_is_in_flight_ends_the_phase_too() -> None:
    bench = _Bench(_open(rate=0.1, duration=60.0), answer_after=0.1)
    bench.timers.advance(2)
    bench.runner.stop()
    bench.runner.stop()
    assert bench.finished == 1


def test_b53_a_request_that_is_never_answered_times_out() -> None:
    bench = _Bench(_closed(concurrency=4, requests=8), request_timeout=2.0)
    bench.timers.advance(4.2)
    result = bench.result
    assert result.counts[Count.TIMEOUT] == result.counts[Count.FAILED] == 8
    assert result.errors == {"request_timeout": 8}


def test_a_stream_without_text_times_out_by_its_idle_time() -> None:
    bench = _Bench(_closed(concurrency=1, requests=1), idle_timeout=1.0)
    bench.timers.advance(0.9)
    bench.open[0].last_progress = bench.timers.now()
    bench.timers.advance(0.9)
    assert bench.finished == 0
    bench.timers.advance(0.2)
    assert bench.result.errors == {"idle_timeout": 1}


def test_an_answer_in_one_piece_has_no_idle_time() -> None:
    bench = _Bench(_closed(concurrency=1, requests=1), idle_timeout=1.0, streaming=False)
    bench.timers.advance(5)
    assert bench.finished == 0


def test_a_worker_without_a_slot_waits_for_the_others() -> None:
    order = _closed(concurrency=1, duration=5.0)
    share = worker_share(order, 1, 2)
    assert arrivals_of(order, share).exhausted


def test_a_ramp_of_concurrency_opens_one_slot_after_the_other() -> None:
    ramp = RampOrder(seconds=3.0, start=1.0)
    bench = _Bench(_closed(concurrency=4, duration=10.0, ramp=ramp))
    in_flight = []
    for _ in range(5):
        in_flight.append(bench.runner.in_flight)
        bench.timers.advance(1.0)
    assert in_flight == [1, 2, 3, 4, 4]


def test_a_ramp_of_a_rate_sends_at_the_planned_moments() -> None:
    ramp = RampOrder(seconds=4.0, start=0.0)
    bench = _Bench(_open(rate=2.0, duration=6.0, ramp=ramp), answer_after=0.01)
    bench.timers.advance(7)
    assert [due for _, due in bench.sent] == [0, 2000, 2828, 3464, 4000, 4500, 5000, 5500]


def test_the_chosen_requests_are_cancelled_after_their_delay() -> None:
    bench = _Bench(_closed(concurrency=2, requests=2, cancel_share=1.0, cancel_after=0.5, grace=60))
    bench.timers.advance(0.4)
    bench.answer(bench.open[0])
    assert bench.finished == 0
    bench.timers.advance(0.2)
    assert bench.finished == 1
    counts = bench.result.counts
    assert (counts[Count.OK], counts[Count.CANCELLED], counts[Count.PLANNED_CANCEL]) == (1, 1, 1)
    assert Count.FAILED not in counts


@pytest.mark.parametrize(
    ("whole", "idle", "kind"), [(2.0, 600, "request_timeout"), (600, 2.0, "idle_timeout")]
)
def test_what_a_bound_held_back_for_long_has_its_time_from_the_send(
    whole: float, idle: float, kind: str
) -> None:
    """Also while its connection is being opened, when nothing was sent yet."""
    order = _open(rate=10.0, requests=2, max_concurrency=1)
    bench = _Bench(order, request_timeout=whole, idle_timeout=idle)
    bench.timers.advance(1.9)
    bench.answer(bench.open[0])
    (late,) = bench.open  # Due at 0.1 s.
    late.record.sent = late.last_progress = 0
    bench.timers.advance(1.9)
    assert bench.finished == 0
    bench.timers.advance(0.2)
    assert bench.result.errors == {kind: 1}


def test_a_cancellation_without_delay_waits_for_the_send() -> None:
    bench = _Bench(_closed(concurrency=1, requests=1, cancel_share=1.0, cancel_after=0.0))
    (call,) = bench.open
    call.record.sent = 0
    bench.timers.advance(1)
    assert bench.finished == 0
    call.record.sent = bench.timers.now()
    bench.timers.advance(1)
    assert bench.result.counts[Count.PLANNED_CANCEL] == 1


def test_the_delay_of_a_cancellation_counts_from_the_first_byte_sent() -> None:
    bench = _Bench(_closed(concurrency=1, requests=1, cancel_share=1.0, cancel_after=0.5))
    (call,) = bench.open
    call.record.sent = 0  # Its connection is still being opened.
    bench.timers.advance(0.45)
    call.record.sent = bench.timers.now()
    bench.timers.advance(0.4)
    assert bench.finished == 0
    bench.timers.advance(0.15)
    assert bench.finished == 1


def test_the_wait_for_a_slot_is_not_the_clients_own_lateness() -> None:
    bench = _Bench(_open(rate=10.0, requests=6, max_concurrency=1))
    bench.timers.advance(0.55)
    while bench.open:
        bench.answer(bench.open[0])
    lags = {name: bench.result.histograms[name] for name in ("send_lag", "schedule_lag")}
    assert Histogram.from_json(lags["send_lag"]).maximum == 0
    assert Histogram.from_json(lags["schedule_lag"]).maximum == 450_000_000


def test_an_open_loop_that_is_held_up_is_late_by_its_own_fault() -> None:
    bench = _Bench(_open(rate=10.0, duration=0.5), answer_after=0.01)
    bench.timers.hold(0.25)
    bench.timers.advance(1)
    lag = Histogram.from_json(bench.result.histograms["send_lag"])
    assert lag.maximum == 150_000_000


def test_what_a_bound_held_back_until_the_end_is_counted_as_unsent() -> None:
    bench = _Bench(_open(rate=10.0, duration=1.0, max_concurrency=2, grace=1.0))
    bench.timers.advance(3)
    counts = bench.result.counts
    assert (counts[Count.ISSUED], counts[Count.UNSENT]) == (2, 8)
