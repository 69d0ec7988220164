"""Chapter 4 of the published model, by the kernel that the benches time."""

from __future__ import annotations

from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.agents import AGENTS, CHAPTER_4, averaged
from tare.sim.core.pool import ADMISSIONS, CACHED, EVICTED, REJECTED, USED
from tare.sim.core.statistics import batch_means
from tare.sim.core.turns import ARRIVED, ENDED, EVENTS, TURNS, Server, TurnsRun, simulate_turns

_HORIZON, _WARMUP = 20_000.0, 2_000.0

# Capacity, hit rate, response, evicted entries, mean cached, rejected sessions: published but for
# the last.
TABLE = [
    (2e5, "1.0000", "0.0635", 0, "28834.6", 0),
    (6e4, "0.9791", "0.0672", 789, "28107.1", 0),
    (4e4, "0.8681", "0.0848", 5_220, "23989.7", 0),
    (3e4, "0.7194", "0.1049", 11_130, "19093.8", 0),
    (2e4, "0.4894", "0.1296", 20_196, "12055.2", 28),
    (1.5e4, "0.3564", "0.1383", 25_243, "8214.8", 166),
    (1e4, "0.2600", "0.1307", 27_696, "4948.6", 784),
]


def run(capacity: float, **changes: float) -> TurnsRun:
    server = CHAPTER_4._replace(capacity=capacity, **changes)
    return simulate_turns(AGENTS, server, horizon=_HORIZON, warmup=_WARMUP)


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row[0]:g}")
def test_every_row_of_chapter_four_is_reproduced_to_the_digit(
    row: tuple[float, str, str, int, str, int],
) -> None:
    found = run(row[0])
    assert row[1:] == (
        f"{fmean(found.hits):.4f}",
        f"{fmean(found.latency):.4f}",
        found.pool_counts[EVICTED],
        f"{averaged(found.pool_levels, CACHED, _WARMUP, _HORIZON):.1f}",
        found.pool_counts[REJECTED],
    )


def test_the_counters_of_the_published_report_are_reproduced() -> None:
    found = run(2e5)
    counts = found.counts
    assert (counts[EVENTS], counts[ARRIVED], counts[ENDED], counts[TURNS]) == (
        97_621,
        9_905,
        8_903,
        43_947,
    )
    assert found.pool_counts[ADMISSIONS] == 48_810
    assert len(found.hits) == 35_044
    assert f"{averaged(found.pool_levels, USED, _WARMUP, _HORIZON):.1f}" == "758.5"
    assert f"{averaged(found.busy, 0, _WARMUP, _HORIZON):.3f}" == "0.137"
    assert f"{batch_means(found.latency):.4f}" == "0.0007"


def test_without_limits_the_cache_holds_what_the_closed_form_says() -> None:
    # λ · Z · Σ p^j (2200 + 700 (j - 1)) = 30,000 tokens, with a standard deviation of 718 a run.
    runs = [
        simulate_turns(
            AGENTS, Server(1e9, 0.0, 2e-5, 2e-4), horizon=_HORIZON, warmup=_WARMUP, seed=seed
        )
        for seed in range(1, 5)
    ]
    cached = fmean(averaged(found.pool_levels, CACHED, _WARMUP, _HORIZON) for found in runs)
    assert abs(cached - 30_000) < 3 * 718 / 2


def test_blocks_are_whole_and_evicted_from_the_end() -> None:
    found = run(4e4, block=16.0)
    assert found.pool_levels[CACHED] % 16 == 0
    assert found.pool_counts[EVICTED] < 5_220


def test_whole_tokens_are_whole() -> None:
    whole = AGENTS._replace(whole=True)
    found = simulate_turns(whole, CHAPTER_4, horizon=200.0, warmup=0.0)
    assert found.pool_levels[CACHED] % 1 == 0


@given(
    capacity=st.floats(3_000, 30_000),
    block=st.sampled_from([0.0, 16.0]),
    rate=st.floats(0.2, 3.0),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=40)
def test_used_and_cached_never_exceed_the_capacity(
    capacity: float, block: float, rate: float, seed: int
) -> None:
    agents, server = AGENTS._replace(rate=rate), Server(capacity, block, 2e-5, 2e-4)
    for horizon in (5.0, 10.0, 20.0, 40.0):
        found = simulate_turns(agents, server, horizon=horizon, warmup=0.0, seed=seed)
        used, cached = found.pool_levels[USED], found.pool_levels[CACHED]
        assert used + cached <= capacity + 1e-6
        assert min(used, cached) > -1e-6
