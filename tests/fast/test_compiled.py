"""Compiled and plain simulations are the same to the last bit: `make test-fast`, which needs numba.

They have a folder of their own, since numba is optional and large: where it is missing there is
nothing to skip.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.agents import AGENTS, CHAPTER_4, LIMITS, averaged
from tare.sim.core.agents import simulate_agents
from tare.sim.core.pool import CACHED, EVICTED, EVICTED_UNITS, USED
from tare.sim.core.steps import HITS, ITERATIONS, LOOKUPS
from tare.sim.core.turns import simulate_turns
from tare.sim.program.load import load

MODELS = Path(__file__).parents[2] / "examples" / "models"


@pytest.mark.parametrize("keyed", [False, True])
def test_a_program_is_the_same_compiled(keyed: bool) -> None:
    model = load(MODELS / "prefix-cache.sq")
    plain, fast = (model.run({"C": 2e4}, keyed=keyed, fast=fast) for fast in (False, True))
    assert plain == fast


def test_sessions_on_an_engine_are_the_same_compiled() -> None:
    busy = AGENTS._replace(rate=1.8)
    plain, fast = (
        simulate_agents(busy, LIMITS, horizon=200.0, warmup=20.0, fast=fast)
        for fast in (False, True)
    )
    assert plain == fast


@pytest.mark.parametrize("capacity", [2e5, 2e4])
@pytest.mark.parametrize("block", [0.0, 16.0])
def test_sessions_before_one_server_are_the_same_compiled(capacity: float, block: float) -> None:
    server = CHAPTER_4._replace(capacity=capacity, block=block)
    plain, fast = (
        simulate_turns(AGENTS, server, horizon=5000.0, warmup=500.0, fast=fast)
        for fast in (False, True)
    )
    assert plain == fast


def test_chapter_five_is_reproduced_to_the_digit() -> None:
    run = simulate_agents(AGENTS, LIMITS, horizon=20_000.0, warmup=2_000.0, fast=True)
    counts = run.engine_counts
    assert counts[ITERATIONS] == 9_164_050
    assert f"{counts[HITS] / counts[LOOKUPS]:.4f}" == "0.7927"
    assert f"{sum(run.first_token) / len(run.first_token):.4f}" == "0.0181"
    assert f"{sum(run.latency) / len(run.latency):.4f}" == "0.0633"
    assert (run.pool_counts[EVICTED], run.pool_sums[EVICTED_UNITS]) == (218, 1_760_208)
    assert f"{averaged(run.pool_levels, USED, 2_000.0, 20_000.0):.1f}" == "729.8"
    assert averaged(run.pool_levels, CACHED, 2_000.0, 20_000.0) == pytest.approx(28_514.0, abs=2)
    assert f"{averaged(run.busy, 0, 2_000.0, 20_000.0):.3f}" == "0.138"
