"""How far apart the workers of a trial started, without a clock of any pod."""

from __future__ import annotations

import asyncio

import pytest

from support.clock import FakeClock
from support.workers import KEY, register, wait
from tare.decide.children import TrialKey
from tare.measure.messages import Command, CommandKind, WorkerState
from tare.runtime.book import AttemptBook

READY, RUNNING, OTHER = WorkerState.READY, WorkerState.RUNNING, TrialKey(1, 0, 1)
START_0 = Command(do=CommandKind.START, phase=0)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def book(clock: FakeClock) -> AttemptBook:
    book = AttemptBook(clock, lambda: None)
    book.expect({KEY})
    return book


async def test_the_start_skew_is_the_spread_of_the_starts_and_the_slowest_round_trip(
    book: AttemptBook, clock: FakeClock
) -> None:
    for index, trip in ((0, 0.002), (1, 0.005)):
        book.register(register(index))
        book.command(KEY, START_0)
        await book.wait(wait(index, READY, 0, round_trip=trip))
        clock.advance(0.25)
    assert book.start_skew(KEY) == {0: pytest.approx(0.255)}


async def test_a_start_that_is_asked_for_again_does_not_move_the_first_one(
    book: AttemptBook, clock: FakeClock
) -> None:
    book.register(register())
    book.command(KEY, START_0)
    await book.wait(wait(0, READY, 0))
    clock.advance(9)
    await book.wait(wait(0, READY, 0))
    assert book.start_skew(KEY) == {0: 0.0}


async def test_of_a_gate_that_an_earlier_operator_opened_nothing_is_known(
    book: AttemptBook,
) -> None:
    for index in (0, 1):
        book.register(register(index))
    held = [asyncio.create_task(book.wait(wait(i, RUNNING, 0))) for i in (0, 1)]
    while book.connected < 2:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0)
    book.command(KEY, START_0)
    assert book.start_skew(KEY) == {}
    for task in held:
        task.cancel()


async def test_a_gate_that_one_worker_has_not_passed_yet_has_no_skew(book: AttemptBook) -> None:
    for index in (0, 1):
        book.register(register(index))
    book.command(KEY, START_0)
    await book.wait(wait(0, READY, 0))
    assert book.start_skew(KEY) == {}
    await book.wait(wait(1, READY, 0))
    assert book.start_skew(KEY) == {0: 0.0}


async def test_workers_that_are_released_together_have_no_spread(book: AttemptBook) -> None:
    for index in (0, 1):
        book.register(register(index))
    held = [asyncio.create_task(book.wait(wait(i, READY, 0, round_trip=0.001))) for i in (0, 1)]
    while book.connected < 2:  # noqa: ASYNC110 - no event tells
        await asyncio.sleep(0)
    book.command(KEY, START_0)
    await asyncio.gather(*held)
    assert book.start_skew(KEY) == {0: pytest.approx(0.001)}
    assert book.start_skew(OTHER) == {}
