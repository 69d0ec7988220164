"""Everything a decision may look at, as plain values.

`Facts` is one moment: children from the API, workers from the inbox, operations that this process
started, and the ends of trials that are stored. A restarted operator begins with empty operations;
that is the only memory it lost, and every operation is safe to start again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tare.api.reasons import Reason
from tare.api.spec import BenchmarkRunSpec
from tare.decide.attempt import Attempt
from tare.decide.children import JobView, PodView, TrialKey
from tare.decide.outcome import CellOutcome
from tare.decide.records import Cell, TrialRecord
from tare.measure.hooks import HookReport, PreflightReport, Replicas
from tare.measure.messages import WorkerState
from tare.measure.trial import TrialSummary

__all__ = [
    "BaselineVerdict",
    "Facts",
    "Op",
    "OpKind",
    "OpResult",
    "OpView",
    "ResetResult",
    "Run",
    "WorkerView",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A BenchmarkRun: what was accepted at its start, and what is stored now."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: BenchmarkRunSpec
    cells: tuple[Cell, ...]
    schedule: tuple[tuple[int, int], ...]
    """(cell, trial) in the order in which they are measured."""
    deleting: bool = False
    finalizers: tuple[str, ...] = ()
    suspend: bool = False
    cancel: bool = False
    deadline_seconds: float | None = None
    spec_changed: bool = False
    """The stored spec differs from the accepted one in a field that is frozen."""
    start_time: float | None = None
    """Epoch seconds at which the run got its target."""
    attempt: Attempt | None = None
    """`status.current` as stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerView:
    """What one worker said last."""

    index: int
    pod_uid: str
    pod_name: str
    state: WorkerState
    phase: int
    silent: float
    """Seconds since it was last heard of."""
    drained: int = -1
    """Highest phase up to which every request of it has ended."""
    has_result: bool = False
    issued: int = 0
    """Requests of the phase that was started last."""
    failed: int = 0


class OpKind(StrEnum):
    """Operations that take longer than a pass; each runs once per key and process."""

    PREFLIGHT = "preflight"
    RESET = "reset"
    """Find the replicas, and reset their caches when the run asks for it."""
    PROFILER_START = "profiler-start"
    PROFILER_STOP = "profiler-stop"
    CHECK_REPLICAS = "check-replicas"
    STORE_TRIAL = "store-trial"
    STORE_SUMMARY = "store-summary"
    COMPARE = "compare"
    """Hold the stored results against those of the baseline, and store what was found."""


@dataclass(frozen=True, slots=True)
class Op:
    """Identity of an operation."""

    kind: OpKind
    key: TrialKey | None = None
    phase: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetResult:
    """Replicas found, and the report of their reset; None when no reset was asked for."""

    replicas: Replicas
    """With what they tell after it."""
    report: HookReport | None
    begin: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """What they told before one between phases: its canaries are no part of the trial."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineVerdict:
    """What the comparison with the baseline came to."""

    regression: bool | None
    """None when the data do not decide."""
    reason: Reason
    message: str


OpResult = PreflightReport | ResetResult | HookReport | Replicas | BaselineVerdict | None
"""Results by kind in the order of `OpKind`; storing has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpView:
    """An operation that was started: `done` with its result, or still on its way."""

    done: bool
    result: OpResult = None
    awaited: str = ""
    """What one on its way waits for, where it says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """One moment of a run."""

    now: float
    """Epoch seconds."""
    jobs: Mapping[TrialKey, JobView] = field(default_factory=dict)
    pods: tuple[PodView, ...] = ()
    """Pods seen, those that vanished among them (`ended`, `deleting`)."""
    workers: Mapping[TrialKey, Mapping[int, WorkerView]] = field(default_factory=dict)
    ops: Mapping[Op, OpView] = field(default_factory=dict)
    opened: frozenset[tuple[TrialKey, int]] = frozenset()
    """Gates that this process opened."""
    skews: Mapping[tuple[TrialKey, int], float] = field(default_factory=dict)
    """Gates that all workers have passed, to the seconds within which they did."""
    records: Mapping[tuple[int, int], TrialRecord] = field(default_factory=dict)
    outcomes: Mapping[int, CellOutcome] = field(default_factory=dict)
    """Cells that have stored trials."""
    summary_name: str = ""
    """ConfigMap of the run's summary, once it is stored."""
    summaries: Mapping[TrialKey, TrialSummary] = field(default_factory=dict)
    """Merged results of attempts whose workers have all reported."""
    jobs_refused: Mapping[TrialKey, str] = field(default_factory=dict)
    """Why the API server refused the Jobs of attempts, where it did."""
    job_trouble: str = ""
    """Message of the newest FailedCreate event of a Job that lacks pods."""
    blocker: str = ""
    """`namespace/name` of the run that owns this run's target; empty when this one does."""
    restarted: bool = False
    """First pass of this process over a run that was under way."""
    since: float = 0.0
    """Epoch seconds at which this process took the run over: no worker had spoken to it before."""
    prestart: bool = True
    """False once the next trial's pods had to be taken back."""
