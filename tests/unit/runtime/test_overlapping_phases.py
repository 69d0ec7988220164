"""What the attempt book keeps of workers in whom two phases overlap."""

from __future__ import annotations

import asyncio

import pytest

from support.clock import FakeClock
from support.workers import KEY, Changes, progress, register, wait
from tare.measure.messages import Command, CommandKind, WorkerState
from tare.runtime.book import AttemptBook

SENT, RUNNING = WorkerState.SENT, WorkerState.RUNNING


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def book(changes: Changes) -> AttemptBook:
    return AttemptBook(FakeClock(), changes)


async def ask(book: AttemptBook, state: WorkerState, phase: int, drained: int) -> Command:
    """Ask as a worker does, and take what is standing; nobody answers later."""
    asking = asyncio.create_task(book.wait(wait(0, state, phase, drained=drained)))
    for _ in range(3):
        await asyncio.sleep(0)
    if not asking.done():
        asking.cancel()
        return Command(do=CommandKind.IDLE)
    return asking.result()


async def test_that_an_earlier_phase_has_drained_is_news(
    book: AttemptBook, changes: Changes
) -> None:
    book.register(register(state=RUNNING, phase=1))
    assert book.views()[KEY][0].drained == -1
    before = changes.count
    await ask(book, RUNNING, 1, -1)
    assert changes.count == before
    await ask(book, RUNNING, 1, 0)
    assert changes.count == before + 1
    assert book.views()[KEY][0].drained == 0


def test_after_a_restart_a_worker_says_what_has_drained(book: AttemptBook) -> None:
    book.register(register(state=RUNNING, phase=2, drained=1))
    view = book.views()[KEY][0]
    assert (view.state, view.phase, view.drained) == (RUNNING, 2, 1)


async def test_who_has_sent_a_phase_is_given_the_start_of_the_next_and_nothing_else(
    book: AttemptBook,
) -> None:
    book.register(register(state=RUNNING, phase=0))
    for do, phase in (
        (CommandKind.START, 0),
        (CommandKind.PREPARE, 1),
        (CommandKind.START, 2),
        (CommandKind.FINISH, -1),
    ):
        book.command(KEY, Command(do=do, phase=phase))
        assert (await ask(book, SENT, 0, -1)).do is CommandKind.IDLE
    start = Command(do=CommandKind.START, phase=1)
    book.command(KEY, start)
    assert await ask(book, SENT, 0, -1) == start
    assert await ask(book, SENT, 0, 0) == start, "the answer may have been lost"
    assert (await ask(book, RUNNING, 1, 0)).do is CommandKind.IDLE
    assert list(book.start_skew(KEY)) == [1]


async def test_a_stop_reaches_who_has_sent_a_phase(book: AttemptBook) -> None:
    book.register(register(state=RUNNING, phase=0))
    book.command(KEY, Command(do=CommandKind.STOP))
    assert (await ask(book, SENT, 0, -1)).do is CommandKind.STOP


def test_the_progress_of_a_phase_is_shown_until_the_next_one_begins(book: AttemptBook) -> None:
    book.register(register(state=RUNNING, phase=0))
    book.progress(progress(phase=0))
    book.register(register(state=SENT, phase=0))
    assert [report.phase for report in book.running(KEY)] == [0]
    assert book.views()[KEY][0].issued == 100
    book.register(register(state=RUNNING, phase=1))
    assert book.running(KEY) == []
