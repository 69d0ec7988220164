"""The load of one work order as this worker carries it: dataset, connections, phases, result."""

from __future__ import annotations

import asyncio
import gc
import math
import ssl
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tare.measure.counts import Count
from tare.measure.messages import PhaseResult, Progress, WorkerResult
from tare.plan.schedule import worker_share
from tare.worker.arrivals import arrivals_of
from tare.worker.endpoint import Endpoint
from tare.worker.failure import connect_failure
from tare.worker.journal import Journal
from tare.worker.lag import LagSampler
from tare.worker.orders import OrderError
from tare.worker.pauses import GcPauses
from tare.worker.phase import PhaseRunner
from tare.worker.pool import Pool
from tare.worker.recorder import PhaseRecorder
from tare.worker.sender import TargetSender, request_heads
from tare.worker.timers import LoopTimers
from tare.worker.workload import Workload
from tare.workload.dataset import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.plan.order import PhaseOrder
    from tare.worker.orders import Assignment
    from tare.workload.sizes import TokenSizes

__all__ = ["Load"]

_CONNECT_TIMEOUT = 5.0
_PREPARE_PATIENCE = 5.0
_PREPARE_PAUSE = 0.1
_OPEN_LOOP_SECONDS = 1.0
"""An open loop's first connections: as many as requests arrive in this time."""
_OPEN_LOOP_MOST = 512


class Load:
    """Runs the phases of an assignment, each when it is told to; a seamless one may be unanswered.

    Each phase has a runner and a recorder of its own, so that an answer counts for the phase that
    asked for it. What is measured of the process itself (lag, pauses, CPU time) is measured once
    while phases overlap.
    """

    def __init__(self, assignment: Assignment, sizes: TokenSizes | None = None) -> None:
        """Load the dataset, with the token sizes of words if they are known.

        Raises:
            OrderError: the dataset cannot be made as ordered.
        """
        order = assignment.order
        self._assignment = assignment
        self._order = order
        self._index = assignment.identity.index
        try:
            self._workload = Workload(order, self._index, sizes)
        except DatasetError as error:
            raise OrderError(str(error)) from error
        self.dataset: dict[str, Any] = self._workload.description
        """Compact description for the operator."""
        self._timers = LoopTimers(asyncio.get_running_loop())
        self._lag = LagSampler(self._timers)
        self._pauses = GcPauses()
        self._pool = _pool_of(assignment)
        self._heads = request_heads(order.target, assignment.bases, assignment.headers)
        self._journal = (
            Journal(order.artifacts, assignment.identity) if order.artifacts is not None else None
        )
        self._runner: PhaseRunner | None = None
        """Of the phase that was started last."""
        self._running = -1
        self._in_flight: dict[int, PhaseRunner] = {}
        self._ended: dict[int, PhaseRunner] = {}
        """Drained, and not summed up yet."""
        self._on_drained: dict[int, Callable[[], None]] = {}
        self._opened_until_sent: dict[int, int] = {}
        self._results: dict[int, PhaseResult] = {}
        self._cpu_seconds = 0.0
        self._cpu_began = 0.0
        self.stopped = False
        """Told to stop: nothing will be sent any more."""
        self._cut_short = False
        # The dataset stays for good: the collector need not look at it during a measurement.
        gc.collect()
        gc.freeze()

    @property
    def phases(self) -> int:
        """Number of phases."""
        return len(self._order.phases)

    async def prepare(self, phase: int) -> None:
        """Open, or renew, the connections that `phase` begins with.

        A target that refuses them is tried for a few seconds and then left to the load itself,
        where the failures are counted; a certificate that is not accepted now never will be.
        """
        deadline = time.monotonic() + _PREPARE_PATIENCE
        while True:
            try:
                await self._pool.prepare(self._first_connections(phase))
            except OSError as error:
                if time.monotonic() >= deadline or isinstance(error, ssl.SSLError):
                    words = connect_failure(error).message
                    sys.stderr.write(f"tare worker: connections to the target: {words}\n")
                    return
                await asyncio.sleep(_PREPARE_PAUSE)
            else:
                return

    @property
    def drained(self) -> int:
        """Highest phase up to which every request has ended; -1 for none."""
        return min(self._in_flight, default=self._running + 1) - 1

    def start(
        self,
        phase: int,
        on_drained: Callable[[], None],
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        """Begin `phase`; part of `lifecycle.Carrier`."""
        runner = self._runner_of(phase, on_sent)
        if not self._in_flight:
            self._cpu_began = time.process_time()
            self._lag.start()
            self._pauses.start()
        self._runner, self._running = runner, phase
        self._in_flight[phase] = runner
        self._on_drained[phase] = on_drained
        runner.start()

    def _runner_of(self, phase: int, on_sent: Callable[[], None] | None) -> PhaseRunner:
        order = self._order.phases[phase]
        share = worker_share(order, self._index, self._order.workers)
        sessions = self._workload.sessions(order, share)
        opened = self._pool.opened

        def sent() -> None:
            # What is opened from here on is opened for the next phase.
            self._opened_until_sent[phase] = self._pool.opened - opened
            if on_sent is not None:
                on_sent()

        return PhaseRunner(
            order,
            share,
            arrivals=sessions or arrivals_of(order, share),
            target=self._order.target,
            recorder=self._recorder(order),
            sender=TargetSender(
                self._order.target,
                pool=self._pool,
                prompts=sessions or self._workload.prompts(order),
                heads=self._heads,
                first_endpoint=self._index,
            ),
            timers=self._timers,
            on_finished=lambda: self._finished(phase),
            on_sent=sent if order.seamless else None,
            sessions=sessions,
        )

    def _finished(self, phase: int) -> None:
        """Say of which phases everything has ended with this one."""
        self._ended[phase] = self._in_flight.pop(phase)
        if not self._in_flight:
            self._sum_up()
        for done in [known for known in self._on_drained if known <= self.drained]:
            self._on_drained.pop(done)()

    def _sum_up(self) -> None:
        """Write down what has ended; it takes milliseconds, in which no load is on its way."""
        self._cpu_seconds += time.process_time() - self._cpu_began
        self._lag.stop()
        self._pauses.stop()
        if self._journal is not None:
            self._journal.flush()
        for phase, runner in self._ended.items():
            result = runner.result()
            if (opened := self._opened_until_sent.get(phase)) is not None:
                result = replace(result, connections_opened=opened)
            self._results[phase] = result
        self._ended.clear()

    def stop(self) -> None:
        """Send nothing more and cancel what is in flight, before this returns."""
        self.stopped = True
        for runner in list(self._in_flight.values()):
            self._cut_short = True
            runner.stop()
        self._pool.close()
        if self._journal is not None:
            self._journal.close()

    def progress(self) -> Progress | None:
        """Return how far the phase is that was started last; None when it has ended."""
        runner = self._runner
        if runner is None or runner.finished:
            return None
        recorder = runner.recorder
        return Progress(
            worker=self._assignment.identity,
            phase=self._running,
            elapsed=runner.elapsed,
            issued=recorder.counts[Count.ISSUED],
            ok=recorder.counts[Count.OK],
            failed=recorder.counts[Count.FAILED],
            in_flight=runner.in_flight,
            output_tokens=recorder.counts[Count.OUTPUT_TOKENS_IN_WINDOW],
            time_to_first_token=recorder.histogram("time_to_first_token"),
            request_latency=recorder.histogram("request_latency"),
            event_loop_lag=self._lag.take_largest(),
        )

    def result(self) -> WorkerResult:
        """Return what was measured so far; no phase is running."""
        return WorkerResult(
            worker=self._assignment.identity,
            phases=tuple(result for _, result in sorted(self._results.items())),
            complete=not self._cut_short and len(self._results) == self.phases,
            event_loop_lag=self._lag.histogram.to_json(),
            cpu_seconds=self._cpu_seconds,
            gc_pauses=self._pauses.histogram.to_json(),
        )

    async def collect(self) -> WorkerResult:
        """Return the result; part of `lifecycle.Carrier`."""
        return self.result()

    def _recorder(self, phase: PhaseOrder) -> PhaseRecorder:
        return PhaseRecorder(
            phase,
            streaming=self._order.target.streaming,
            endpoints=[str(base.origin) for base in self._assignment.bases],
            limits=self._assignment.limits,
            rows=self._order.rows_of(phase),
            journal=self._journal,
        )

    def _first_connections(self, phase: int) -> int:
        order = self._order.phases[phase]
        share = worker_share(order, self._index, self._order.workers)
        if order.rate is None:
            return share.concurrency or 0
        arriving = math.ceil(order.rate * _OPEN_LOOP_SECONDS / self._order.workers)
        most = _OPEN_LOOP_MOST if share.concurrency is None else share.concurrency
        return min(arriving, most)


def _pool_of(assignment: Assignment) -> Pool:
    return Pool(
        [
            Endpoint(
                base.origin,
                connect_timeout=_CONNECT_TIMEOUT,
                tls=assignment.tls,
                server_name=assignment.server_name,
            )
            for base in assignment.bases
        ]
    )
