"""Phases, condition types, reasons and cell states: one table for code, CRD, docs and tests.

Reasons are CamelCase and stable: people script against them.
"""

from __future__ import annotations

from enum import StrEnum

__all__ = ["CellState", "ConditionType", "Reason", "RunPhase"]


class RunPhase(StrEnum):
    """`status.phase`: derived for people, never read back to decide."""

    PENDING = "Pending"
    WAITING = "Waiting"
    PREPARING = "Preparing"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    PARTIALLY_FAILED = "PartiallyFailed"
    FAILED = "Failed"
    CANCELLED = "Cancelled"
    SUSPENDED = "Suspended"


class ConditionType(StrEnum):
    """`status.conditions[].type`."""

    ACCEPTED = "Accepted"
    """The spec is valid and its target is allowed."""
    TARGET_READY = "TargetReady"
    """The model service is reachable, ready and serves the model."""
    WORKERS_READY = "WorkersReady"
    """Every worker of the current trial has loaded its dataset and registered."""
    PROFILING = "Profiling"
    """A server profiler is, or may be, running."""
    CACHE_AS_PLANNED = "CacheAsPlanned"
    """Every trial found as many cached prompt tokens as its plan says, and resets held."""
    GOALS_MET = "GoalsMet"
    NO_REGRESSION = "NoRegression"
    """No cell is worse than in the run that `spec.baseline` names, by more than is tolerated."""
    RESULTS_PUBLISHED = "ResultsPublished"
    """All results so far are stored in ConfigMaps."""
    MEASUREMENT_SOUND = "MeasurementSound"
    """False when the numbers need care: a saturated client, no streaming, wrong output lengths,
    a replica that got hardly any load."""
    SPEC_CHANGE_IGNORED = "SpecChangeIgnored"
    SUSPENDED = "Suspended"
    COMPLETE = "Complete"
    """End: every cell was measured."""
    FAILED = "Failed"
    """End: not every cell was measured."""
    FINISHED = "Finished"
    """End, always True then, so that one `kubectl wait` never hangs."""


class Reason(StrEnum):
    """`status.conditions[].reason` and the reason of a failed cell."""

    ACCEPTED = "Accepted"
    ALL_CELLS_MEASURED = "AllCellsMeasured"
    ALL_MET = "AllMet"
    AS_ASKED = "AsAsked"
    AS_PLANNED = "AsPlanned"
    BASELINE_MISSING = "BaselineMissing"
    CANCELLED = "Cancelled"
    CELLS_FAILED = "CellsFailed"
    CLIENT_SATURATED = "ClientSaturated"
    COLDER_THAN_PLANNED = "ColderThanPlanned"
    CONFIG_MAP_MISSING = "ConfigMapMissing"
    CONTAMINATED = "Contaminated"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    EMPTY_OUTPUT = "EmptyOutput"
    FINISHED = "Finished"
    GOALS_MISSED = "GoalsMissed"
    IMAGE_PULL_FAILED = "ImagePullFailed"
    INVALID_SPEC = "InvalidSpec"
    MISSING_DONE = "MissingDone"
    MODEL_NOT_SERVED = "ModelNotServed"
    NOT_ALLOWED = "NotAllowed"
    NOT_CONCLUSIVE = "NotConclusive"
    NOT_DECIDABLE = "NotDecidable"
    NOT_REPORTED = "NotReported"
    NOT_STREAMING = "NotStreaming"
    NOT_WORSE = "NotWorse"
    NO_GOALS = "NoGoals"
    NO_ISSUES = "NoIssues"
    OOM_KILLED = "OOMKilled"
    OUTPUT_LENGTH_MISMATCH = "OutputLengthMismatch"
    PROFILER_ON = "ProfilerOn"
    PROFILER_OFF = "ProfilerOff"
    PROFILER_START_FAILED = "ProfilerStartFailed"
    PROFILER_STOP_FAILED = "ProfilerStopFailed"
    PUBLISHED = "Published"
    QUEUED = "Queued"
    QUOTA_EXCEEDED = "QuotaExceeded"
    REGISTERED = "Registered"
    REGRESSION = "Regression"
    REPLICAS_CHANGED = "ReplicasChanged"
    REQUEST_REJECTED = "RequestRejected"
    RESET_INCOMPLETE = "ResetIncomplete"
    RESET_REFUSED = "ResetRefused"
    RESUMED = "Resumed"
    RUNNING = "Running"
    SECRET_MISSING = "SecretMissing"  # noqa: S105 - no password
    SERVER_RESTARTED = "ServerRestarted"
    SPEC_CHANGED = "SpecChanged"
    SUSPENDED = "Suspended"
    TARGET_BUSY = "TargetBusy"
    TARGET_NOT_READY = "TargetNotReady"
    TARGET_READY = "TargetReady"
    TOO_MANY_ERRORS = "TooManyErrors"
    UNEVEN_LOAD = "UnevenLoad"
    UNSCHEDULABLE = "Unschedulable"
    UNVERIFIED = "Unverified"
    WAITING = "Waiting"
    WARM_CACHE = "WarmCache"
    WORKERS_NOT_READY = "WorkersNotReady"
    WORKER_LOST = "WorkerLost"


class CellState(StrEnum):
    """`status.cells[].state`."""

    PENDING = "Pending"
    RUNNING = "Running"
    MEASURED = "Measured"
    FAILED = "Failed"
    INVALID = "Invalid"
    SKIPPED = "Skipped"
