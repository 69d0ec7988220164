"""What happened to the KV memory and the queue of a replica while it was watched."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import fmean
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.sim.core.engine import Engine

__all__ = ["PoolUsage", "Watch", "average", "combined", "grows"]

_NS: Final = 1_000_000_000
_PARTS: Final = 4
_LEAST_BACKLOG: Final = 4.0
"""Requests that wait in the last quarter; fewer are no backlog."""
_GROWTH: Final = 1.2
"""From quarter to quarter: a backlog that grows evenly from nothing has 1.4 or more."""
_FEWEST: Final = 40
"""Arrivals from which on a trend is looked for."""
_BUSY: Final = 0.95
"""Share of time: a server that has less to do catches up."""
_FEW_GIVEN_UP: Final = 0.01
"""Share of the arrivals that bad luck may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolUsage:
    """Of all replicas together, while profiling; averages are over time."""

    capacity_tokens: int
    used_tokens: float
    """Average in blocks that running requests held, as tokens."""
    cached_tokens: float
    """Average in blocks that nobody held and a prompt could find."""
    evicted_blocks: int
    preemptions: int
    arrivals: int
    """Requests that came."""
    rejected: int
    """Requests that were refused: longer than the memory, or given up."""
    given_up: int
    """Part of `rejected`: had waited for so long that they could not be done in time."""
    stuck: int
    """Requests that were preempted twice without a token between."""
    waiting: float
    """Average number of requests that waited in a server."""
    busy: float
    """Share of the time in which a server had a request."""
    backlog_grows: bool
    """Ever more requests wait: the load is more than the servers can do."""

    @property
    def instability(self) -> tuple[str, ...]:
        """Why the servers cannot carry the load, if they cannot."""
        reasons = []
        if self.backlog_grows:
            reasons.append("the backlog grows to the end")
        if self.stuck and self.busy > _BUSY:
            reasons.append("preempted requests make no progress")
        if self.given_up > _FEW_GIVEN_UP * self.arrivals:
            reasons.append("requests are given up that had waited for too long")
        return tuple(reasons)


class Watch:
    """Adds up the levels of one replica between the calls that change them."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._began = self._last = 0
        self._areas = [0] * 4
        self._before = (0, 0)
        self.rejected = self.given_up = self.stuck = 0
        self.backlog: list[int] = []
        """Requests that each arrival found waiting."""

    def begin(self, now: int) -> None:
        """Forget everything up to now."""
        self._began = self._last = now
        self._areas = [0] * 4
        self._before = self._counts()
        self.rejected = self.given_up = self.stuck = 0
        self.backlog.clear()

    def note(self, now: int) -> None:
        """Count the levels up to now; they are about to change."""
        span = now - self._last
        if span > 0:
            engine, areas = self._engine, self._areas
            areas[0] += engine.memory.held * span
            areas[1] += engine.memory.cached * span
            areas[2] += engine.waiting * span
            areas[3] += span * (engine.running > 0)
            self._last = now

    def usage(self, now: int) -> PoolUsage:
        """Sum up what was seen."""
        self.note(now)
        size = self._engine.memory.block_size
        seconds = max(now - self._began, 1)
        held, cached, waiting, busy = (area / seconds for area in self._areas)
        evicted, preemptions = (
            count - before for count, before in zip(self._counts(), self._before, strict=True)
        )
        return PoolUsage(
            capacity_tokens=self._engine.memory.capacity * size,
            used_tokens=held * size,
            cached_tokens=cached * size,
            evicted_blocks=evicted,
            preemptions=preemptions,
            arrivals=len(self.backlog),
            rejected=self.rejected + self.given_up,
            given_up=self.given_up,
            stuck=self.stuck,
            waiting=waiting,
            busy=busy,
            backlog_grows=grows(self.backlog),
        )

    def _counts(self) -> tuple[int, int]:
        return self._engine.memory.evicted, self._engine.totals.preemptions


def combined(usages: Sequence[PoolUsage]) -> PoolUsage:
    """Add up what replicas used at the same time; `busy` is that of all of them on average."""
    return PoolUsage(
        capacity_tokens=sum(usage.capacity_tokens for usage in usages),
        used_tokens=sum(usage.used_tokens for usage in usages),
        cached_tokens=sum(usage.cached_tokens for usage in usages),
        evicted_blocks=sum(usage.evicted_blocks for usage in usages),
        preemptions=sum(usage.preemptions for usage in usages),
        arrivals=sum(usage.arrivals for usage in usages),
        rejected=sum(usage.rejected for usage in usages),
        given_up=sum(usage.given_up for usage in usages),
        stuck=sum(usage.stuck for usage in usages),
        waiting=sum(usage.waiting for usage in usages),
        busy=fmean(usage.busy for usage in usages),
        backlog_grows=any(usage.backlog_grows for usage in usages),
    )


def average(usages: Sequence[PoolUsage]) -> PoolUsage:
    """Average the levels of several trials, and add up what was counted in them."""
    total = combined(usages)
    return replace(
        total,
        capacity_tokens=usages[0].capacity_tokens,
        used_tokens=total.used_tokens / len(usages),
        cached_tokens=total.cached_tokens / len(usages),
        waiting=total.waiting / len(usages),
    )


def grows(backlog: Sequence[int]) -> bool:
    """Whether what arrivals found waiting grows from quarter to quarter of them, and is not small.

    The first quarter need not be shorter than the second: it may hold a burst at the start.
    """
    if len(backlog) < _FEWEST:
        return False
    size = len(backlog) // _PARTS
    first, second, third, last = (fmean(backlog[size * k : size * (k + 1)]) for k in range(_PARTS))
    return last >= max(_LEAST_BACKLOG, first) and last > _GROWTH * third > _GROWTH**2 * second
