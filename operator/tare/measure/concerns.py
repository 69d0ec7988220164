"""Reasons to read a trial's numbers with care.

None of them makes a measurement invalid: the numbers are what they are, but they may not mean what
they seem to. Each says how often it happened and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.api.reasons import Reason
from tare.measure.counts import Count
from tare.measure.servers import requests_by_replica

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tare.measure.profile import Profile
    from tare.measure.servers import ServerCounts

__all__ = [
    "CLIENT_EXHAUSTED",
    "LEAST_SHARE",
    "MAX_EVENT_LOOP_LAG",
    "MAX_LENGTH_MISMATCH",
    "MAX_SEND_LAG",
    "Concern",
    "find_concerns",
    "find_uneven_load",
]

MAX_EVENT_LOOP_LAG: Final = 0.010
"""Seconds at p99; above, the client's own delay shows in the latencies."""
MAX_SEND_LAG: Final = 0.010
"""Seconds at p99; above, the load was not the one that was planned."""
CLIENT_EXHAUSTED: Final = "client_exhausted"
"""Error kind of a worker that has no port, socket or memory left."""
MAX_LENGTH_MISMATCH: Final = 0.01
"""Share of answers whose length may differ from what was asked for."""
LEAST_SHARE: Final = 0.5
"""Part of its fair share, all requests by the number of replicas, that a replica should answer."""
_MOST_NAMED: Final = 5
"""Replicas that one message names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Concern:
    """Something that the reader of the numbers must know."""

    reason: Reason
    message: str
    """One sentence with the numbers, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rule:
    """A concern about ok answers: more than `allowed` of them, as a share, have `count`."""

    reason: Reason
    count: Count
    allowed: float
    text: Callable[[str], str]


_RULES: Final = (
    _Rule(
        reason=Reason.NOT_STREAMING,
        count=Count.NOT_STREAMED,
        allowed=0.0,
        text="{} came in one piece although streaming was asked for, and have no time to first "
        "token; look for a proxy that buffers".format,
    ),
    _Rule(
        reason=Reason.OUTPUT_LENGTH_MISMATCH,
        count=Count.OUTPUT_LENGTH_MISMATCH,
        allowed=MAX_LENGTH_MISMATCH,
        text="{} had another length than asked for, so that runs may not compare; set "
        "endpoint.extraBody.ignore_eos where the server knows it".format,
    ),
    _Rule(
        reason=Reason.EMPTY_OUTPUT,
        count=Count.EMPTY_OUTPUT,
        allowed=0.0,
        text="{} held no text and count in no time to first token; look at the prompts and the "
        "stop settings".format,
    ),
    _Rule(
        reason=Reason.MISSING_DONE,
        count=Count.MISSING_DONE,
        allowed=0.0,
        text="{} ended without [DONE] after their finish reason; look for a proxy that cuts "
        "streams".format,
    ),
)


def find_concerns(profile: Profile, *, event_loop_lag_p99: float | None) -> tuple[Concern, ...]:
    """Return everything that is of concern in a trial; `event_loop_lag_p99` is in seconds."""
    ok = profile.count(Count.OK)
    found = [
        Concern(
            reason=rule.reason,
            message=rule.text(f"{profile.count(rule.count)} of {ok} answers") + ".",
        )
        for rule in _RULES
        if (profile.share(rule.count, Count.OK) or 0.0) > rule.allowed
    ]
    if troubles := list(_client_troubles(profile, event_loop_lag_p99)):
        found.append(
            Concern(
                reason=Reason.CLIENT_SATURATED,
                message=f"{'. '.join(troubles)}. Raise workers.replicas or workers.processes, or "
                "give the workers more CPU.",
            )
        )
    return tuple(found)


def find_uneven_load(servers: Iterable[ServerCounts]) -> tuple[Concern, ...]:
    """Name the replicas that answered nothing, or less than half of their fair share.

    A Service hands out connections, not requests, and each stays where it is. With few connections
    some replicas idle, so that the numbers are those of a smaller service than the one that is
    paid for. Nothing is said when the counters of a replica are not known.
    """
    counted = requests_by_replica(servers)
    total = sum(counted.values())
    fair = total / max(len(counted), 1)
    few = sorted((n, name) for name, n in counted.items() if n < fair * LEAST_SHARE)
    if not few:
        return ()
    named = ", ".join(f"{name} {count or 'none'}" for count, name in few[:_MOST_NAMED])
    more = f" and {len(few) - _MOST_NAMED} others" if len(few) > _MOST_NAMED else ""
    message = (
        f"{len(few)} of {len(counted)} replicas answered less than half of their fair share of "
        f"{total} requests, which is {fair:.4g}: {named}{more}. A connection stays with one "
        "replica: raise the concurrency, or set endpoint.via to Endpoints, which goes to the "
        "replicas in turn."
    )
    return (Concern(reason=Reason.UNEVEN_LOAD, message=message),)


def _client_troubles(profile: Profile, lag: float | None) -> Iterator[str]:
    """Say in which ways the client was not up to the load, worst evidence first."""
    if exhausted := profile.errors.get(CLIENT_EXHAUSTED):
        yield (
            f"{exhausted} requests failed since a worker had no port, socket or memory left, which "
            "says nothing about the server"
        )
    if lag is not None and lag > MAX_EVENT_LOOP_LAG:
        yield (
            f"The event loop of a worker lagged {lag * 1e3:.1f} ms at p99 (at most "
            f"{MAX_EVENT_LOOP_LAG * 1e3:.0f} ms is sound), which is in every latency"
        )
    sent = profile.histograms.get("send_lag")
    late = sent.percentile(99) if sent is not None else None
    if late is not None and late / 1e9 > MAX_SEND_LAG:
        yield (
            f"Requests were sent {late / 1e6:.1f} ms late at p99 (at most "
            f"{MAX_SEND_LAG * 1e3:.0f} ms is sound) though nothing held them up, so the load was "
            "not the planned one"
        )
