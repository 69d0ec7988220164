"""Runs one phase of load: sends when it is time, watches time-outs, stops, drains, gives up.

Everything happens in callbacks of the event loop: an ended request sends its successor within the
same read from the socket. How a request is sent and what the time is are ports, so that the rules
of stopping are tested without a network and without waiting.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from tare.plan.schedule import is_cancelled
from tare.worker import failure as kinds
from tare.worker.failure import Failure
from tare.worker.record import Status

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.measure.messages import PhaseResult
    from tare.plan.order import PhaseOrder, TargetOrder
    from tare.plan.shares import Share
    from tare.worker.arrivals import Arrivals
    from tare.worker.record import Record
    from tare.worker.recorder import PhaseRecorder
    from tare.worker.sessions import Sessions
    from tare.worker.timers import Timer, Timers

__all__ = ["Call", "PhaseRunner", "Sender"]

_SECOND = 1_000_000_000
_WATCHES_PER_TIMEOUT = 40
_WATCH_PERIODS = (0.005, 0.25)
"""Shortest and longest time between two looks at the time-outs, in seconds."""


class Call(Protocol):
    """A request in flight."""

    @property
    def record(self) -> Record:
        """What is known of it."""
        ...

    @property
    def last_progress(self) -> int:
        """When it last brought text, or was sent; 0 before that."""
        ...

    def give_up(self, at: int, status: Status, failure: Failure) -> None:
        """End it now; its `done` is called before this returns."""
        ...


class Sender(Protocol):
    """Sends requests."""

    @property
    def connections_opened(self) -> int:
        """Connections opened since the worker began."""
        ...

    def send(self, number: int, due: int, done: Callable[[Call], None]) -> Call:
        """Send request `number`; `done` is called later, once, never from within this call."""
        ...


class PhaseRunner:
    """One phase of one worker, from the gate to the end of its last request."""

    def __init__(
        self,
        order: PhaseOrder,
        share: Share,
        *,
        arrivals: Arrivals,
        target: TargetOrder,
        recorder: PhaseRecorder,
        sender: Sender,
        timers: Timers,
        on_finished: Callable[[], None],
        on_sent: Callable[[], None] | None = None,
        sessions: Sessions | None = None,
    ) -> None:
        self._order = order
        self._arrivals = arrivals
        self._sessions = sessions
        """The arrivals once more, when they depend on answers."""
        self._recorder = recorder
        self._sender = sender
        self._timers = timers
        self._on_finished = on_finished
        self._on_sent = on_sent
        self._request_timeout = round(target.request_timeout * _SECOND)
        # An answer in one piece brings no token before its end.
        idle = target.idle_timeout if target.streaming else target.request_timeout
        self._idle_timeout = round(idle * _SECOND)
        shortest = min(self._request_timeout, self._idle_timeout) / _SECOND
        low, high = _WATCH_PERIODS
        self._watch_period = min(max(shortest / _WATCHES_PER_TIMEOUT, low), high)
        # An open loop's requests may run out because its time does: then its time is what ends it.
        limit = order.requests if sessions is None else order.sessions
        self._ends_by_requests = limit is not None and share.total == limit
        self._owned = share.requests if order.rate is not None else None
        if sessions is not None:
            self._owned = sessions.planned
        self._cancels = order.cancel_share > 0
        self._calls: dict[Call, int] = {}
        """In flight, each with the moment at which it was handed to the sender."""
        self._pending: set[Timer] = set()
        self._send_timer: Timer | None = None
        self._began = self._wakes_at = 0
        self._sending = False
        self._blocked = False
        """Something is due or past, and every slot is taken."""
        self._freed = 0
        """When a slot became free that was waited for, after the gate."""
        self._finished = 0
        self._opened_before = 0

    @property
    def recorder(self) -> PhaseRecorder:
        """Counts so far."""
        return self._recorder

    @property
    def in_flight(self) -> int:
        """Requests sent and not ended."""
        return len(self._calls)

    @property
    def elapsed(self) -> float:
        """Seconds since the gate."""
        return (self._timers.now() - self._began) / _SECOND

    @property
    def finished(self) -> bool:
        """Whether every request has ended."""
        return self._finished > 0

    def start(self) -> None:
        """Open the gate: send what is due now and go on by itself."""
        self._began = self._timers.now()
        self._opened_before = self._sender.connections_opened
        self._recorder.begin(self._began)
        self._sending = True
        if self._order.duration is not None:
            self._later(self._order.duration, self._time_over)
        self._later(self._watch_period, self._watch)
        self._pump()

    def stop(self) -> None:
        """Send nothing more and cancel what is in flight, now."""
        if self.finished:
            return
        self._sending = False
        self._recorder.cut(self._timers.now())
        self._give_up_all(Failure(kinds.STOPPED, "the run was stopped"))
        if not self.finished:
            self._finish()

    def result(self) -> PhaseResult:
        """Return what was measured; the phase has finished."""
        assert self.finished
        result = self._recorder.result(
            finished=self._finished,
            connections_opened=self._sender.connections_opened - self._opened_before,
        )
        return replace(result, seamless=self._order.seamless)

    def _pump(self) -> None:
        """Send everything that is due, then arrange for the next one."""
        arrivals = self._arrivals
        while self._sending:
            if arrivals.exhausted:
                if self._ends_by_requests:
                    self._end_sending()
                return
            elapsed = self._timers.now() - self._began
            due = arrivals.next_due(elapsed, len(self._calls))
            if due is None:
                self._blocked = True
                return
            if due > elapsed:
                self._wake_at(due, elapsed)
                return
            self._send(due, elapsed)

    def _send(self, due: int, elapsed: int) -> None:
        number = self._arrivals.take()
        self._recorder.issue(elapsed - max(due, self._freed))
        call = self._sender.send(number, self._began + due, self._ended)
        self._calls[call] = self._began + elapsed
        if self._cancels and is_cancelled(self._order, number):
            self._later(self._order.cancel_after, lambda: self._cancel(call))

    def _cancel(self, call: Call) -> None:
        """Cancel as planned; a request that waits for its connection is given its time first."""
        if call not in self._calls:
            return
        now = self._timers.now()
        if not call.record.sent:
            seconds = max(self._order.cancel_after, self._watch_period)
            self._later(seconds, lambda: self._cancel(call))
            return
        left = call.record.sent + round(self._order.cancel_after * _SECOND) - now
        if left > 0:
            self._later(left / _SECOND, lambda: self._cancel(call))
            return
        message = f"cancelled as planned, {self._order.cancel_after:g} s after the send"
        call.give_up(now, Status.CANCELLED, Failure(kinds.PLANNED_CANCEL, message))

    def _wake_at(self, due: int, elapsed: int) -> None:
        """Have the next one sent when it is due; that may be before what was waited for so far."""
        if self._send_timer is not None:
            if due >= self._wakes_at:
                return
            self._pending.discard(self._send_timer)
            self._send_timer.cancel()
        self._wakes_at = due
        self._send_timer = self._later((due - elapsed) / _SECOND, self._wake)

    def _wake(self) -> None:
        self._send_timer = None
        self._pump()

    def _ended(self, call: Call) -> None:
        del self._calls[call]
        if self._blocked:
            self._blocked = False
            self._freed = call.record.closed - self._began
        self._recorder.add(call.record)
        if self._sessions is not None:
            self._sessions.ended(call.record, self._timers.now() - self._began)
        if self._sending:
            self._pump()
        elif not self._calls:
            self._finish()

    def _time_over(self) -> None:
        self._pump()  # What is due in the last millisecond is sent too.
        self._end_sending()

    def _end_sending(self) -> None:
        if not self._sending:
            return
        self._sending = False
        if self._owned is not None:
            self._recorder.leave(self._owned)
        if self._order.seamless:
            # The window of the next phase begins: the two must not overlap.
            self._recorder.cut(self._timers.now())
        if self._on_sent is not None:
            self._on_sent()
        if self._calls:
            self._later(self._order.grace, self._grace_over)
        else:
            self._finish()

    def _grace_over(self) -> None:
        message = f"unanswered {self._order.grace:g} s after the last send"
        self._give_up_all(Failure(kinds.GRACE_OVER, message))

    def _give_up_all(self, failure: Failure) -> None:
        now = self._timers.now()
        for call in list(self._calls):
            call.give_up(now, Status.CANCELLED, failure)

    def _watch(self) -> None:
        now = self._timers.now()
        for call, handed_over in list(self._calls.items()):
            # Not from its due time, which may be minutes past where a bound has held it back.
            began = call.record.sent or handed_over
            if now - began >= self._request_timeout:
                seconds = self._request_timeout / _SECOND
                failure = Failure(kinds.REQUEST_TIMEOUT, f"not finished after {seconds:g} s")
            elif now - (call.last_progress or began) >= self._idle_timeout:
                seconds = self._idle_timeout / _SECOND
                failure = Failure(kinds.IDLE_TIMEOUT, f"no text for {seconds:g} s")
            else:
                continue
            call.give_up(now, Status.TIMEOUT, failure)
        if not self.finished:
            self._later(self._watch_period, self._watch)

    def _finish(self) -> None:
        self._finished = self._timers.now()
        for timer in self._pending:
            timer.cancel()
        self._pending.clear()
        self._on_finished()

    def _later(self, seconds: float, callback: Callable[[], None]) -> Timer:
        def run() -> None:
            self._pending.discard(timer)
            callback()

        timer = self._timers.call_later(seconds, run)
        self._pending.add(timer)
        return timer
