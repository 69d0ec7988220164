"""The attempt book: what the workers of one run said last, and what they are asked to do.

Memory only. After a restart it fills again, since every worker says with each message where it is.
A command is a standing order to an attempt, not a message: a worker that asks later, or again, gets
it as long as it applies to its state. That makes lost answers harmless.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tare.decide.children import TrialKey
from tare.decide.facts import WorkerView
from tare.measure.messages import (
    Command,
    CommandKind,
    Identity,
    Progress,
    Register,
    Wait,
    WorkerResult,
    WorkerState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tare.telemetry.clock import Clock

__all__ = ["AttemptBook", "AttemptOverError", "IndexTakenError", "UnknownWorkerError", "applies"]

HOLD = 20.0
"""Seconds that a request of a worker is held open; proxies cut idle ones after 30 or 60."""
_IDLE = Command(do=CommandKind.IDLE)
_IN_FLIGHT = (WorkerState.RUNNING, WorkerState.SENT)


class AttemptOverError(Exception):
    """The attempt is neither under way nor next: its workers may end."""


class IndexTakenError(Exception):
    """Another pod holds this index: a Job controller may start a pod twice."""


class UnknownWorkerError(Exception):
    """The worker never registered with this process; it registers again and goes on."""


@dataclass(slots=True, kw_only=True)
class _Entry:
    who: Identity
    state: WorkerState
    phase: int
    heard: float
    drained: int = -1
    round_trip: float = 0.0
    progress: Progress | None = None
    result: WorkerResult | None = None
    held: asyncio.Future[Command] | None = None

    def take(self, said: Register | Wait, now: float) -> bool:
        """Note where the worker is; True when that is news."""
        before = (self.state, self.phase, self.drained)
        self.state, self.phase, self.drained = said.state, said.phase, said.drained
        self.heard = now
        return (self.state, self.phase, self.drained) != before


@dataclass(slots=True)
class _Attempt:
    workers: dict[int, _Entry] = field(default_factory=dict)
    command: Command = _IDLE
    released: dict[int, dict[int, float]] = field(default_factory=dict)
    """Phase to worker to the moment at which its start was sent."""
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    dataset: Mapping[str, Any] = field(default_factory=dict)
    """As the first worker described it."""


def applies(command: Command, state: WorkerState, phase: int) -> bool:
    """Whether a worker in `state` of `phase` has still to follow `command`."""
    match command.do:
        case CommandKind.PREPARE:
            if state is WorkerState.WAITING:
                return True
            return state in (WorkerState.READY, WorkerState.DRAINED) and phase < command.phase
        case CommandKind.START:
            if state is WorkerState.SENT:
                return phase + 1 == command.phase
            return state is WorkerState.READY and phase == command.phase
        case CommandKind.FINISH:
            return state is WorkerState.DRAINED
        case CommandKind.STOP:
            return state is not WorkerState.STOPPED
        case CommandKind.IDLE:
            return False


class AttemptBook:
    """Workers and commands of one run."""

    def __init__(self, clock: Clock, on_change: Callable[[], None]) -> None:
        self._clock = clock
        self._on_change = on_change
        self._attempts: dict[TrialKey, _Attempt] = {}
        self._expected: frozenset[TrialKey] | None = None

    def expect(self, keys: Iterable[TrialKey]) -> None:
        """Say which attempts are under way or next; workers of others are sent home."""
        self._expected = frozenset(keys)

    @property
    def informed(self) -> bool:
        """The driver has said at least once which attempts it expects."""
        return self._expected is not None

    def register(self, message: Register) -> None:
        """Take a worker in, again after a restart.

        Raises:
            AttemptOverError: nobody waits for its attempt.
            IndexTakenError: another pod holds its index, and may send load.
        """
        who = message.worker
        key = _key(who)
        if self._expected is not None and key not in self._expected:
            raise AttemptOverError
        attempt = self._attempts.setdefault(key, _Attempt())
        attempt.dataset = attempt.dataset or message.dataset
        known = attempt.workers.get(who.index)
        if known is not None and known.who.pod_uid != who.pod_uid:
            if known.state is not WorkerState.STOPPED:
                raise IndexTakenError
            known = None  # it has said goodbye, and its Job was created again
        if known is None:
            known = _Entry(
                who=who, state=message.state, phase=message.phase, heard=self._clock.now()
            )
            attempt.workers[who.index] = known
        known.take(message, self._clock.now())
        self._on_change()

    async def wait(self, message: Wait) -> Command:
        """Hold the worker's request until a command applies to it."""
        entry = self._entry(message.worker)
        changed = entry.take(message, self._clock.now())
        entry.round_trip = message.round_trip
        if entry.held is not None and not entry.held.done():
            entry.held.set_result(_IDLE)
        if changed:
            self._on_change()
        command = self._attempts[_key(entry.who)].command
        if not applies(command, entry.state, entry.phase):
            command = await self._hold(entry)
        if command.do is CommandKind.START:
            self._note_release(entry, command.phase)
        return command

    def progress(self, message: Progress) -> None:
        """Keep the newest progress of a worker."""
        entry = self._entry(message.worker)
        entry.heard = self._clock.now()
        entry.progress = message
        self._on_change()

    async def result(self, message: WorkerResult) -> bool:
        """Keep a worker's result, then say whether it is stored; the first one counts."""
        entry = self._entry(message.worker)
        entry.heard = self._clock.now()
        if entry.result is None:
            entry.result = message
            self._on_change()
        stored = self._attempts[_key(entry.who)].stored
        try:
            async with asyncio.timeout(HOLD):
                await stored.wait()
        except TimeoutError:
            entry.heard = self._clock.now()
        return stored.is_set()

    def command(self, key: TrialKey, command: Command) -> None:
        """Give an attempt its standing order and release all workers to whom it applies."""
        attempt = self._attempts.setdefault(key, _Attempt())
        attempt.command = command
        for entry in attempt.workers.values():
            held = entry.held
            if held and not held.done() and applies(command, entry.state, entry.phase):
                held.set_result(command)

    def mark_stored(self, key: TrialKey) -> None:
        """Every result of the attempt lies in a ConfigMap."""
        self._attempts.setdefault(key, _Attempt()).stored.set()

    def results(self, key: TrialKey) -> list[WorkerResult]:
        """Results that the attempt's workers have handed in, by index."""
        attempt = self._attempts.get(key)
        entries = sorted(attempt.workers.items()) if attempt else ()
        return [entry.result for _, entry in entries if entry.result is not None]

    def running(self, key: TrialKey) -> list[Progress]:
        """The newest progress of each worker of the attempt that is in a phase now."""
        attempt = self._attempts.get(key)
        entries = attempt.workers.values() if attempt else ()
        return [progress for entry in entries if (progress := _running(entry)) is not None]

    def start_skew(self, key: TrialKey) -> dict[int, float]:
        """Seconds by phase within which all workers of the attempt started, at most.

        The spread of the moments at which the starts were sent, plus the slowest worker's round
        trip; no clock of another pod is involved. Of a phase that was started by an earlier process
        nothing is known.
        """
        attempt = self._attempts.get(key)
        if attempt is None:
            return {}
        trip = max((entry.round_trip for entry in attempt.workers.values()), default=0.0)
        return {
            phase: max(sent.values()) - min(sent.values()) + trip
            for phase, sent in attempt.released.items()
            if len(sent) == len(attempt.workers)
        }

    def views(self) -> dict[TrialKey, dict[int, WorkerView]]:
        """What `decide` looks at."""
        now = self._clock.now()
        return {
            key: {index: _view(entry, now) for index, entry in attempt.workers.items()}
            for key, attempt in self._attempts.items()
            if attempt.workers
        }

    def drop(self, keep: Iterable[TrialKey]) -> None:
        """Forget attempts that are over and whose workers were told so."""
        kept = set(keep)
        for key in [key for key in self._attempts if key not in kept]:
            self._attempts.pop(key).stored.set()

    def dataset(self, key: TrialKey) -> Mapping[str, Any]:
        """What the workers of an attempt send, as they described it; empty before they did."""
        attempt = self._attempts.get(key)
        return attempt.dataset if attempt is not None else {}

    @property
    def connected(self) -> int:
        """Workers that hold a request open now."""
        return sum(
            entry.held is not None and not entry.held.done()
            for attempt in self._attempts.values()
            for entry in attempt.workers.values()
        )

    async def _hold(self, entry: _Entry) -> Command:
        held: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        entry.held = held
        try:
            async with asyncio.timeout(HOLD):
                return await held
        except TimeoutError:
            return _IDLE
        finally:
            entry.heard = self._clock.now()
            if entry.held is held:
                entry.held = None

    def _entry(self, who: Identity) -> _Entry:
        attempt = self._attempts.get(_key(who))
        entry = attempt.workers.get(who.index) if attempt else None
        if entry is None:
            if self._expected is not None and _key(who) not in self._expected:
                raise AttemptOverError
            raise UnknownWorkerError
        if entry.who.pod_uid != who.pod_uid:
            raise IndexTakenError
        return entry

    def _note_release(self, entry: _Entry, phase: int) -> None:
        released = self._attempts[_key(entry.who)].released.setdefault(phase, {})
        released.setdefault(entry.who.index, self._clock.now())


def _key(who: Identity) -> TrialKey:
    return TrialKey(who.cell, who.trial, who.attempt)


def _running(entry: _Entry) -> Progress | None:
    """Progress of the phase that was started last; the last report may be of the one before."""
    progress = entry.progress
    if progress is None or progress.phase != entry.phase or entry.state not in _IN_FLIGHT:
        return None
    return progress


def _view(entry: _Entry, now: float) -> WorkerView:
    running = _running(entry)
    return WorkerView(
        index=entry.who.index,
        pod_uid=entry.who.pod_uid,
        pod_name=entry.who.pod_name,
        state=entry.state,
        phase=entry.phase,
        drained=entry.drained,
        silent=0.0 if entry.held is not None else now - entry.heard,
        has_result=entry.result is not None,
        issued=running.issued if running else 0,
        failed=running.failed if running else 0,
    )
