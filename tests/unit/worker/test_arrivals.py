from __future__ import annotations

from typing import Any

import pytest

from tare.plan.order import PhaseOrder, RampOrder
from tare.plan.schedule import worker_share
from tare.worker.arrivals import arrivals_of

MS = 1_000_000


def _closed(**more: Any) -> PhaseOrder:
    return PhaseOrder(name="p", kind="profiling", type="concurrency", **more)


def _open(**more: Any) -> PhaseOrder:
    return PhaseOrder(name="p", kind="profiling", type="constant", **more)


def test_a_closed_loop_sends_whenever_a_slot_is_free() -> None:
    phase = _closed(concurrency=2, requests=3)
    arrivals = arrivals_of(phase, worker_share(phase, 0, 1))
    assert arrivals.next_due(7, 1) == 7
    assert arrivals.next_due(7, 2) is None
    assert [arrivals.take() for _ in range(3)] == [0, 1, 2]
    assert arrivals.exhausted


def test_an_open_loop_sends_at_its_moments_however_late_it_is() -> None:
    phase = _open(rate=10.0, requests=3)
    arrivals = arrivals_of(phase, worker_share(phase, 0, 1))
    dues = []
    while not arrivals.exhausted:
        dues.append(arrivals.next_due(10_000 * MS, 99))
        arrivals.take()
    assert dues == [0, 100 * MS, 200 * MS]


def test_an_open_loop_waits_for_a_slot_and_keeps_the_planned_moment() -> None:
    phase = _open(rate=10.0, requests=3, max_concurrency=1)
    arrivals = arrivals_of(phase, worker_share(phase, 0, 1))
    arrivals.take()
    assert arrivals.next_due(900 * MS, 1) is None
    assert arrivals.next_due(900 * MS, 0) == 100 * MS


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_together_send_the_plan(workers: int) -> None:
    phase = _open(rate=10.0, duration=2.0)
    sent = []
    for index in range(workers):
        arrivals = arrivals_of(phase, worker_share(phase, index, workers))
        while not arrivals.exhausted:
            due = arrivals.next_due(0, 0)
            sent.append((due, arrivals.take()))
    assert sorted(sent, key=lambda s: s[1]) == [(100 * MS * k, k) for k in range(20)]


def test_a_closed_loop_that_ramps_up_opens_its_slots_one_by_one() -> None:
    phase = _closed(concurrency=3, requests=9, ramp=RampOrder(seconds=2.0, start=1.0))
    arrivals = arrivals_of(phase, worker_share(phase, 0, 1))
    assert arrivals.next_due(0, 0) == 0
    assert arrivals.next_due(0, 1) == 1000 * MS
    assert arrivals.next_due(1500 * MS, 1) == 1500 * MS
    assert arrivals.next_due(1500 * MS, 2) == 2000 * MS
    assert arrivals.next_due(2000 * MS, 3) is None


@pytest.mark.parametrize("workers", [1, 4])
def test_random_arrivals_are_the_same_plan_for_any_number_of_workers(workers: int) -> None:
    phase = PhaseOrder(
        name="p", kind="profiling", type="poisson", rate=50.0, duration=4.0, max_concurrency=7
    )
    planned = {}
    for index in range(workers):
        arrivals = arrivals_of(phase, worker_share(phase, index, workers))
        while not arrivals.exhausted:
            due = arrivals.next_due(10_000 * MS, 0)
            planned[arrivals.take()] = due
    whole = arrivals_of(phase, worker_share(phase, 0, 1))
    expected = []
    while not whole.exhausted:
        expected.append(whole.next_due(0, 0))
        whole.take()
    assert [planned[number] for number in sorted(planned)] == expected
