"""`status` of a BenchmarkRun as the operator writes it.

The schema prunes what is not described here, so every field that the driver stores stands here,
bounded. Reading is lenient (`extra="ignore"`): an operator that was rolled back must be able to
read what a newer one wrote. The whole stays below 64 KiB: one row for each of at most 100 cells;
results lie in ConfigMaps. Times of `current` are epoch seconds, since the driver computes with
them; what people read is RFC 3339.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, computed_field
from pydantic.alias_generators import to_camel

from tare.api.fields import ATOMIC
from tare.api.reasons import CellState, RunPhase

__all__ = [
    "MESSAGE_LIMIT",
    "ROW_LIMIT",
    "BenchmarkRunStatus",
    "CellRow",
    "CellVerdict",
    "Condition",
    "Current",
    "Headlines",
    "ProfilerMark",
    "ProfilingResetMark",
    "Progress",
    "ReplicaRow",
    "ResetMark",
    "Results",
    "ServerRow",
    "Summary",
    "Target",
    "TargetReplica",
]

MESSAGE_LIMIT = 1024
"""Characters of a message in status."""
ROW_LIMIT = 100
"""Rows of `status.cells`."""
_REPLICAS = 256

Name = Annotated[str, StringConstraints(max_length=253)]
Text = Annotated[str, StringConstraints(max_length=MESSAGE_LIMIT)]
Time = Annotated[str, Field(max_length=32, json_schema_extra={"format": "date-time"})]
Count = Annotated[int, Field(ge=0)]
GoalsVerdict = Literal["Met", "Missed", "Unknown"]
RegressionVerdict = Literal["Found", "NotFound", "Unknown"]
_NUMBER = r"[0-9.e+-]+"
Estimate = Annotated[str, StringConstraints(pattern=rf"^{_NUMBER}( ±{_NUMBER})?$", max_length=32)]


class StatusModel(BaseModel):
    """Base of every object of `status`."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="ignore",
        frozen=True,
        use_attribute_docstrings=True,
        validate_by_alias=True,
        validate_by_name=True,
    )


class Condition(StatusModel):
    """A condition after the Kubernetes API conventions."""

    type: Annotated[str, StringConstraints(max_length=64)]
    """What it is about; `api.reasons.ConditionType`."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Annotated[str, StringConstraints(max_length=64)]
    """Why, in CamelCase; `api.reasons.Reason`."""
    message: Text = ""
    """One sentence for people."""
    last_transition_time: Time
    """When status changed last."""


class Progress(StatusModel):
    """Where the run is."""

    cells_done: Count = 0
    """Cells that have ended, whatever their state."""
    cells_total: Count = 0
    """Cells of the run."""
    cells_failed: Count = 0
    """Cells that were not measured."""
    cell: Name | None = None
    """Name of the cell under way."""
    trial: Count | None = None
    """Its trial, from 0."""
    phase: Name | None = None
    """Phase under way, or what is waited for."""
    requests: Count | None = None
    """Requests sent in that phase."""
    percent: Annotated[int, Field(ge=0, le=100)] | None = None
    """Share of the run that is done."""
    eta_seconds: Count | None = None
    """Estimated time to the end."""

    @computed_field  # type: ignore[prop-decorator]  # mypy knows no decorated property
    @property
    def cells(self) -> str:
        """Cells done and in all, as 3/4: kubectl prints it."""
        return f"{self.cells_done}/{self.cells_total}"


class Headlines(StatusModel):
    """The numbers of a cell: value, from three trials on with its 95% interval, as 0.21 ±0.02."""

    model_config = ConfigDict(alias_generator=None)

    time_to_first_token_p50: Estimate | None = None
    """Seconds."""
    time_to_first_token_p99: Estimate | None = None
    """Seconds."""
    request_latency_p99: Estimate | None = None
    """Seconds."""
    request_throughput: Estimate | None = None
    """Ok requests per second."""
    output_token_throughput: Estimate | None = None
    """Output tokens per second."""
    error_rate: Estimate | None = None
    """Share of issued requests that were not ok."""


class CellRow(StatusModel):
    """One cell, its trials together; about 400 bytes."""

    index: Count
    """Number of the cell, from 0."""
    name: Name
    """What makes it differ, as rate=4."""
    state: CellState
    """Where it is."""
    reason: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Why it failed."""
    message: Text | None = None
    """The same for people."""
    trials_done: Count = 0
    """Trials that were measured; not said of a cell whose every trial was."""
    metrics: Headlines | None = None
    """Its numbers; all of them are in the results."""
    cache: Annotated[str, StringConstraints(max_length=64)] | None = None
    """What is wrong with, or not known of, the cached tokens of a trial; nothing if as planned."""
    goals: GoalsVerdict | None = None
    """Whether it meets the goals."""


class ReplicaRow(StatusModel):
    """A replica that the attempt under way measures."""

    uid: Name
    """UID of its pod; for a URL its origin."""
    name: Name
    """Name of its pod; for a URL its origin."""
    origin: Name
    """Scheme, address and port of control calls."""


Numbers = Annotated[
    dict[Annotated[str, StringConstraints(max_length=63)], float], Field(max_length=16)
]


class ServerRow(StatusModel):
    """What a replica told of itself at the two ends of the attempt under way."""

    name: Name
    """Name of its pod; for a URL its origin."""
    before: Numbers = Field(default_factory=dict)
    """Counters, process start and restarts before the first gate; nothing if it told nothing."""
    after: Numbers = Field(default_factory=dict)
    """The same after the last drain, written with the verdict."""


class ResetMark(StatusModel):
    """What is known about the cache after a reset."""

    state: Annotated[str, StringConstraints(max_length=32)]
    """Off, Proven, Confirmed, Unverified or Incomplete."""
    message: Text | None = None
    """Which replica said what."""


class ProfilingResetMark(ResetMark):
    """What is known about the cache where profiling began."""

    phase: int
    """Index of the profiling phase that the reset came before."""


class ProfilerMark(StatusModel):
    """The last intent about the server's profiler; written before the call."""

    state: Annotated[str, StringConstraints(max_length=32)]
    """Starting, Running, Stopped or StopFailed."""
    phase: int
    """Index of the first profiling phase that it covers."""
    last_phase: int | None = None
    """Index of the last one; another than the first where seamless phases overlap."""
    message: Text | None = None
    """Which replica said what."""
    started_at: float | None = None
    """Epoch seconds of its start; maxSeconds counts from here."""


class CellVerdict(StatusModel):
    """How the attempt ends; from here on it is only closed."""

    state: CellState
    """State of the trial."""
    reason: Annotated[str, StringConstraints(max_length=64)]
    """Why."""
    message: Text = ""
    """The same for people."""
    at: float
    """Epoch seconds."""
    again: bool = False
    """The trial is attempted once more."""
    fatal: bool = False
    """The whole run ends."""


class Current(StatusModel):
    """The attempt that owns the target: what a restarted operator must know."""

    cell: Count
    """Index of the cell."""
    trial: Count
    """Number of the trial, from 0."""
    attempt: Count
    """Number of the attempt, from 1."""
    faults: Count = 0
    """Attempts at this trial that were lost by a fault."""
    started_at: float
    """Epoch seconds of its start."""
    spawned_at: float | None = None
    """Epoch seconds at which its Job was asked for."""
    replicas: Annotated[
        tuple[ReplicaRow, ...], Field(max_length=_REPLICAS, json_schema_extra=ATOMIC)
    ] = ()
    """Replicas before the reset; the same after the drain, or the cell is invalid."""
    reset_servers: (
        Annotated[tuple[ReplicaRow, ...], Field(max_length=_REPLICAS, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """Servers that are reset, where the reset has a target of its own."""
    profiler_servers: (
        Annotated[tuple[ReplicaRow, ...], Field(max_length=_REPLICAS, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """Servers that are profiled, where the profiler has a target of its own."""
    servers: (
        Annotated[tuple[ServerRow, ...], Field(max_length=_REPLICAS, json_schema_extra=ATOMIC)]
        | None
    ) = None
    """What the replicas told: a restart of one during the trial shows in the difference."""
    start_skew: Numbers = Field(default_factory=dict)
    """Seconds by phase within which all workers started."""
    reset: ResetMark | None = None
    """Outcome of the reset."""
    reset_before_profiling: ProfilingResetMark | None = None
    """Outcome of the last reset between warm-up and profiling."""
    profiler: ProfilerMark | None = None
    """State of the server's profiler."""
    verdict: CellVerdict | None = None
    """How it ends."""


class Summary(StatusModel):
    """The run in a line."""

    best_cell: Name | None = None
    """Name of the best cell that meets the goals."""
    goals: GoalsVerdict | None = None
    """Whether the goals are met."""
    regression: RegressionVerdict | None = None
    """Whether a cell is worse than in the baseline; nothing without one."""


class Results(StatusModel):
    """Where the results lie."""

    selector: Annotated[str, StringConstraints(max_length=512)] | None = None
    """Label selector of the ConfigMaps of all trials."""
    stored: Count = 0
    """Number of trials stored."""
    summary: Name | None = None
    """ConfigMap with the whole run in one document."""


class TargetReplica(StatusModel):
    """What ran behind a number."""

    name: Name
    """Name of the pod, or an origin."""
    node: Name | None = None
    """Its node."""
    image: Annotated[str, StringConstraints(max_length=512)] | None = None
    """Image with its digest."""
    restarts: Count | None = None
    """Restarts seen, if any."""


class Target(StatusModel):
    """The model service: what makes a number evidence."""

    address: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """Where the load goes."""
    server_version: Name | None = None
    """Version as the server says it."""
    replicas: Annotated[
        tuple[TargetReplica, ...], Field(max_length=64, json_schema_extra=ATOMIC)
    ] = ()
    """Replicas at the last reset."""


class BenchmarkRunStatus(StatusModel):
    """What was found, how sure it is, and whether the goals were met."""

    phase: RunPhase | None = None
    """Where the run is, for people; derived, never read back."""
    reason: Annotated[str, StringConstraints(max_length=64)] | None = None
    """Why it is there, in CamelCase; derived from the conditions."""
    observed_generation: Count | None = None
    """Generation of the spec that this status is about."""
    operator: Name | None = None
    """Process that writes this status; another one takes over by writing its own first."""
    start_time: Time | None = None
    """When the run got its target; the spec is frozen from here on."""
    finish_time: Time | None = None
    """When the run ended; its time to live counts from here."""
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=32,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
    """Conditions; `kubectl wait --for=condition=Finished` waits for the end."""
    progress: Progress | None = None
    """Where the run is, in numbers."""
    cells: Annotated[
        tuple[CellRow, ...], Field(max_length=ROW_LIMIT, json_schema_extra=ATOMIC)
    ] = ()
    """One row for each cell: failed, best, current and latest ones if there are more than 100."""
    current: Current | None = None
    """The attempt under way."""
    summary: Summary | None = None
    """The run in a line."""
    results: Results | None = None
    """Where the results lie."""
    target: Target | None = None
    """The model service as it was found."""

    def document(self) -> dict[str, Any]:
        """Write it as JSON, without what is not known."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
