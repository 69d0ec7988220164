"""`spec.phases`: the load, phase by phase."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from tare.api.fields import DnsLabel, Model, Quantity, Rule, Seconds
from tare.api.quantity import QuantityError, parse_fraction

__all__ = ["Phase", "Ramp"]

_OPEN_LOOPS = ("constant", "poisson", "gamma")
"""Types whose sends follow a rate, whatever the server does."""
_CLOSED_LOOPS = ("concurrency", "sessions")
"""Types whose sends follow the answers."""
_ONLY_CLOSED = "concurrency is for closed loops; bound an open loop with maxConcurrency"

Requests = Annotated[int, Field(ge=1, le=1_000_000_000)]
InFlight = Annotated[int, Field(ge=1, le=1_000_000)]
Rate = Annotated[float, Field(gt=0, le=1_000_000)]


def _is_share(value: str | float | None) -> bool:
    try:
        return value is None or parse_fraction(value) >= 0
    except QuantityError:
        return False


class Ramp(Model):
    """A slow start: from a low value to the phase's own within a time."""

    RULES = (
        Rule(
            field="from",
            holds=lambda ramp: ramp.type == "linear" or bool(ramp.start),
            cel="!has(self.type) || self.type == 'linear' || (has(self.from) && self.from > 0.0)",
            message="an exponential ramp grows by factors; set from above 0",
        ),
    )

    type: Literal["linear", "exponential"] = "linear"
    """linear: by equal steps in equal times. exponential: by equal factors."""
    seconds: Seconds
    """From the phase's start to its full rate or concurrency."""
    start: Annotated[float, Field(ge=0, le=1_000_000)] | None = Field(default=None, alias="from")
    """Value at the phase's start; unset: a rate begins at 0, a concurrency at 1."""


def _starts_below(phase: Phase) -> bool:
    """Whether a ramp goes upwards."""
    full = phase.concurrency if phase.type in _CLOSED_LOOPS else phase.rate
    start = phase.ramp.start if phase.ramp is not None else None
    return start is None or full is None or start < full


class Phase(Model):
    """A stretch of load of one kind."""

    RULES = (
        Rule(
            holds=lambda phase: (
                phase.requests is not None
                or phase.sessions is not None
                or phase.duration_seconds is not None
            ),
            cel="has(self.requests) || has(self.sessions) || has(self.durationSeconds)",
            message="a phase needs an end: add requests, durationSeconds or both; type: sessions "
            "ends by sessions instead of requests",
        ),
        Rule(
            field="sessions",
            holds=lambda phase: phase.sessions is None or phase.type == "sessions",
            cel="!has(self.sessions) || self.type == 'sessions'",
            message="only type: sessions counts its sessions; use requests",
        ),
        Rule(
            field="requests",
            holds=lambda phase: phase.requests is None or phase.type != "sessions",
            cel="!has(self.requests) || self.type != 'sessions'",
            message="type: sessions ends with whole sessions; use sessions",
        ),
        Rule(
            field="concurrency",
            holds=lambda phase: phase.type not in _CLOSED_LOOPS or phase.concurrency is not None,
            cel=f"!(self.type in {list(_CLOSED_LOOPS)}) || has(self.concurrency)",
            message="a closed loop (concurrency, sessions) needs concurrency, the number of "
            "requests in flight or of open sessions",
        ),
        Rule(
            field="concurrency",
            holds=lambda phase: phase.type in _CLOSED_LOOPS or phase.concurrency is None,
            cel=f"self.type in {list(_CLOSED_LOOPS)} || !has(self.concurrency)",
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
            holds=lambda phase: phase.type not in _CLOSED_LOOPS or phase.rate is None,
            cel=f"!(self.type in {list(_CLOSED_LOOPS)}) || !has(self.rate)",
            message="rate has no meaning in a closed loop; remove it, or use type: constant",
        ),
        Rule(
            field="maxConcurrency",
            holds=lambda phase: phase.type not in _CLOSED_LOOPS or phase.max_concurrency is None,
            cel=f"!(self.type in {list(_CLOSED_LOOPS)}) || !has(self.maxConcurrency)",
            message="maxConcurrency bounds an open loop; in a closed loop set concurrency",
        ),
        Rule(
            field="smoothness",
            holds=lambda phase: (phase.type == "gamma") == (phase.smoothness is not None),
            cel="(self.type == 'gamma') == has(self.smoothness)",
            message="smoothness belongs to type: gamma, which needs it; 1 is as poisson, less is "
            "burstier",
        ),
        Rule(
            field="ramp",
            holds=_starts_below,
            cel=f"!has(self.ramp) || !has(self.ramp.from) || (self.type in {list(_CLOSED_LOOPS)} "
            "? !has(self.concurrency) || self.ramp.from < double(self.concurrency) "
            ": !has(self.rate) || self.ramp.from < self.rate)",
            message="a ramp goes up: set from below the phase's rate or concurrency",
        ),
        Rule(
            field="cancelAfterSeconds",
            holds=lambda phase: (
                (phase.cancel_share is None) == (phase.cancel_after_seconds is None)
            ),
            message="cancelShare and cancelAfterSeconds go together: which part of the requests is "
            "cancelled, and how long after its send",
        ),
        Rule(
            field="cancelShare",
            holds=lambda phase: _is_share(phase.cancel_share),
            message="cancelShare is a share of 0 to 1: write a percentage as 10%, or 0.1",
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
        "agenticReplay",
    ]
    """How requests arrive. concurrency: a closed loop, always that many in flight.

    sessions: a closed loop of whole sessions, with the turns and pauses of dataset.turns.
    constant, poisson, gamma: open loops at a rate, with gaps that are equal, exponentially
    distributed, or gamma-distributed. The seed of the dataset fixes them.
    """
    concurrency: InFlight | None = None
    """Requests in flight, or sessions open, over all workers (closed loops)."""
    rate: Rate | None = None
    """Requests per second over all workers (open loop)."""
    max_concurrency: InFlight | None = None
    """Upper bound of requests in flight over all workers in an open loop."""
    smoothness: Annotated[float, Field(ge=0.01, le=1000)] | None = None
    """Shape of the gamma distribution: the gaps' coefficient of variation is 1/sqrt(smoothness)."""
    ramp: Ramp | None = None
    """Begin with less and go up to the full rate or concurrency."""
    requests: Requests | None = None
    """End after this many requests over all workers."""
    sessions: Requests | None = None
    """End after this many sessions over all workers; each of their turns is a request."""
    duration_seconds: Seconds | None = None
    """End sending after this time."""
    grace_period_seconds: Annotated[float, Field(ge=0, le=86_400)] = 30
    """How long answers are awaited after the last send; then they are cancelled and counted."""
    cancel_share: Quantity | None = None
    """Share of the requests that is cancelled on purpose, as 10%; the seed chooses them."""
    cancel_after_seconds: Annotated[float, Field(ge=0, le=604_800)] | None = None
    """How long after its send such a request is cancelled; unless it has ended before."""
    seamless: bool = False
    """Begin the next phase as soon as everything of this one was sent.

    Its last answers come in meanwhile and count for this phase. The last phase cannot be seamless.
    """

    @property
    def cancel_fraction(self) -> float:
        """`cancelShare` as a fraction of 1."""
        return parse_fraction(self.cancel_share) if self.cancel_share is not None else 0.0
