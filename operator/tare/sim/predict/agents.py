"""Agents on a server model: what a given KV memory means for sessions that come and go.

Sessions arrive as a Poisson process, think, come back with a longer context, and find it cached or
not (`core.agents`). The two published machines are known: continuous batching with the cost of
reading memory and computing, and one slot that serves a turn at a time. Long runs of them are
compiled when numba is there; the numbers are the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import fmean
from typing import TYPE_CHECKING, Final

from tare.sim.core.agents import Agents, simulate_agents
from tare.sim.core.areas import average
from tare.sim.core.pool import CACHED, EVICTED, EVICTED_UNITS, REJECTED, USED
from tare.sim.core.steps import HITS, LOOKUPS, PREEMPTIONS, STUCK, Limits
from tare.sim.core.turns import Server, simulate_turns
from tare.sim.models.load import ServerModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.sim.models.load import ServerModel

__all__ = ["PUBLISHED", "AgentsOutcome", "Span", "run_agents"]

PUBLISHED: Final = Agents(
    rate=0.5,
    first_low=1000.0,
    first_high=3000.0,
    later=500.0,
    output=200.0,
    again=0.8,
    pause=3.0,
    whole=False,
)
"""The sessions of the published tutorial."""
_NS: Final = 1e9
_BUSY: Final = 0.95
_UNKNOWN: Final = ("sequence", "prefill", "attention")
"""Costs that the published engine does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """A value over several seeds."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Span:
        """Return mean, smallest and largest of at least one value."""
        return cls(mean=fmean(values), low=min(values), high=max(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsOutcome:
    """What a run with one seed saw; times in seconds, memory in tokens."""

    hit_rate: float
    """Share of the turns that found their context: some of it with batching, all of it with one
    slot, where a session's first turn does not count."""
    time_to_first_token: float | None
    """Mean; None for one slot, which is not asked when its first token comes."""
    response: float
    """Mean time of a turn."""
    used: float
    cached: float
    evicted_entries: int
    """Whole prefixes that were evicted, from time 0 on, as the counts below."""
    evicted_tokens: float
    preemptions: int
    rejected: int
    stuck: int
    busy: float

    @property
    def stable(self) -> bool:
        """Whether the server has time to catch up."""
        return self.busy <= _BUSY


def run_agents(
    model: ServerModel,
    agents: Agents,
    *,
    horizon: float,
    warmup: float,
    seed: int,
    fast: bool,
) -> AgentsOutcome:
    """Run sessions on a server from an empty one to the horizon.

    Raises:
        ServerModelError: the server is neither of the two machines.
    """
    if model.scheduler == "slots":
        return _turns(model, agents, horizon=horizon, warmup=warmup, seed=seed, fast=fast)
    limits = _limits(model)
    run = simulate_agents(agents, limits, horizon=horizon, warmup=warmup, seed=seed, fast=fast)
    counts = run.engine_counts
    return AgentsOutcome(
        hit_rate=counts[HITS] / max(counts[LOOKUPS], 1),
        time_to_first_token=_mean(run.first_token),
        response=_mean(run.latency),
        used=average(run.pool_levels, USED, warmup, horizon),
        cached=average(run.pool_levels, CACHED, warmup, horizon),
        evicted_entries=run.pool_counts[EVICTED],
        evicted_tokens=run.pool_sums[EVICTED_UNITS],
        preemptions=counts[PREEMPTIONS],
        rejected=0,
        stuck=counts[STUCK],
        busy=average(run.busy, 0, warmup, horizon),
    )


def _turns(
    model: ServerModel, agents: Agents, *, horizon: float, warmup: float, seed: int, fast: bool
) -> AgentsOutcome:
    server = _server(model)
    run = simulate_turns(agents, server, horizon=horizon, warmup=warmup, seed=seed, fast=fast)
    return AgentsOutcome(
        hit_rate=_mean(run.hits),
        time_to_first_token=None,
        response=_mean(run.latency),
        used=average(run.pool_levels, USED, warmup, horizon),
        cached=average(run.pool_levels, CACHED, warmup, horizon),
        evicted_entries=run.pool_counts[EVICTED],
        evicted_tokens=run.pool_sums[EVICTED_UNITS],
        preemptions=0,
        rejected=run.pool_counts[REJECTED],
        stuck=0,
        busy=average(run.busy, 0, warmup, horizon),
    )


def _limits(model: ServerModel) -> Limits:
    settings, cost = model.settings, model.settings.cost
    foreign = [name for name in _UNKNOWN if getattr(cost, name)]
    if foreign or settings.overhead_ns:
        given = ", ".join([*(f"cost.{name}" for name in foreign)] or ["overhead"])
        raise ServerModelError(
            f"{model.name}: agents run on an engine that knows the costs step, kv_token and token "
            f"alone, and this one has {given}; use chapter-5, or set them to 0"
        )
    return Limits(
        budget=float(settings.max_num_batched_tokens),
        max_requests=settings.max_num_seqs,
        block=float(settings.block_size),
        capacity=float(settings.kv_blocks * settings.block_size),
        alpha=cost.token / _NS,
        omega=cost.step / _NS,
        beta=cost.kv_token / _NS,
        jump=True,
    )


def _server(model: ServerModel) -> Server:
    settings, cost = model.settings, model.settings.cost
    if settings.max_num_seqs != 1 or settings.patience_ns is not None or settings.overhead_ns:
        raise ServerModelError(
            f"{model.name}: with slots, agents run on a server of one slot without overhead and "
            "patience; use chapter-4, or a server with scheduler batching"
        )
    return Server(
        capacity=float(settings.kv_blocks * settings.block_size),
        # A block of one token: holds are exact then, and prefixes go as a whole.
        block=float(settings.block_size) if settings.block_size > 1 else 0.0,
        prompt=cost.prefill / _NS,
        output=cost.step / _NS,
    )


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0
