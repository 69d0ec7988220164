from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.plan.order import PhaseOrder
from tare.plan.schedule import due_times, total_requests, worker_share

if TYPE_CHECKING:
    from tare.plan.shares import Share

WORKERS = st.integers(1, 40)


def closed(concurrency: int, requests: int | None = None) -> PhaseOrder:
    return PhaseOrder(
        name="p", kind="profiling", type="concurrency", concurrency=concurrency, requests=requests
    )


def constant(
    rate: float,
    duration: float | None = None,
    requests: int | None = None,
    max_concurrency: int | None = None,
) -> PhaseOrder:
    return PhaseOrder(
        name="p",
        kind="profiling",
        type="constant",
        rate=rate,
        duration=duration,
        requests=requests,
        max_concurrency=max_concurrency,
    )


def shares(phase: PhaseOrder, workers: int) -> list[Share]:
    return [worker_share(phase, index, workers) for index in range(workers)]


PHASES = st.one_of(
    st.builds(closed, concurrency=st.integers(1, 50), requests=st.integers(0, 300)),
    st.builds(
        constant,
        rate=st.floats(0.1, 50),
        duration=st.floats(0.1, 5),
        requests=st.none() | st.integers(0, 300),
        max_concurrency=st.none() | st.integers(1, 50),
    ),
)


@settings(deadline=None)
@given(PHASES, WORKERS)
def test_the_workers_together_send_the_whole_plan_and_nothing_twice(
    phase: PhaseOrder, workers: int
) -> None:
    sent = [number for share in shares(phase, workers) for number in share.numbers()]

    assert sorted(sent) == list(range(total_requests(phase) or 0))


@settings(deadline=None)
@given(PHASES, WORKERS)
def test_a_worker_knows_how_many_requests_it_owns_and_which(
    phase: PhaseOrder, workers: int
) -> None:
    for share in shares(phase, workers):
        numbers = list(share.numbers())
        assert share.requests == len(numbers)
        assert numbers == sorted(numbers)
        assert all(share.owns(number) for number in numbers)


@given(st.integers(1, 200), WORKERS)
def test_concurrency_is_split_without_loss_and_evenly(concurrency: int, workers: int) -> None:
    parts = [share.concurrency or 0 for share in shares(closed(concurrency), workers)]

    assert sum(parts) == concurrency
    assert max(parts) - min(parts) <= 1
    assert parts == sorted(parts, reverse=True)


def test_more_workers_than_slots_leave_the_last_ones_idle() -> None:
    parts = shares(closed(concurrency=3, requests=10), workers=5)

    assert [share.concurrency for share in parts] == [1, 1, 1, 0, 0]
    assert [share.requests for share in parts] == [4, 3, 3, 0, 0]
    assert list(parts[4].numbers()) == []


def test_a_worker_with_twice_the_slots_sends_twice_the_requests() -> None:
    # Split evenly, the second worker would go on alone for the last third of the phase.
    parts = shares(closed(concurrency=3, requests=300), workers=2)

    assert [share.concurrency for share in parts] == [2, 1]
    assert [share.requests for share in parts] == [200, 100]


def test_an_open_loop_without_a_bound_deals_requests_in_turn() -> None:
    parts = shares(constant(rate=40, requests=8), workers=4)

    assert [list(share.numbers()) for share in parts] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert [share.concurrency for share in parts] == [None] * 4


def test_a_bounded_open_loop_deals_requests_by_slots() -> None:
    parts = shares(constant(rate=40, requests=9, max_concurrency=1), workers=2)

    assert [share.concurrency for share in parts] == [1, 0]
    assert [share.requests for share in parts] == [9, 0]


def test_a_phase_that_only_time_ends_never_runs_out_of_numbers() -> None:
    share = worker_share(closed(concurrency=4), 1, 2)

    assert share.requests is None
    assert list(islice(share.numbers(), 4)) == [1, 3, 5, 7]


@pytest.mark.parametrize(
    ("rate", "duration", "requests", "total"),
    [
        (10, 10, None, 100),
        (10, 10, 40, 40),
        (10, 1, 40, 10),
        (8.3, 30, None, 249),
        (0.7, 10, None, 7),
        (0.25, 10, None, 3),
        (1 / 3, 9, None, 3),
        (5, None, 12, 12),
        (5, None, None, None),
    ],
)
def test_requests_due_before_the_end_are_all_sent(
    rate: float, duration: float | None, requests: int | None, total: int | None
) -> None:
    assert total_requests(constant(rate, duration, requests)) == total


@given(rate=st.integers(1, 100), duration=st.integers(1, 100), workers=WORKERS)
def test_every_due_time_lies_within_the_duration(rate: int, duration: int, workers: int) -> None:
    phase = constant(rate=rate, duration=duration)

    lasts = [max(share.numbers(), default=0) for share in shares(phase, workers)]

    (due,) = due_times(phase, [max(lasts)])
    assert due == pytest.approx(duration - 1 / rate)


@pytest.mark.parametrize("index", [-1, 2])
def test_a_worker_that_does_not_exist_has_no_share(index: int) -> None:
    with pytest.raises(ValueError, match="allowed are 0 to 1"):
        worker_share(closed(concurrency=2), index, 2)
