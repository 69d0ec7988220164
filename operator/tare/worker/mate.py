"""One process of a worker that has several: it carries its share and follows the first process.

It is forked before any event loop exists and never talks to the operator. When its socket closes
it ends: whoever led it is gone. Signals of a terminal reach every process of a group, so they are
ignored here; the first process says what to do.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic_ns
from typing import TYPE_CHECKING, Any

import uvloop

from tare.measure.messages import Command, CommandKind, Progress, WorkerResult, WorkerState
from tare.worker.channel import Channel
from tare.worker.load import Load
from tare.worker.orders import OrderError
from tare.worker.tokenizing import sizes_for

if TYPE_CHECKING:
    from tare.worker.orders import Assignment

__all__ = ["Hired", "Report", "follow", "hire", "share_of_process"]

_PROGRESS_PERIOD = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hired:
    """A process that was forked, as its parent knows it."""

    number: int
    pid: int
    sock: socket.socket


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What a process says of itself."""

    state: WorkerState
    phase: int = -1
    drained: int = -1
    """Highest phase up to which every request of this process has ended."""
    began_at: int = 0
    """When it started `phase`, in nanoseconds of the machine's monotonic clock."""
    dataset: Mapping[str, Any] = field(default_factory=dict)
    progress: Progress | None = None
    result: WorkerResult | None = None
    problem: str = ""
    """Why the order cannot be followed."""


def hire(assignment: Assignment) -> list[Hired]:
    """Fork the processes that the order asks for; call it before there is an event loop."""
    hired: list[Hired] = []
    for number in range(assignment.order.processes):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            ours.close()
            for other in hired:
                other.sock.close()
            _live(theirs, share_of_process(assignment, number))
        theirs.close()
        hired.append(Hired(number=number, pid=pid, sock=ours))
    return hired


def share_of_process(assignment: Assignment, number: int) -> Assignment:
    """Return what process `number` of a worker carries: processes count as workers."""
    order, identity = assignment.order, assignment.identity
    return replace(
        assignment,
        order=replace(order, workers=order.workers * order.processes, processes=1),
        identity=replace(identity, index=identity.index * order.processes + number),
    )


async def follow(sock: socket.socket, assignment: Assignment) -> None:
    """Carry the share of `assignment` as told over `sock`, until that is closed."""
    channel = await Channel.over(sock)
    try:
        load = Load(assignment, await sizes_for(assignment))
    except OrderError as error:
        channel.send(Report(state=WorkerState.STOPPED, problem=str(error)))
        await channel.receive(Command)
        return
    channel.send(Report(state=WorkerState.WAITING, dataset=load.dataset))
    follower = _Follower(channel, load)
    try:
        while (command := await channel.receive(Command)) is not None:
            follower.obey(command)
    finally:
        follower.rest()
        channel.close()


class _Follower:
    """What a process does and says; `sent` comes before it is asked for the next connections."""

    def __init__(self, channel: Channel, load: Load) -> None:
        self._channel = channel
        self._load = load
        self._state = WorkerState.WAITING
        self._phase = -1
        self._preparing: asyncio.Task[None] | None = None
        self._reporting: asyncio.Task[None] | None = None
        """How far the phase is that was started last."""

    def obey(self, command: Command) -> None:
        match command.do:
            case CommandKind.PREPARE:
                self._cancel(self._preparing)
                self._preparing = asyncio.create_task(self._prepare(command.phase))
            case CommandKind.START:
                self._start(command.phase)
            case CommandKind.FINISH | CommandKind.STOP:
                self.rest()
                self._become(WorkerState.STOPPED, -1, result=self._load.result())
            case CommandKind.IDLE:
                pass

    def rest(self) -> None:
        self._cancel(self._preparing)
        self._cancel(self._reporting)
        self._load.stop()

    async def _prepare(self, phase: int) -> None:
        await self._load.prepare(phase)
        self._become(WorkerState.READY, phase)

    def _start(self, phase: int) -> None:
        self._cancel(self._preparing)
        self._cancel(self._reporting)
        self._reporting = asyncio.create_task(self._report())
        self._state, self._phase = WorkerState.RUNNING, phase
        began_at = monotonic_ns()
        self._load.start(
            phase,
            lambda: self._drained(phase),
            lambda: self._become(WorkerState.SENT, phase),
        )
        self._say(began_at=began_at)

    def _drained(self, phase: int) -> None:
        if phase == self._phase and self._state is WorkerState.RUNNING:
            self._cancel(self._reporting)
            self._state = WorkerState.DRAINED
        self._say()

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_PERIOD)
            if (progress := self._load.progress()) is not None:
                self._say(progress=progress)

    def _become(self, state: WorkerState, phase: int, **more: Any) -> None:
        self._state, self._phase = state, phase
        self._say(**more)

    def _say(self, **more: Any) -> None:
        report = Report(state=self._state, phase=self._phase, drained=self._load.drained, **more)
        self._channel.send(report)

    @staticmethod
    def _cancel(task: asyncio.Task[None] | None) -> None:
        if task is not None:
            task.cancel()


def _live(sock: socket.socket, assignment: Assignment) -> None:
    """Be the forked process, and leave nothing of the parent's to be cleaned up twice."""
    code = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(follow(sock, assignment))
        code = 0
    except BaseException:  # noqa: BLE001 - a forked process must never return to its parent's code
        traceback.print_exc()
    finally:
        os._exit(code)
