"""Messages between workers and the operator's inbox.

Every request is a POST of JSON with `Authorization: Bearer <run token>`:

=================  ====================================================================
`/v1/register`     `Register` → 200; 409 when another pod holds this index; 410 when the
                   attempt is over (the worker ends)
`/v1/wait`         `Wait` → `Command`; the answer is held until there is one, for 20 s at
                   most (then `idle`, and the worker asks again). A worker has exactly one
                   such request open from registration to its end, while it sends load too:
                   this is how a stop reaches it within milliseconds. A newer one of the same
                   worker takes its place: the older one is answered `idle` at once
`/v1/progress`     `Progress` each second of a phase → 204
`/v1/result`       `WorkerResult` → `ResultReply`; offered again until `stored`
=================  ====================================================================

All messages are statements of what is so, not events: repeating one changes nothing. Numbers of
time are seconds on the worker's own monotonic clock unless said; no clock is compared with another
pod's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

__all__ = [
    "Command",
    "CommandKind",
    "Identity",
    "PhaseResult",
    "Progress",
    "Register",
    "ResultReply",
    "Wait",
    "WorkerResult",
    "WorkerState",
]


class WorkerState(StrEnum):
    """What a worker says of itself; `phase` beside it says for which phase."""

    WAITING = "waiting"
    """Dataset loaded, nothing asked yet."""
    READY = "ready"
    """Connections for `phase` are open; may start at any moment."""
    RUNNING = "running"
    """Load of `phase` is on its way."""
    SENT = "sent"
    """Every request of `phase`, a seamless one, was sent, and connections for the next phase are
    open: that may start at any moment, while answers are still awaited."""
    DRAINED = "drained"
    """Every request of `phase`, and of those before it, has ended; connections stay."""
    STOPPED = "stopped"
    """Told to stop; nothing is in flight and nothing will be sent."""


class CommandKind(StrEnum):
    """What the operator asks of a worker."""

    IDLE = "idle"
    """Nothing yet; ask again."""
    PREPARE = "prepare"
    """Open or renew the connections of `phase`, then say `ready`."""
    START = "start"
    """Start `phase` now; said to those that are `ready` for it, or have `sent` the one before."""
    FINISH = "finish"
    """All phases are done: offer the result until it is stored, then end with success."""
    STOP = "stop"
    """Send nothing more, cancel what is in flight, say `stopped`, offer the (partial) result."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Which worker of which attempt speaks."""

    run_uid: str
    cell: int
    trial: int
    attempt: int
    index: int
    pod_uid: str
    pod_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """The dataset is loaded; also sent again after the operator was away.

    `state`, `phase` and `drained` let a restarted operator find out where the worker is.
    """

    worker: Identity
    state: WorkerState = WorkerState.WAITING
    phase: int = -1
    drained: int = -1
    """As in `Wait`."""
    dataset: Mapping[str, Any] = field(default_factory=dict)
    """Compact description of the prompts (`workload` writes it); the operator sees no prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """The worker is in `state` of `phase` and waits for the next command."""

    worker: Identity
    state: WorkerState
    phase: int
    drained: int = -1
    """Highest phase up to which every request has ended; below `phase` - 1 while answers of a
    seamless phase are awaited."""
    round_trip: float = 0.0
    """Seconds of the fastest round trip to the inbox so far: part of the start skew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """The operator's answer to `Wait`."""

    do: CommandKind
    phase: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """State of a running phase; counts are totals since the phase began."""

    worker: Identity
    phase: int
    elapsed: float
    issued: int
    ok: int
    failed: int
    """Failed, timed out and incomplete together."""
    in_flight: int
    output_tokens: int
    time_to_first_token: Mapping[str, Any] = field(default_factory=dict)
    """`measure.histogram.Histogram` as JSON."""
    request_latency: Mapping[str, Any] = field(default_factory=dict)
    event_loop_lag: float = 0.0
    """Seconds, the largest since the last report."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseResult:
    """What one worker measured in one phase; merges with others by adding (`measure.merge`)."""

    name: str
    kind: str
    planned_seconds: float | None
    """`durationSeconds` of the phase."""
    seconds: float
    """From the gate to the end of sending; to the last answer when requests end the phase, unless
    it is seamless."""
    drain_seconds: float
    """From there to the end of the last request."""
    seamless: bool = False
    """The next phase began before that."""
    counts: Mapping[str, int]
    """issued, ok, failed, incomplete, timeout, cancelled, empty_output, not_streamed, good, …"""
    errors: Mapping[str, int] = field(default_factory=dict)
    """Error kind to number of requests."""
    error_samples: Mapping[str, str] = field(default_factory=dict)
    """Error kind to one message of the server, at most 1 KiB."""
    token_sources: Mapping[str, int] = field(default_factory=dict)
    """`usage` or `chunks` to number of requests."""
    endpoints: Mapping[str, int] = field(default_factory=dict)
    """Origin to number of requests sent there."""
    histograms: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Metric name to `measure.histogram.Histogram` as JSON; nanoseconds, or tokens."""
    connections_opened: int = 0
    first_cached_tokens: int | None = None
    """Cached prompt tokens of the first request of the phase, as the server said."""
    rows: Mapping[str, Any] = field(default_factory=dict)
    """The single requests of a profiling phase, as `measure.rows` writes them."""
    start_skew: float = 0.0
    """Seconds between the starts of the first and the last process of a worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerResult:
    """The whole result of one worker; the same one is offered until it is stored."""

    worker: Identity
    phases: tuple[PhaseResult, ...]
    complete: bool
    """False when the worker was stopped before the end of its last phase."""
    event_loop_lag: Mapping[str, Any] = field(default_factory=dict)
    """Histogram of the event loop's lag while load was sent, in nanoseconds; of the process that
    was worst, when the worker has several."""
    cpu_seconds: float = 0.0
    """Of all processes."""
    gc_pauses: Mapping[str, Any] = field(default_factory=dict)
    """Histogram of the garbage collector's pauses meanwhile, in nanoseconds; of all processes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultReply:
    """Whether the result lies in a ConfigMap now; until then the worker offers it again."""

    stored: bool
