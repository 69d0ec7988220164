"""One attempt at one trial, as it must survive a restart: `status.current`.

Written before the action that it announces: a profiler start is recorded before its first POST, a
confirmed reset before the gate opens. What is not here can be found out again from the Jobs, the
pods and the workers themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, Reason
from tare.api.status import MESSAGE_LIMIT
from tare.decide.children import TrialKey
from tare.measure.hooks import Replica, identity
from tare.measure.servers import ServerCounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "Attempt",
    "ProfilerMark",
    "ProfilerState",
    "ResetMark",
    "ResetState",
    "Verdict",
    "weakest",
]


class ResetState(StrEnum):
    """What is known about the cache after a reset."""

    OFF = "Off"
    PROVEN = "Proven"
    """On every replica a prompt found its tokens before the reset and none after it."""
    CONFIRMED = "Confirmed"
    """Every replica said that it was done."""
    UNVERIFIED = "Unverified"
    INCOMPLETE = "Incomplete"
    """A replica still found tokens from before the reset."""


_WEAKEST_FIRST = (
    ResetState.INCOMPLETE,
    ResetState.UNVERIFIED,
    ResetState.OFF,
    ResetState.CONFIRMED,
    ResetState.PROVEN,
)


_EXACT = 2.0**53
"""From here on a float skips whole numbers."""


def weakest(states: Iterable[str]) -> ResetState:
    """Return the state that promises least; Off when there is none."""
    found = set(states)
    return next((state for state in _WEAKEST_FIRST if state in found), ResetState.OFF)


class ProfilerState(StrEnum):
    """Whether a server profiler may be running."""

    STARTING = "Starting"
    RUNNING = "Running"
    STOPPED = "Stopped"
    STOP_FAILED = "StopFailed"

    @property
    def may_run(self) -> bool:
        """True from the intent to start until a stop was tried."""
        return self in (ProfilerState.STARTING, ProfilerState.RUNNING)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetMark:
    """Outcome of a reset of this attempt."""

    state: ResetState
    message: str = ""
    phase: int = -1
    """Index of the phase that it came before; -1 for the one before the first gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerMark:
    """The last profiler intent of this attempt."""

    state: ProfilerState
    phase: int
    """Index of the first profiling phase that it covers."""
    last: int
    """Index of the last one: it runs on until that, and so every phase before it, has drained."""
    message: str = ""
    started: float | None = None
    """Epoch seconds at which every start was answered; `maxSeconds` counts from here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How the attempt ends; from here on it is only closed."""

    state: CellState
    reason: Reason
    message: str
    at: float
    """Epoch seconds; closing gives silent workers a few seconds from here."""
    again: bool = False
    """The trial is attempted once more."""
    fatal: bool = False
    """The whole run ends: nothing was measured yet and waiting cannot help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """The attempt that owns the target now."""

    key: TrialKey
    started: float
    """Epoch seconds of its first pass."""
    spawned: float | None = None
    """Epoch seconds at which its Job was asked for; the workers' deadline counts from here."""
    faults: int = 0
    """Attempts at this trial that were lost by a fault (not by an operator restart)."""
    replicas: tuple[Replica, ...] | None = None
    """The target's replicas before the reset; must be the same after the drain."""
    reset_servers: tuple[Replica, ...] | None = None
    """Servers that are reset, where they are not the replicas."""
    profiler_servers: tuple[Replica, ...] | None = None
    """Servers that are profiled, where they are not the replicas."""
    servers: tuple[ServerCounts, ...] | None = None
    """What the replicas told before the first gate and, once there is a verdict, after the last
    drain; None where an older operator did not write it down."""
    start_skew: Mapping[str, float] = field(default_factory=dict)
    """Seconds by phase within which its workers started; without phases of which no operator lived
    to write it down."""
    reset: ResetMark | None = None
    before_profiling: ResetMark | None = None
    """The last reset between warm-up and profiling; the state is the weakest of all such."""
    profiler: ProfilerMark | None = None
    verdict: Verdict | None = None

    @property
    def may_profile(self) -> bool:
        """A server profiler may be running because of this attempt."""
        return self.profiler is not None and self.profiler.state.may_run

    @property
    def identity(self) -> tuple[tuple[str, ...], ...]:
        """The servers of this attempt, as `Replicas.identity` says it."""
        return identity(self.replicas, self.reset_servers, self.profiler_servers)

    @property
    def profiled(self) -> tuple[Replica, ...]:
        """Servers on which the profiler is started and stopped."""
        return (self.replicas or ()) if self.profiler_servers is None else self.profiler_servers

    def next(self, now: float, *, fault: bool) -> Attempt:
        """The attempt after this one at the same trial."""
        key = replace(self.key, attempt=self.key.attempt + 1)
        return Attempt(key=key, started=now, faults=self.faults + fault)

    def to_json(self) -> dict[str, Any]:
        """Encode as `status.current`; messages are cut to what the CRD takes."""
        document: dict[str, Any] = {
            "cell": self.key.cell,
            "trial": self.key.trial,
            "attempt": self.key.attempt,
            "faults": self.faults,
            "startedAt": self.started,
        }
        if self.spawned is not None:
            document["spawnedAt"] = self.spawned
        for name, servers in (
            ("replicas", self.replicas),
            ("resetServers", self.reset_servers),
            ("profilerServers", self.profiler_servers),
        ):
            if servers is not None:
                document[name] = [
                    {"uid": r.uid, "name": r.name, "origin": r.origin} for r in servers
                ]
        optional = {
            "servers": None if self.servers is None else [_server_to_json(s) for s in self.servers],
            "startSkew": dict(self.start_skew) or None,
            "reset": self.reset and _reset_to_json(self.reset),
            "resetBeforeProfiling": self.before_profiling and _reset_to_json(self.before_profiling),
            "profiler": self.profiler and _profiler_to_json(self.profiler),
            "verdict": self.verdict and _verdict_to_json(self.verdict),
        }
        document |= {name: value for name, value in optional.items() if value is not None}
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Attempt | None:
        """Decode `status.current`; None when no attempt is under way."""
        if not document:
            return None
        profiler, verdict = document.get("profiler"), document.get("verdict")
        return cls(
            key=TrialKey(document["cell"], document["trial"], document["attempt"]),
            started=document["startedAt"],
            spawned=document.get("spawnedAt"),
            faults=document.get("faults", 0),
            replicas=_replicas(document.get("replicas")),
            reset_servers=_replicas(document.get("resetServers")),
            profiler_servers=_replicas(document.get("profilerServers")),
            servers=_servers(document.get("servers")),
            start_skew=document.get("startSkew") or {},
            reset=_reset(document.get("reset")),
            before_profiling=_reset(document.get("resetBeforeProfiling")),
            profiler=ProfilerMark(
                state=ProfilerState(profiler["state"]),
                phase=profiler["phase"],
                last=profiler.get("lastPhase", profiler["phase"]),
                message=profiler.get("message", ""),
                started=profiler.get("startedAt"),
            )
            if profiler
            else None,
            verdict=_verdict(verdict) if verdict else None,
        )


def _replicas(rows: Sequence[Mapping[str, Any]] | None) -> tuple[Replica, ...] | None:
    return None if rows is None else tuple(Replica(**row) for row in rows)


def _server_to_json(server: ServerCounts) -> dict[str, Any]:
    document: dict[str, Any] = {"name": server.replica}
    for end, told in (("before", server.before), ("after", server.after)):
        if told:
            document[end] = {name: _number(value) for name, value in told.items()}
    return document


def _number(value: float) -> float:
    """Write whole numbers as such: counters are, though Prometheus has floats."""
    return int(value) if value == int(value) and abs(value) < _EXACT else value


def _servers(rows: Sequence[Mapping[str, Any]] | None) -> tuple[ServerCounts, ...] | None:
    if rows is None:
        return None
    return tuple(
        ServerCounts(
            replica=row["name"], before=row.get("before") or {}, after=row.get("after") or {}
        )
        for row in rows
    )


def _profiler_to_json(mark: ProfilerMark) -> dict[str, Any]:
    document: dict[str, Any] = {
        "state": mark.state,
        "phase": mark.phase,
        "lastPhase": mark.last,
        "message": mark.message[:MESSAGE_LIMIT],
    }
    return document if mark.started is None else {**document, "startedAt": mark.started}


def _verdict_to_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "state": verdict.state,
        "reason": verdict.reason,
        "message": verdict.message[:MESSAGE_LIMIT],
        "at": verdict.at,
        "again": verdict.again,
        "fatal": verdict.fatal,
    }


def _reset_to_json(mark: ResetMark) -> dict[str, Any]:
    document = {"state": mark.state, "message": mark.message[:MESSAGE_LIMIT]}
    return document if mark.phase < 0 else {**document, "phase": mark.phase}


def _reset(document: Mapping[str, Any] | None) -> ResetMark | None:
    if not document:
        return None
    return ResetMark(
        state=ResetState(document["state"]),
        message=document.get("message", ""),
        phase=document.get("phase", -1),
    )


def _verdict(document: Mapping[str, Any]) -> Verdict:
    return Verdict(
        state=CellState(document["state"]),
        reason=Reason(document["reason"]),
        message=document["message"],
        at=document["at"],
        again=document.get("again", False),
        fatal=document.get("fatal", False),
    )
