"""The worker's own load on a virtual service: same phases, same rules, no network and no waiting.

`worker.phase` asks for a sender and for timers, and whoever provides them decides what time is.
Here they are those of `sim.predict`, so that a prediction sends what a measurement would send, when
it would send it, and counts what comes back in the same way.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from operator import sub
from typing import TYPE_CHECKING, Any

from tare.measure.goodput import limits_in_nanoseconds
from tare.measure.messages import Identity, WorkerResult
from tare.plan.markers import marker_of
from tare.plan.schedule import worker_share
from tare.sim.tokens import encode
from tare.worker import failure as kinds
from tare.worker.arrivals import arrivals_of
from tare.worker.failure import Failure
from tare.worker.phase import PhaseRunner
from tare.worker.record import Record, Status, TokenSource
from tare.worker.recorder import PhaseRecorder
from tare.worker.workload import Workload
from tare.workload.sizes import CountedBy, measure

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.plan.order import PhaseOrder, WorkOrder
    from tare.sim.predict.clock import VirtualClock
    from tare.sim.predict.service import Flight, Service
    from tare.worker.phase import Call
    from tare.worker.prompts import Prompts
    from tare.workload.sizes import TokenSizes

__all__ = ["VirtualWorkers", "sizes_of"]


def sizes_of(order: WorkOrder) -> TokenSizes:
    """Return the sizes of words for the simulated model, as its server would tell them."""
    dataset = order.dataset
    marker = marker_of(dataset.cache_bust, has_system=dataset.has_system)

    async def count(text: str) -> int:
        return len(encode(text))

    return asyncio.run(measure(count, CountedBy.SERVER, marker))


class VirtualWorkers:
    """All workers of an order, phase by phase."""

    def __init__(self, order: WorkOrder, service: Service, clock: VirtualClock) -> None:
        """Make their prompts.

        Raises:
            DatasetError: they cannot be made as ordered.
        """
        self._service = service
        self._clock = clock
        # Each process of a worker carries its own share.
        self._order = replace(order, workers=order.workers * order.processes, processes=1)
        sizes = sizes_of(order)
        indexes = range(self._order.workers)
        self._workloads = [Workload(self._order, index, sizes) for index in indexes]
        self._runners: list[list[PhaseRunner]] = [[] for _ in indexes]
        self._in_flight: set[tuple[str, int]] = set()
        """Phases by name, and the workers that have not drained them."""

    def run_phase(self, phase: PhaseOrder) -> None:
        """Run a phase to its last send if it is seamless, else until nothing is in flight."""
        unsent = set(range(self._order.workers))
        for index, runners in enumerate(self._runners):
            place = (phase.name, index)
            self._in_flight.add(place)
            runners.append(
                self._runner(
                    phase,
                    index,
                    on_sent=partial(unsent.discard, index),
                    on_finished=partial(self._in_flight.discard, place),
                )
            )
        for runners in self._runners:
            runners[-1].start()
        awaited: set[Any] = unsent if phase.seamless else self._in_flight
        self._service.run(until=lambda: not awaited)

    def results(self) -> list[WorkerResult]:
        """Return what the workers measured; nothing is in flight any more."""
        order = self._order
        return [
            WorkerResult(
                worker=Identity(
                    run_uid=order.run_uid,
                    cell=order.cell,
                    trial=order.trial,
                    attempt=order.attempt,
                    index=index,
                    pod_uid="",
                    pod_name="",
                ),
                phases=tuple(runner.result() for runner in runners),
                complete=True,
            )
            for index, runners in enumerate(self._runners)
        ]

    def _runner(
        self,
        phase: PhaseOrder,
        index: int,
        *,
        on_sent: Callable[[], None],
        on_finished: Callable[[], None],
    ) -> PhaseRunner:
        order, workload = self._order, self._workloads[index]
        share = worker_share(phase, index, order.workers)
        sessions = workload.sessions(phase, share)
        return PhaseRunner(
            phase,
            share,
            arrivals=sessions or arrivals_of(phase, share),
            target=order.target,
            recorder=PhaseRecorder(
                phase,
                streaming=order.target.streaming,
                endpoints=[f"replica-{number}" for number in range(self._service.replicas)],
                limits=limits_in_nanoseconds(order.goodput),
                rows=order.rows_of(phase),
            ),
            sender=_Sender(
                order,
                prompts=sessions or workload.prompts(phase),
                service=self._service,
                clock=self._clock,
                first=index,
            ),
            timers=self._clock,
            on_finished=on_finished,
            on_sent=on_sent,
            sessions=sessions,
        )


class _Sender:
    """Part of `worker.phase`: sends to the replicas in turn."""

    connections_opened = 0

    def __init__(
        self,
        order: WorkOrder,
        *,
        prompts: Prompts,
        service: Service,
        clock: VirtualClock,
        first: int,
    ) -> None:
        self._order = order
        self._prompts = prompts
        self._service = service
        self._clock = clock
        self._next = first

    def send(self, number: int, due: int, done: Callable[[Call], None]) -> Call:
        """Part of `worker.phase.Sender`."""
        entry, max_tokens, body, text = self._prompts.request(number)
        replica = self._next % self._service.replicas
        self._next += 1
        record = Record(
            number=number,
            entry=entry,
            endpoint=replica,
            asked_tokens=max_tokens,
            due=due,
            sent=self._clock.now(),
        )
        call = _Call(record, self._service, self._clock, done=done, text=text)
        chat = self._order.target.type == "chat"
        call.flight = self._service.submit(body, call, chat=chat, replica=replica)
        return call


class _Call:
    """A request in flight: `worker.phase.Call` for the worker, a client for the service."""

    def __init__(
        self,
        record: Record,
        service: Service,
        clock: VirtualClock,
        *,
        done: Callable[[Call], None],
        text: list[str] | None,
    ) -> None:
        self.record = record
        self.flight: Flight | None = None
        self._service = service
        self._clock = clock
        self._done: Callable[[Call], None] | None = done
        self._text = text

    @property
    def last_progress(self) -> int:
        """The last text, or the send."""
        return self.record.last_text or self.record.sent

    def give_up(self, at: int, status: Status, failure: Failure) -> None:
        """Part of `worker.phase.Call`."""
        if self.flight is not None:
            self._service.abort(self.flight)
        self._finish(at, status, failure)

    def on_refused(self, status: int, message: str) -> None:
        """Part of `sim.predict.service.Client`."""
        self.record.http_status = status
        failure = Failure(kinds.http_kind(status), kinds.shorten(message))
        self._finish(self._clock.now(), Status.ERROR, failure)

    def on_tokens(self, flight: Flight, first_at: int, last_at: int, count: int) -> None:
        """Part of `sim.predict.service.Client`."""
        record, generation = self.record, flight.generation
        record.http_status, record.streamed = 200, flight.asked.stream
        if record.streamed:
            # They come at equal distances: those of equal iterations.
            gap = (last_at - first_at) // (count - 1) if count > 1 else 0
            moments = [first_at + place * gap for place in range(count)]
            begun = generation.generated - count
            for index in reversed(flight.answer.fragments(begun, begun + count)):
                del moments[index - begun]
            if moments:
                self._read(moments)
        if generation.finished:
            record.finish_reason = flight.asked.finish_reason
            record.prompt_tokens = generation.prompt_tokens
            record.output_tokens = generation.generated
            record.cached_tokens = generation.cached_tokens
            record.token_source = TokenSource.USAGE
            record.chunks = record.chunks or 1
            if self._text is not None:
                self._text.append(flight.answer.text(0, generation.generated))
            self._finish(last_at, Status.OK)

    def _read(self, moments: list[int]) -> None:
        """Note when events with text came."""
        record = self.record
        if record.first_text:
            record.gaps.append(moments[0] - record.last_text)
        else:
            record.first_event = record.first_text = record.first_output = moments[0]
        record.gaps.extend(map(sub, moments[1:], moments))
        record.last_text = moments[-1]
        record.chunks += len(moments)

    def _finish(self, at: int, status: Status, failure: Failure | None = None) -> None:
        done, self._done = self._done, None
        if done is None:
            return
        record = self.record
        record.closed = at
        record.status = status
        if record.streamed and record.chunks and record.output_tokens is None:
            record.output_tokens, record.token_source = record.chunks, TokenSource.CHUNKS
        if failure is not None:
            record.error_kind, record.error_message = failure.kind, failure.message
        done(self)
