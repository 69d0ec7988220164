"""The processes of one worker as one: what `Load` is for a single process.

The first process only leads: it talks to the operator, gives the commands on and merges the
results, so that no core of the load is shared with anything else. All processes hear of a start in
the same turn of the event loop; how far apart they began is measured on the machine's one monotonic
clock and stands in the result.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from tare.measure.merge import merge_processes, merge_progress
from tare.measure.messages import Command, CommandKind, WorkerState
from tare.worker.channel import Channel
from tare.worker.mate import Report
from tare.worker.orders import OrderError

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterable, Sequence

    from tare.measure.messages import Progress, WorkerResult
    from tare.worker.mate import Hired
    from tare.worker.orders import Assignment

__all__ = ["Crew", "CrewError", "dismiss"]

_FAREWELL = 2.0
"""Seconds in which a process whose socket is closed must have ended."""


class CrewError(Exception):
    """A process of the worker is gone: its share of the load is lost."""


class Crew:
    """Leads several processes through the phases of an assignment."""

    def __init__(self, assignment: Assignment, channels: Sequence[Channel]) -> None:
        self._assignment = assignment
        self._mates = [_Mate(number, channel) for number, channel in enumerate(channels)]
        self._changed = asyncio.Event()
        self._running = -1
        """The phase that was started last."""
        self._on_sent: dict[int, Callable[[], None]] = {}
        self._on_drained: dict[int, Callable[[], None]] = {}
        self._began: defaultdict[int, list[int]] = defaultdict(list)
        self._finishing = False
        self.stopped = False
        """Told to stop: nothing will be sent any more."""
        self.dataset: dict[str, Any] = {}
        """Compact description for the operator."""
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Gets a `CrewError` when a process ends too early."""
        self._listening = [asyncio.create_task(self._listen(mate)) for mate in self._mates]

    @classmethod
    async def muster(cls, assignment: Assignment, sockets: Iterable[socket.socket]) -> Self:
        """Wait until every process has loaded its dataset.

        Raises:
            OrderError: the order cannot be followed.
            CrewError: a process ended.
        """
        crew = cls(assignment, [await Channel.over(sock) for sock in sockets])
        await crew._until(lambda mate: mate.report is not None)
        for mate in crew._mates:
            assert mate.report is not None
            if mate.report.problem:
                raise OrderError(mate.report.problem)
        first = crew._mates[0].report
        crew.dataset = dict(first.dataset) if first else {}
        return crew

    @property
    def phases(self) -> int:
        """Number of phases."""
        return len(self._assignment.order.phases)

    async def prepare(self, phase: int) -> None:
        """Have every process open, or renew, the connections that `phase` begins with."""
        if self.stopped:
            return
        self._tell(CommandKind.PREPARE, phase)
        await self._until(lambda mate: mate.is_in(WorkerState.READY, phase) or self.stopped)

    @property
    def drained(self) -> int:
        """Highest phase up to which every request of every process has ended."""
        return min(mate.drained for mate in self._mates)

    def start(
        self,
        phase: int,
        on_drained: Callable[[], None],
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        """Begin `phase`; part of `lifecycle.Carrier`, for all processes together."""
        self._running, self._on_drained[phase] = phase, on_drained
        if on_sent is not None:
            self._on_sent[phase] = on_sent
        self._tell(CommandKind.START, phase)

    def stop(self) -> None:
        """Have nothing more sent, and what is in flight cancelled; `collect` waits for that."""
        if not self.stopped:
            self.stopped = True
            self._changed.set()
            if not self._finishing:
                self._tell(CommandKind.STOP)

    def progress(self) -> Progress | None:
        """Return how far the phase is that was started last, as the processes said last."""
        known = (mate.progress for mate in self._mates)
        parts = [part for part in known if part is not None and part.phase == self._running]
        if not self._on_drained or not parts:
            return None
        return merge_progress(self._assignment.identity, parts)

    async def collect(self) -> WorkerResult:
        """Return the merged result; no phase is running any more.

        Raises:
            CrewError: a process ended without its result.
        """
        if not self.stopped and not self._finishing:
            self._finishing = True
            self._tell(CommandKind.FINISH)
        await self._until(lambda mate: mate.result is not None)
        results = [mate.result for mate in self._mates if mate.result is not None]
        merged = merge_processes(self._assignment.identity, results)
        phases = (
            replace(phase, start_skew=self._skew(number))
            for number, phase in enumerate(merged.phases)
        )
        return replace(merged, phases=tuple(phases))

    def close(self) -> None:
        """Let the processes end."""
        for task in self._listening:
            task.cancel()
        for mate in self._mates:
            mate.channel.close()

    def _tell(self, do: CommandKind, phase: int = -1) -> None:
        for mate in self._mates:
            mate.channel.send(Command(do=do, phase=phase))

    async def _listen(self, mate: _Mate) -> None:
        while (report := await mate.channel.receive(Report)) is not None:
            self._take(mate, report)
            self._changed.set()
        if mate.result is None and not self.lost.done():
            self.lost.set_exception(
                CrewError(f"process {mate.number} of {len(self._mates)} ended before its result")
            )

    def _take(self, mate: _Mate, report: Report) -> None:
        mate.report = report
        mate.progress = report.progress or mate.progress
        mate.result = report.result or mate.result
        if report.began_at:
            self._began[report.phase].append(report.began_at)
        sent = all(known.is_in(WorkerState.SENT, self._running) for known in self._mates)
        if sent and (on_sent := self._on_sent.pop(self._running, None)) is not None:
            on_sent()
        for done in [phase for phase in self._on_drained if phase <= self.drained]:
            self._on_drained.pop(done)()

    async def _until(self, holds: Callable[[_Mate], bool]) -> None:
        """Return when something holds of every process."""
        while not all(map(holds, self._mates)):
            self._changed.clear()
            changed = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait((changed, self.lost), return_when=asyncio.FIRST_COMPLETED)
            finally:
                changed.cancel()
            if self.lost.done():
                self.lost.result()

    def _skew(self, phase: int) -> float:
        moments = self._began[phase]
        return (max(moments) - min(moments)) / 1e9 if moments else 0.0


class _Mate:
    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.channel = channel
        self.report: Report | None = None
        self.progress: Progress | None = None
        self.result: WorkerResult | None = None

    @property
    def drained(self) -> int:
        return self.report.drained if self.report is not None else -1

    def is_in(self, state: WorkerState, phase: int) -> bool:
        report = self.report
        return report is not None and (report.state, report.phase) == (state, phase)


def dismiss(hired: Iterable[Hired]) -> None:
    """Wait for the forked processes, whose sockets are closed; kill those that do not end."""
    deadline = time.monotonic() + _FAREWELL
    for mate in hired:
        mate.sock.close()
        while os.waitpid(mate.pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > deadline:
                os.kill(mate.pid, signal.SIGKILL)
                os.waitpid(mate.pid, 0)
                break
            time.sleep(0.005)
