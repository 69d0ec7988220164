"""The numbers of one run, by their names in the report.

`arrivals`, `events` and what pools count (`admissions`, `evicted`, `rejected`) count from time 0;
samples, `ended`, `turns` and what stages count leave the warm-up out. Averages over time are taken
from the warm-up to the horizon.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare.sim.core import pool as pools
from tare.sim.core import stages
from tare.sim.core.areas import average
from tare.sim.core.statistics import SampleSummary, summarize
from tare.sim.program.constants import Settings
from tare.sim.program.errors import ProgramError
from tare.sim.program.names import observed_at

if TYPE_CHECKING:
    from tare.sim.program.names import Names
    from tare.sim.program.syntax import Program

__all__ = ["Observation", "Outcome", "PoolOutcome", "StageOutcome", "collect"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Samples of one `observe`."""

    name: str
    summary: SampleSummary
    samples: Sequence[float]
    """In order of time."""
    turns: Sequence[int]
    """Of keyed runs: session and turn of each sample in one number; empty otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOutcome:
    """What happened at one stage; times in seconds."""

    name: str
    mean_number: float
    utilization: float
    """Share of time with any job there."""
    completed: int
    throughput: float
    mean_wait: float
    mean_service: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolOutcome:
    """What happened in one pool."""

    name: str
    mean_used: float
    mean_cached: float
    mean_queue: float
    mean_holders: float
    mean_wait: float
    admissions: int
    evicted_entries: int
    """Prefixes of which nothing is left."""
    evicted_units: float
    rejected: int
    """Holds larger than the pool: their sessions left at once and are in no mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that one run says."""

    settings: Settings
    events: int
    arrivals: int
    ended: int
    turns: int
    mean_live: float
    observations: Sequence[Observation]
    stages: Sequence[StageOutcome]
    pools: Sequence[PoolOutcome]

    @property
    def rejected(self) -> int:
        """Sessions that any pool rejected."""
        return sum(pool.rejected for pool in self.pools)


def collect(program: Program, names: Names, settings: Settings, raw: Any) -> Outcome:
    """Name what a kernel returned.

    Raises:
        ProgramError: a sample is no number.
    """
    (events, arrivals, ended, turns), live, in_pools, at_stages, samples = raw
    start, end = settings.warmup, settings.horizon
    return Outcome(
        settings=settings,
        events=events,
        arrivals=arrivals,
        ended=ended,
        turns=turns,
        mean_live=average(live, 0, start, end),
        observations=[
            _observation(program, name, *found)
            for name, found in zip(names.observations, samples, strict=True)
        ],
        stages=[
            _stage(stage.name, start, end, *found)
            for stage, found in zip(program.stages, at_stages, strict=True)
        ],
        pools=[
            _pool(pool.name, start, end, *found)
            for pool, found in zip(program.pools, in_pools, strict=True)
        ],
    )


def _observation(
    program: Program, name: str, samples: list[float], turns: list[int]
) -> Observation:
    summary = summarize(samples)
    if summary.mean is not None and not math.isfinite(summary.mean):
        raise ProgramError(
            f"a sample of {name!r} is no finite number; is an attribute read before it is set?",
            observed_at(program, name),
        )
    return Observation(name=name, summary=summary, samples=samples, turns=turns)


def _stage(
    name: str, start: float, end: float, levels: list[float], counts: list[int], sums: list[float]
) -> StageOutcome:
    completed = counts[stages.DONE]
    return StageOutcome(
        name=name,
        mean_number=average(levels, stages.NUMBER, start, end),
        utilization=average(levels, stages.BUSY, start, end),
        completed=completed,
        throughput=completed / (end - start),
        mean_wait=sums[stages.WAITED] / completed if completed else 0.0,
        mean_service=sums[stages.SERVED] / completed if completed else 0.0,
    )


def _pool(
    name: str, start: float, end: float, levels: list[float], counts: list[int], sums: list[float]
) -> PoolOutcome:
    waited = counts[pools.WAITED]
    return PoolOutcome(
        name=name,
        mean_used=average(levels, pools.USED, start, end),
        mean_cached=average(levels, pools.CACHED, start, end),
        mean_queue=average(levels, pools.QUEUED, start, end),
        mean_holders=average(levels, pools.HOLDERS, start, end),
        mean_wait=sums[pools.WAITS] / waited if waited else 0.0,
        admissions=counts[pools.ADMISSIONS],
        evicted_entries=counts[pools.EVICTED],
        evicted_units=sums[pools.EVICTED_UNITS],
        rejected=counts[pools.REJECTED],
    )
