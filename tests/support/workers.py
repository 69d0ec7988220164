"""What workers of a run say, with little to write down."""

from __future__ import annotations

from typing import Any

from tare.decide.children import TrialKey
from tare.measure.messages import (
    Identity,
    Progress,
    Register,
    Wait,
    WorkerResult,
    WorkerState,
)

__all__ = ["KEY", "RUN_UID", "Changes", "identity", "progress", "register", "result", "wait"]

RUN_UID = "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
KEY = TrialKey(0, 0, 1)


class Changes:
    """Counts how often the book woke its driver."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1


def identity(index: int = 0, *, key: TrialKey = KEY, pod: str = "") -> Identity:
    """Worker `index` of an attempt, in its only pod unless `pod` says so."""
    return Identity(
        run_uid=RUN_UID,
        cell=key.cell,
        trial=key.trial,
        attempt=key.attempt,
        index=index,
        pod_uid=pod or f"pod-{key.cell}-{key.trial}-{key.attempt}-{index}",
        pod_name=f"run-{key.cell}-{key.trial}-{key.attempt}-{index}",
    )


def register(index: int = 0, *, key: TrialKey = KEY, pod: str = "", **fields: Any) -> Register:
    """A worker that is there; `fields` say where it is if it was there before."""
    return Register(worker=identity(index, key=key, pod=pod), **fields)


def wait(
    index: int = 0,
    state: WorkerState = WorkerState.WAITING,
    phase: int = -1,
    *,
    key: TrialKey = KEY,
    pod: str = "",
    drained: int = -1,
    round_trip: float = 0.0,
) -> Wait:
    """A worker that asks what to do."""
    return Wait(
        worker=identity(index, key=key, pod=pod),
        state=state,
        phase=phase,
        drained=drained,
        round_trip=round_trip,
    )


def progress(index: int = 0, phase: int = 0, *, key: TrialKey = KEY, **fields: Any) -> Progress:
    """A second of load: a hundred requests, ten of them failed."""
    numbers: dict[str, Any] = {
        "elapsed": 1.0,
        "issued": 100,
        "ok": 85,
        "failed": 10,
        "in_flight": 5,
        "output_tokens": 1000,
    }
    return Progress(worker=identity(index, key=key), phase=phase, **{**numbers, **fields})


def result(index: int = 0, *, key: TrialKey = KEY, **fields: Any) -> WorkerResult:
    """A result without any phase."""
    defaults: dict[str, Any] = {"phases": (), "complete": True}
    return WorkerResult(worker=identity(index, key=key), **{**defaults, **fields})
