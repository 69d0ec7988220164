"""The plan of a phase: due times, their number and what is cancelled depend on the seed alone."""

from __future__ import annotations

from itertools import islice, pairwise
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.plan.order import PhaseOrder, RampOrder
from tare.plan.schedule import (
    due_times,
    is_cancelled,
    most_requests,
    prompt_entry,
    slot_openings,
    total_requests,
    worker_share,
)


def phase(kind: str = "poisson", **more: Any) -> PhaseOrder:
    return PhaseOrder(**{"name": "p", "kind": "profiling", "type": kind, **more})


def plan(order: PhaseOrder, workers: int) -> list[tuple[int, float]]:
    """Number and due time of every request, as its worker computes them."""
    shares = [worker_share(order, index, workers) for index in range(workers)]
    return sorted(
        pair
        for share in shares
        for pair in zip(share.numbers(), due_times(order, share.numbers()), strict=True)
    )


RAMPS = st.none() | st.builds(
    RampOrder,
    type=st.sampled_from(["linear", "exponential"]),
    seconds=st.floats(0.1, 5),
    start=st.floats(0.01, 1),
)
OPEN_LOOPS = st.builds(
    phase,
    st.sampled_from(["constant", "poisson", "gamma"]),
    rate=st.floats(1, 50),
    duration=st.floats(0.1, 5),
    requests=st.none() | st.integers(1, 100),
    max_concurrency=st.none() | st.integers(1, 20),
    smoothness=st.floats(0.1, 10),
    ramp=RAMPS,
    seed=st.integers(0, 1000),
)


@settings(deadline=None)
@given(OPEN_LOOPS, st.integers(1, 40))
def test_any_number_of_workers_computes_the_same_plan(order: PhaseOrder, workers: int) -> None:
    together = plan(order, 1)

    assert plan(order, workers) == together
    assert len(together) == total_requests(order)
    assert [due for _, due in together] == sorted(due for _, due in together)


@settings(deadline=None)
@given(OPEN_LOOPS)
def test_what_is_due_in_the_duration_is_planned_and_nothing_after_it(order: PhaseOrder) -> None:
    total = total_requests(order) or 0
    dues = list(due_times(order, range(total + 1)))
    end = order.duration or 0.0

    assert all(due <= end for due in dues[:total])
    assert total == order.requests or dues[total] >= end - 1e-6


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("kind", "smoothness", "variation"),
    [("poisson", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 1.0, 1.0), ("gamma", 4.0, 0.5)],
)
def test_gaps_have_the_mean_and_the_variation_of_their_process(
    kind: str, smoothness: float, variation: float, seed: int
) -> None:
    order = phase(kind, rate=200.0, requests=60_000, smoothness=smoothness, seed=seed)
    gaps = [after - before for before, after in pairwise(due_times(order, range(60_000)))]

    # Five standard errors of a mean of so many gaps.
    assert fmean(gaps) == pytest.approx(0.005, rel=0.0205 * variation)
    assert stdev(gaps) / fmean(gaps) == pytest.approx(variation, rel=0.05)


def test_poisson_over_four_workers_is_poisson_when_merged() -> None:
    order = phase(rate=200.0, duration=300.0, seed=7)
    gaps = [after - before for (_, before), (_, after) in pairwise(plan(order, 4))]

    assert fmean(gaps) == pytest.approx(0.005, rel=0.02)
    assert 0.97 <= stdev(gaps) / fmean(gaps) <= 1.03


def test_another_seed_or_phase_has_other_due_times() -> None:
    def first(**more: Any) -> list[float]:
        return list(due_times(phase(rate=10.0, requests=9, **more), range(9)))

    assert first(seed=1) == first(seed=1)
    assert first(seed=1) != first(seed=2)
    assert first(seed=1) != first(seed=1, name="warmup")


def test_a_ramped_poisson_process_keeps_exponential_gaps_in_stretched_time() -> None:
    ramp = RampOrder(seconds=100.0, start=0.0)
    dues = list(due_times(phase(rate=100.0, requests=20_000, ramp=ramp, seed=3), range(20_000)))
    early = sum(due < 50 for due in dues)

    # A quarter of the triangle under the ramp: 50 s * 25/s on average; sqrt(1250) is 35.
    assert early == pytest.approx(1250, abs=5 * 35)


@settings(deadline=None)
@given(OPEN_LOOPS)
def test_the_bound_of_a_plan_holds_without_drawing_it(order: PhaseOrder) -> None:
    # Six standard deviations of a count; for a few requests the distribution has longer tails.
    assert (total_requests(order) or 0) <= (most_requests(order) or 0) + 10


def test_a_closed_loop_has_no_due_times_and_the_number_that_it_is_given() -> None:
    order = phase("concurrency", concurrency=4, duration=5.0)

    assert total_requests(order) is None
    assert most_requests(order) is None
    assert total_requests(phase("concurrency", concurrency=4, requests=9)) == 9


def test_slots_open_one_by_one_in_a_ramp_whoever_owns_them() -> None:
    ramp = RampOrder(seconds=3.0, start=1.0)
    order = phase("concurrency", concurrency=4, requests=9, ramp=ramp)
    openings = [slot_openings(order, worker_share(order, index, 2)) for index in (0, 1)]

    assert openings == [[0.0, 2.0], [1.0, 3.0]]


@given(st.floats(0.01, 0.99), st.integers(0, 100))
def test_the_seed_chooses_what_is_cancelled(share: float, seed: int) -> None:
    order = phase(rate=1.0, requests=1000, cancel_share=share, seed=seed)
    chosen = sum(is_cancelled(order, number) for number in range(1000))

    # Six standard deviations of a share of one half.
    assert chosen == pytest.approx(1000 * share, abs=95)


def test_nothing_or_everything_can_be_chosen() -> None:
    for share in (0.0, 1.0):
        order = phase(rate=1.0, requests=100, cancel_share=share)
        assert {is_cancelled(order, number) for number in range(100)} == {bool(share)}


def test_due_times_at_a_constant_rate_are_multiples_of_one_gap() -> None:
    order = phase("constant", rate=4.0, requests=9)

    assert list(islice(due_times(order, range(9)), 3)) == [0.0, 0.25, 0.5]
    assert list(due_times(order, [1, 5])) == [0.25, 1.25]


def test_every_phase_takes_the_prompts_in_order_from_the_first_one() -> None:
    assert [prompt_entry(number, 3) for number in range(7)] == [0, 1, 2, 0, 1, 2, 0]
