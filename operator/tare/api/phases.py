"""`spec.phases`: the load, phase by phase."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tare.api.fields import DnsLabel, Model, Rule, Seconds

__all__ = ["Phase"]

_OPEN_LOOPS = ("constant", "poisson", "gamma")
"""Types whose sends follow a rate, whatever the server does."""
_ONLY_CLOSED = "concurrency is for type: concurrency; bound an open loop with maxConcurrency"

Requests = Annotated[int, Field(ge=1, le=1_000_000_000)]
InFlight = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]


class Phase(Model):
    """A stretch of load of one kind."""

    RULES = (
        Rule(
            holds=lambda phase: phase.requests is not None or phase.duration_seconds is not None,
            cel="has(self.requests) || has(self.durationSeconds)",
            message="a phase needs an end: add requests, durationSeconds or both",
        ),
        Rule(
            field="concurrency",
            holds=lambda phase: phase.type != "concurrency" or phase.concurrency is not None,
            cel="self.type != 'concurrency' || has(self.concurrency)",
            message="type: concurrency needs concurrency, the number of requests in flight",
        ),
        Rule(
            field="concurrency",
            holds=lambda phase: phase.type == "concurrency" or phase.concurrency is None,
            cel="self.type == 'concurrency' || !has(self.concurrency)",
            message=_ONLY_CLOSED,
        ),
        Rule(
            field="rate",
            holds=lambda phase: phase.type not in _OPEN_LOOPS or phase.rate is not None,
            cel=f"!(self.type in {list(_OPEN_LOOPS)}) || has(self.rate)",
            message="an open loop (constant, poisson, gamma) needs rate, in requests per second",
        ),
        Rule(
            field="rate",
            holds=lambda phase: phase.type != "concurrency" or phase.rate is None,
            cel="self.type != 'concurrency' || !has(self.rate)",
            message="rate has no meaning in a closed loop; remove it, or use type: constant",
        ),
        Rule(
            field="maxConcurrency",
            holds=lambda phase: phase.type != "concurrency" or phase.max_concurrency is None,
            cel="self.type != 'concurrency' || !has(self.maxConcurrency)",
            message="maxConcurrency bounds an open loop; with type: concurrency set concurrency",
        ),
    )

    name: DnsLabel
    """Name of the phase, unique in the run; paths of a sweep use it."""
    kind: Literal["warmup", "profiling"]
    """Only profiling phases are measured."""
    type: Literal[
        "concurrency",
        "constant",
        "poisson",
        "gamma",
        "fixedSchedule",
        "sessions",
        "ramp",
        "agenticReplay",
    ]
    """How requests arrive. concurrency: a closed loop, always that many in flight.

    constant: an open loop at a rate.
    """
    concurrency: InFlight | None = None
    """Requests in flight over all workers (closed loop)."""
    rate: Rate | None = None
    """Requests per second over all workers (open loop)."""
    max_concurrency: InFlight | None = None
    """Upper bound of requests in flight over all workers in an open loop."""
    requests: Requests | None = None
    """End after this many requests over all workers."""
    duration_seconds: Seconds | None = None
    """End sending after this time."""
    grace_period_seconds: Annotated[float, Field(ge=0, le=86_400)] = 30
    """How long answers are awaited after the last send; then they are cancelled and counted."""
    seamless: bool = False
    """Begin the next phase without waiting for the last answers of this one."""
