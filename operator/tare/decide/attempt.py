"""One attempt at one trial, as it must survive a restart: `status.current`.

Written before the action that it announces: a profiler start is recorded before its first POST, a
confirmed reset before the gate opens. What is not here can be found out again from the Jobs, the
pods and the workers themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, Reason
from tare.api.status import MESSAGE_LIMIT
from tare.decide.children import TrialKey
from tare.measure.hooks import Replica

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Attempt", "ProfilerMark", "ProfilerState", "ResetMark", "ResetState", "Verdict"]


class ResetState(StrEnum):
    """What is known about the cache at the first gate."""

    OFF = "Off"
    CONFIRMED = "Confirmed"
    UNVERIFIED = "Unverified"


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
    """Outcome of the reset of this attempt."""

    state: ResetState
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfilerMark:
    """The last profiler intent of this attempt."""

    state: ProfilerState
    phase: int
    """Index of the profiling phase that it covers."""
    message: str = ""


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
    reset: ResetMark | None = None
    profiler: ProfilerMark | None = None
    verdict: Verdict | None = None

    @property
    def may_profile(self) -> bool:
        """A server profiler may be running because of this attempt."""
        return self.profiler is not None and self.profiler.state.may_run

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
        if self.replicas is not None:
            document["replicas"] = [
                {"uid": r.uid, "name": r.name, "origin": r.origin} for r in self.replicas
            ]
        if self.reset:
            document["reset"] = {
                "state": self.reset.state,
                "message": self.reset.message[:MESSAGE_LIMIT],
            }
        if self.profiler:
            document["profiler"] = {
                "state": self.profiler.state,
                "phase": self.profiler.phase,
                "message": self.profiler.message[:MESSAGE_LIMIT],
            }
        if self.verdict:
            document["verdict"] = {
                "state": self.verdict.state,
                "reason": self.verdict.reason,
                "message": self.verdict.message[:MESSAGE_LIMIT],
                "at": self.verdict.at,
                "again": self.verdict.again,
                "fatal": self.verdict.fatal,
            }
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any] | None) -> Attempt | None:
        """Decode `status.current`; None when no attempt is under way."""
        if not document:
            return None
        replicas = document.get("replicas")
        reset, profiler = document.get("reset"), document.get("profiler")
        verdict = document.get("verdict")
        return cls(
            key=TrialKey(document["cell"], document["trial"], document["attempt"]),
            started=document["startedAt"],
            spawned=document.get("spawnedAt"),
            faults=document.get("faults", 0),
            replicas=None if replicas is None else tuple(Replica(**r) for r in replicas),
            reset=ResetMark(state=ResetState(reset["state"]), message=reset.get("message", ""))
            if reset
            else None,
            profiler=ProfilerMark(
                state=ProfilerState(profiler["state"]),
                phase=profiler["phase"],
                message=profiler.get("message", ""),
            )
            if profiler
            else None,
            verdict=_verdict(verdict) if verdict else None,
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
