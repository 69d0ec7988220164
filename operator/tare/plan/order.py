"""The work order: everything one worker is told, as plain JSON.

The operator writes it into the worker pod's environment, so `kubectl get job -o yaml` shows exactly
what was asked and a worker can load its dataset before it talks to anybody. It holds no secret:
a header whose value is secret names the environment variable that carries it.

The same order and seed give the same prompts, order and due times for any number of workers;
a worker derives its share from its index.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

__all__ = [
    "DatasetOrder",
    "HeaderOrder",
    "Lengths",
    "PhaseKind",
    "PhaseOrder",
    "TargetOrder",
    "WorkOrder",
]

PhaseKind = Literal["warmup", "profiling"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeaderOrder:
    """One request header: a literal `value`, or the environment variable `env` that holds it."""

    name: str
    value: str | None = None
    env: str | None = None
    prefix: str = ""
    """Written before the value, as `Bearer ` is before a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOrder:
    """Where and how to send requests."""

    urls: tuple[str, ...]
    """Base URLs without `/v1`; requests go to them in turn."""
    host: str | None = None
    """`Host` header when it differs from the URL's, as for a Service called by its address."""
    model: str
    type: Literal["chat", "completions"] = "chat"
    streaming: bool = True
    headers: tuple[HeaderOrder, ...] = ()
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    request_timeout: float = 600.0
    """Seconds from the first byte sent to the end of the answer."""
    idle_timeout: float = 60.0
    """Seconds without a token; comments and pings do not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """A number of tokens: fixed, normal, uniform or weighted; drawn by prompt index and seed.

    Exactly one of `value`, `mean` (with `stddev`), `min` (with `max`) and `values` is given.
    """

    value: int | None = None
    mean: float | None = None
    stddev: float = 0.0
    min: int | None = None
    max: int | None = None
    values: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOrder:
    """A synthetic dataset: `entries` distinct prompts, made from `seed`."""

    entries: int
    isl: Lengths
    """Input tokens of a prompt."""
    osl: Lengths
    """Output tokens asked for, as `max_tokens`."""
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseOrder:
    """One phase of load for all workers together; a worker takes its share."""

    name: str
    kind: PhaseKind
    type: Literal["concurrency", "constant"]
    concurrency: int | None = None
    """Requests in flight over all workers (closed loop)."""
    rate: float | None = None
    """Requests per second over all workers (open loop)."""
    max_concurrency: int | None = None
    """Upper bound of requests in flight over all workers in an open loop."""
    requests: int | None = None
    """Stop after this many requests were sent, over all workers."""
    duration: float | None = None
    """Stop sending after this many seconds."""
    grace: float = 30.0
    """Seconds after the last send in which answers are still awaited; then they are cancelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkOrder:
    """What the workers of one attempt at one trial of one cell do."""

    run: str
    namespace: str
    run_uid: str
    cell: int
    trial: int
    attempt: int
    workers: int
    """Number of workers that share this order (`workers.replicas`)."""
    target: TargetOrder
    dataset: DatasetOrder
    phases: tuple[PhaseOrder, ...]
    goodput: Mapping[str, float] = field(default_factory=dict)
    """Metric name to the limit in seconds that a good request must meet."""
