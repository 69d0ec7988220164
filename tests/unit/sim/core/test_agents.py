"""Chapters 5 and 6 of the published model; long runs are in tests/bench/simulator.py."""

from __future__ import annotations

import math

import pytest

from support.agents import AGENTS, LIMITS, averaged
from tare.sim.core.agents import AgentsRun, simulate_agents
from tare.sim.core.pool import ADMISSIONS, CACHED, EVICTED, EVICTED_UNITS
from tare.sim.core.steps import HITS, ITERATIONS, LOOKUPS, PREEMPTIONS

_HORIZON, _WARMUP = 2000.0, 200.0


@pytest.fixture(scope="module")
def published() -> AgentsRun:
    return simulate_agents(AGENTS, LIMITS, horizon=_HORIZON, warmup=_WARMUP)


def test_a_tenth_of_chapter_five_is_reproduced_to_the_digit(published: AgentsRun) -> None:
    # From an independent program that agrees with the published run of 20,000 s in every digit.
    engine = published.engine_counts
    assert engine[ITERATIONS] == 901_575
    assert published.counts[1:4] == [1002, 4366, 901]
    assert f"{engine[HITS] / engine[LOOKUPS]:.4f}" == "0.7911"
    assert f"{sum(published.first_token) / len(published.first_token):.4f}" == "0.0180"
    assert f"{sum(published.latency) / len(published.latency):.4f}" == "0.0628"
    assert published.pool_counts[ADMISSIONS] == 4863
    assert (published.pool_counts[EVICTED], published.pool_sums[EVICTED_UNITS]) == (11, 93008)
    cached = averaged(published.pool_levels, CACHED, _WARMUP, _HORIZON)
    assert cached == pytest.approx(27144.1, abs=0.1)


def test_jumping_over_equal_iterations_changes_no_counter_and_no_digit() -> None:
    busy = AGENTS._replace(rate=1.8)
    jumps = simulate_agents(busy, LIMITS, horizon=300.0, warmup=30.0)
    steps = simulate_agents(busy, LIMITS._replace(jump=False), horizon=300.0, warmup=30.0)
    assert jumps.counts[1:4] == steps.counts[1:4]
    assert jumps.engine_counts == steps.engine_counts
    assert jumps.pool_counts == steps.pool_counts
    assert jumps.first_token == pytest.approx(steps.first_token, abs=1e-9)
    assert jumps.latency == pytest.approx(steps.latency, abs=1e-9)
    assert jumps.counts[0] * 2 < steps.counts[0]


@pytest.mark.parametrize(
    ("rate", "preempted", "first_token"),
    [(1.5, (0, 400), (0.03, 0.25)), (2.0, (600, 3500), (0.2, 3.0))],
)
def test_near_the_cliff_preemptions_and_waiting_are_within_the_range_of_twelve_seeds(
    rate: float, preempted: tuple[int, int], first_token: tuple[float, float]
) -> None:
    run = simulate_agents(AGENTS._replace(rate=rate), LIMITS, horizon=600.0, warmup=60.0, seed=3)
    assert preempted[0] <= run.engine_counts[PREEMPTIONS] <= preempted[1]
    assert first_token[0] < sum(run.first_token) / len(run.first_token) < first_token[1]


def test_ten_times_the_memory_removes_the_cliff() -> None:
    roomy = LIMITS._replace(capacity=LIMITS.capacity * 10)
    run = simulate_agents(AGENTS._replace(rate=2.0), roomy, horizon=600.0, warmup=60.0)
    assert run.engine_counts[PREEMPTIONS] == 0
    assert sum(run.first_token) / len(run.first_token) < 0.03


def test_whole_tokens_are_whole() -> None:
    whole = AGENTS._replace(whole=True)
    run = simulate_agents(whole, LIMITS, horizon=100.0, warmup=0.0)
    assert all(math.isfinite(seconds) for seconds in run.latency)
    assert run.pool_levels[CACHED] % LIMITS.block == 0
