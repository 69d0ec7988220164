"""A worker's life under an operator: register, wait, prepare, run, hand the result in.

One request for the next command is open at all times, while load is sent too, so that a stop
arrives within milliseconds. The worker says what is so, never what happened: when its state
changes it asks again with the new state, and an operator that has restarted finds out from that
where the worker is. A command that is already followed changes nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import TYPE_CHECKING, Any, Protocol, assert_never

from tare.measure.messages import Command, CommandKind, Register, Wait, WorkerState
from tare.worker.inbox import AttemptOverError, AwayError, RefusedError, UnknownWorkerError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from tare.measure.messages import Identity, Progress, WorkerResult
    from tare.worker.inbox import Inbox

__all__ = ["EXIT_DONE", "EXIT_FAILED", "EXIT_TERMINATED", "Carrier", "Lifecycle"]

_LOG = logging.getLogger(__name__)

EXIT_DONE = 0
EXIT_FAILED = 1
EXIT_TERMINATED = 143
"""What a shell reports for a process that SIGTERM ended."""

_REGISTER_PATIENCE = 90.0
_AWAY_PATIENCE = 180.0
_FAREWELL = 1.5
"""Seconds that a terminated worker takes at most to hand in what it has."""
_PROGRESS_PERIOD = 1.0
_RENEW_PERIOD = 1.5
_CALM = 0.05
"""Pause after an answer that came at once and changed nothing."""
_PREPARED_OR_OVER = (WorkerState.RUNNING, WorkerState.SENT, WorkerState.STOPPED)
"""States in which connections are opened without being asked for, or not any more."""


class Carrier(Protocol):
    """What carries the load: this process (`Load`) or several (`Crew`)."""

    @property
    def dataset(self) -> Mapping[str, Any]:
        """Compact description of the prompts."""
        ...

    @property
    def drained(self) -> int:
        """Highest phase up to which every request has ended; -1 for none."""
        ...

    async def prepare(self, phase: int) -> None:
        """Open, or renew, the connections that `phase` begins with."""
        ...

    def start(
        self,
        phase: int,
        on_drained: Callable[[], None],
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        """Begin `phase`, while answers of a seamless one before it may be awaited still.

        `on_sent` is called when a seamless phase sends nothing more, and `on_drained` when every
        request of this phase and of those before it has ended.
        """
        ...

    def stop(self) -> None:
        """Send nothing more and cancel what is in flight."""
        ...

    def progress(self) -> Progress | None:
        """Return how far the phase is that was started last; None when it has ended."""
        ...

    async def collect(self) -> WorkerResult:
        """Return what was measured, once nothing is in flight; the same one every time."""
        ...


class Lifecycle:
    """Leads a `Carrier` by the commands of an `Inbox`."""

    def __init__(self, identity: Identity, load: Carrier, inbox: Inbox) -> None:
        self._identity = identity
        self._load = load
        self._inbox = inbox
        self._state = WorkerState.WAITING
        self._phase = -1
        self._passing_on = False
        """A seamless phase was sent; connections for the next one are being opened."""
        self._halted = False
        self._terminating: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asking: asyncio.Task[Command] | None = None
        self._quick = False
        """The last answer was not held."""
        self._offering: asyncio.Task[None] | None = None
        self._beside: list[asyncio.Task[None]] = []
        """Progress while a phase runs, renewing of connections while one may start."""

    async def run(self) -> int:
        """Live until the end; return the exit code.

        Raises:
            AwayError: the operator was away for too long.
            RefusedError: the operator does not want this worker.
        """
        try:
            if not await self._arrive():
                return EXIT_TERMINATED
            while not self._terminating.done():
                command = await self._next_command()
                if self._offering is not None and self._offering.done():
                    self._offering.result()
                    return EXIT_DONE
                if command is not None:
                    await self._follow(command)
            await self._say_farewell()
        except AttemptOverError:
            return EXIT_TERMINATED if self._terminating.done() else EXIT_DONE
        finally:
            self._load.stop()
            self._set_beside()
            for task in (self._asking, self._offering):
                if task is not None:
                    task.cancel()
        return EXIT_TERMINATED

    def terminate(self) -> None:
        """Stop the load at once and come to an end; for a signal handler."""
        if not self._terminating.done():
            _LOG.info("told to end by a signal")
            self._terminating.set_result(None)
            self._halt()

    async def _arrive(self) -> bool:
        """Register; False when the worker was terminated before the operator answered."""
        registering = asyncio.create_task(self._register(_REGISTER_PATIENCE))
        await asyncio.wait((registering, self._terminating), return_when=asyncio.FIRST_COMPLETED)
        if not registering.done():
            registering.cancel()
            return False
        registering.result()
        _LOG.info("worker %d is registered", self._identity.index)
        return True

    async def _next_command(self) -> Command | None:
        """Ask until there is an answer; None when something else needs attention first."""
        waiting: set[asyncio.Future[Any]] = {self._terminating}
        if self._offering is not None:
            waiting.add(self._offering)
        if self._offering is None or self._state is WorkerState.STOPPED:
            # After `finish` there is nothing more to be told.
            self._asking = asyncio.create_task(self._ask())
            waiting.add(self._asking)
        asked_at = time.monotonic()
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        self._quick = time.monotonic() - asked_at < _CALM
        asking, self._asking = self._asking, None
        if asking is None or asking.cancelled():
            return None
        if not asking.done():
            asking.cancel()
            return None
        return asking.result()

    async def _ask(self) -> Command:
        try:
            return await self._inbox.wait(
                Wait(
                    worker=self._identity,
                    state=self._state,
                    phase=self._phase,
                    drained=self._load.drained,
                    round_trip=self._inbox.round_trip,
                ),
                patience=_AWAY_PATIENCE,
            )
        except UnknownWorkerError:
            await self._register(_AWAY_PATIENCE)
            return Command(do=CommandKind.IDLE)

    async def _register(self, patience: float) -> None:
        message = Register(
            worker=self._identity,
            state=self._state,
            phase=self._phase,
            drained=self._load.drained,
            dataset=self._load.dataset,
        )
        try:
            await self._inbox.register(message, patience=patience)
        except UnknownWorkerError as error:
            raise RefusedError(str(error)) from error

    async def _follow(self, command: Command) -> None:
        before = (self._state, self._phase)
        match command.do:
            case CommandKind.IDLE:
                pass
            case CommandKind.PREPARE:
                await self._prepare(command.phase)
            case CommandKind.START:
                self._start(command.phase)
            case CommandKind.FINISH:
                if self._state is WorkerState.DRAINED:
                    self._begin_offering()
            case CommandKind.STOP:
                await self._stop()
                self._begin_offering()
            case _:
                assert_never(command.do)
        if (self._state, self._phase) != before:
            # After the phase was started: a line takes as long as several requests.
            _LOG.info("phase %d: %s", self._phase, self._state)
        elif self._quick:
            await asyncio.sleep(_CALM)

    def _begin_offering(self) -> asyncio.Task[None]:
        if self._offering is None:
            self._offering = asyncio.create_task(self._offer())
        return self._offering

    async def _prepare(self, phase: int) -> None:
        if self._state in _PREPARED_OR_OVER or phase < self._phase:
            return
        if self._state is WorkerState.DRAINED and phase == self._phase:
            return
        await self._load.prepare(phase)
        if not self._terminating.done():
            self._become(WorkerState.READY, phase)
            self._set_beside(self._keep_fresh(phase))

    def _start(self, phase: int) -> None:
        begun = self._phase + 1 if self._state is WorkerState.SENT else self._phase
        if self._state not in (WorkerState.READY, WorkerState.SENT) or phase != begun:
            return
        self._passing_on = False
        self._become(WorkerState.RUNNING, phase)
        self._set_beside(self._report())
        self._load.start(phase, lambda: self._drained(phase), self._sent)

    def _sent(self) -> None:
        """Be ready for the next phase, and only then say so."""
        if not self._halted:
            self._passing_on = True
            self._set_beside(self._report(), self._pass_on(self._phase))

    async def _pass_on(self, phase: int) -> None:
        await self._load.prepare(phase + 1)
        self._become(WorkerState.SENT, phase)
        _LOG.info("phase %d: %s", phase, self._state)
        await self._keep_fresh(phase + 1)

    def _drained(self, phase: int) -> None:
        if self._halted:
            return
        if phase < self._phase or self._passing_on:
            _LOG.info("phase %d: drained", phase)
            self._become(self._state, self._phase)
        else:
            self._set_beside()
            self._become(WorkerState.DRAINED, phase)
            _LOG.info("phase %d: %s", phase, self._state)

    def _halt(self) -> None:
        self._halted = True
        self._set_beside()
        self._load.stop()

    async def _stop(self) -> None:
        """Stop for good, and say so once nothing is in flight."""
        self._halt()
        await self._load.collect()
        self._become(WorkerState.STOPPED, self._phase)

    def _become(self, state: WorkerState, phase: int) -> None:
        """Say where this worker is now: ask again, with that."""
        self._state, self._phase = state, phase
        if self._asking is not None:
            self._asking.cancel()

    def _set_beside(self, *work: Coroutine[None, None, None]) -> None:
        for task in self._beside:
            task.cancel()
        self._beside = [asyncio.create_task(each) for each in work]

    async def _keep_fresh(self, phase: int) -> None:
        """Renew connections while waiting at the gate: servers close idle ones after 5 s."""
        while True:
            await asyncio.sleep(_RENEW_PERIOD)
            await self._load.prepare(phase)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(_PROGRESS_PERIOD)
            progress = self._load.progress()
            if progress is not None:
                await self._inbox.progress(progress)

    async def _offer(self) -> None:
        """Hand the result in until it is stored."""
        result = await self._load.collect()
        while True:
            try:
                if await self._inbox.offer(result, patience=_AWAY_PATIENCE):
                    _LOG.info("the result is stored")
                    return
            except UnknownWorkerError:
                await self._register(_AWAY_PATIENCE)
            await asyncio.sleep(_CALM)

    async def _say_farewell(self) -> None:
        """Say `stopped` and hand in what there is, within a moment."""
        stopped: asyncio.Task[Command] | None = None
        with contextlib.suppress(TimeoutError, AwayError, RefusedError, AttemptOverError):
            async with asyncio.timeout(_FAREWELL):
                await self._stop()
                stopped = asyncio.create_task(self._ask())
                await self._begin_offering()
        if stopped is not None:
            stopped.cancel()
            with contextlib.suppress(asyncio.CancelledError, AwayError, RefusedError):
                await stopped
