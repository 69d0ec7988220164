"""The attempt book: standing orders, held requests, and workers that come, come again and go."""

from __future__ import annotations

import asyncio

import pytest

from support.clock import FakeClock
from support.workers import KEY, Changes, identity, progress, register, result, wait
from tare.decide.children import TrialKey
from tare.measure.messages import Command, CommandKind, WorkerState
from tare.runtime import book as module
from tare.runtime.book import (
    AttemptBook,
    AttemptOverError,
    IndexTakenError,
    UnknownWorkerError,
    applies,
)

WAITING, READY, RUNNING = WorkerState.WAITING, WorkerState.READY, WorkerState.RUNNING
SENT, DRAINED, STOPPED = WorkerState.SENT, WorkerState.DRAINED, WorkerState.STOPPED
IDLE = Command(do=CommandKind.IDLE)
PREPARE_0, START_0 = (
    Command(do=CommandKind.PREPARE, phase=0),
    Command(do=CommandKind.START, phase=0),
)
PREPARE_1 = Command(do=CommandKind.PREPARE, phase=1)
STOP, FINISH = Command(do=CommandKind.STOP), Command(do=CommandKind.FINISH)
OTHER = TrialKey(1, 0, 1)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
def book(clock: FakeClock, changes: Changes) -> AttemptBook:
    book = AttemptBook(clock, changes)
    book.expect({KEY})
    return book


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Held requests end at once."""
    monkeypatch.setattr(module, "HOLD", 0.001)


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(5):
        await asyncio.sleep(0)


# Which command applies to which state


PLACES = [
    (WAITING, -1),
    (READY, 0),
    (RUNNING, 0),
    (SENT, 0),
    (DRAINED, 0),
    (READY, 1),
    (RUNNING, 1),
    (DRAINED, 1),
    (STOPPED, 1),
]
FOLLOWED = {
    "prepare 0": (PREPARE_0, {(WAITING, -1)}),
    "prepare 1": (PREPARE_1, {(WAITING, -1), (READY, 0), (DRAINED, 0)}),
    "start 0": (START_0, {(READY, 0)}),
    "start 1": (Command(do=CommandKind.START, phase=1), {(READY, 1), (SENT, 0)}),
    "finish": (FINISH, {(DRAINED, 0), (DRAINED, 1)}),
    "stop": (STOP, set(PLACES) - {(STOPPED, 1)}),
    "idle": (IDLE, set()),
}


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize(("state", "phase"), PLACES)
def test_a_command_applies_where_it_has_still_to_be_followed(
    name: str, state: WorkerState, phase: int
) -> None:
    command, places = FOLLOWED[name]
    assert applies(command, state, phase) is ((state, phase) in places)


@pytest.mark.parametrize(("state", "phase"), PLACES)
async def test_a_standing_order_answers_who_comes_later_and_only_where_it_applies(
    book: AttemptBook, state: WorkerState, phase: int, impatient: None
) -> None:
    del impatient
    book.register(register())
    book.command(KEY, PREPARE_1)
    answer = await book.wait(wait(0, state, phase))
    assert answer == (PREPARE_1 if applies(PREPARE_1, state, phase) else IDLE)


# Holding and releasing


async def test_all_workers_are_released_together(book: AttemptBook) -> None:
    for index in (0, 1, 2):
        book.register(register(index))
    held = [asyncio.create_task(book.wait(wait(index, READY, 0))) for index in (0, 1, 2)]
    await settled()
    assert book.connected == 3
    assert not any(task.done() for task in held)
    book.command(KEY, START_0)
    assert await asyncio.gather(*held) == [START_0] * 3
    assert book.connected == 0


async def test_only_those_to_whom_it_applies_are_released(book: AttemptBook) -> None:
    for index in (0, 1):
        book.register(register(index))
    drained = asyncio.create_task(book.wait(wait(0, DRAINED, 0)))
    running = asyncio.create_task(book.wait(wait(1, RUNNING, 0)))
    await settled()
    book.command(KEY, PREPARE_1)
    await settled()
    assert (drained.done(), running.done()) == (True, False)
    book.command(KEY, STOP)
    assert await running == STOP


async def test_a_command_to_one_attempt_leaves_the_next_one_waiting(book: AttemptBook) -> None:
    book.expect({KEY, OTHER})
    book.register(register(key=OTHER))
    next_one = asyncio.create_task(book.wait(wait(key=OTHER)))
    await settled()
    book.command(KEY, PREPARE_0)
    await settled()
    assert not next_one.done()
    next_one.cancel()


async def test_who_asks_again_gets_the_answer_that_was_lost(book: AttemptBook) -> None:
    book.register(register())
    book.command(KEY, START_0)
    assert await book.wait(wait(0, READY, 0)) == START_0
    assert await book.wait(wait(0, READY, 0)) == START_0


async def test_a_second_request_takes_the_place_of_the_first(book: AttemptBook) -> None:
    book.register(register())
    first = asyncio.create_task(book.wait(wait()))
    await settled()
    second = asyncio.create_task(book.wait(wait()))
    assert await first == IDLE
    await settled()
    assert book.connected == 1
    book.command(KEY, PREPARE_0)
    assert await second == PREPARE_0


async def test_a_request_without_a_command_ends_idle(book: AttemptBook, impatient: None) -> None:
    del impatient
    book.register(register())
    assert await book.wait(wait()) == IDLE
    assert book.connected == 0


async def test_a_worker_whose_connection_broke_is_not_connected(book: AttemptBook) -> None:
    book.register(register())
    held = asyncio.create_task(book.wait(wait()))
    await settled()
    held.cancel()
    await settled()
    assert book.connected == 0
    book.command(KEY, PREPARE_0)
    assert await book.wait(wait()) == PREPARE_0


# Registering


def test_a_driver_that_has_not_looked_yet_expects_nothing_in_particular(
    clock: FakeClock, changes: Changes
) -> None:
    book = AttemptBook(clock, changes)
    assert not book.informed
    book.expect(())
    assert book.informed


def test_a_worker_registers_and_wakes_the_driver(book: AttemptBook, changes: Changes) -> None:
    book.register(register())
    view = book.views()[KEY][0]
    assert (view.state, view.phase, view.has_result) == (WAITING, -1, False)
    assert (view.pod_uid, view.pod_name) == ("pod-0-0-1-0", "run-0-0-1-0")
    assert changes.count == 1


def test_after_a_restart_a_worker_says_where_it_is(book: AttemptBook) -> None:
    book.register(register(state=RUNNING, phase=1))
    view = book.views()[KEY][0]
    assert (view.state, view.phase) == (RUNNING, 1)


def test_registering_again_changes_nothing_but_the_state(book: AttemptBook) -> None:
    book.register(register())
    book.register(register(state=DRAINED, phase=0))
    assert list(book.views()[KEY]) == [0]
    assert book.views()[KEY][0].state is DRAINED


def test_a_second_pod_of_the_same_index_is_refused(book: AttemptBook) -> None:
    """https://kubernetes.io/docs/concepts/workloads/controllers/job/ says that this may happen."""
    book.register(register())
    with pytest.raises(IndexTakenError):
        book.register(register(pod="another"))
    assert book.views()[KEY][0].pod_uid == "pod-0-0-1-0"


async def test_nor_may_it_ask_report_or_hand_in(book: AttemptBook) -> None:
    book.register(register())
    with pytest.raises(IndexTakenError):
        await book.wait(wait(pod="another"))


def test_a_worker_of_an_attempt_that_nobody_expects_is_sent_home(book: AttemptBook) -> None:
    with pytest.raises(AttemptOverError):
        book.register(register(key=OTHER))
    assert OTHER not in book.views()


async def test_a_worker_of_an_attempt_that_is_over_is_sent_home_whatever_it_says(
    book: AttemptBook,
) -> None:
    book.register(register())
    book.expect({OTHER})
    book.drop({OTHER})
    with pytest.raises(AttemptOverError):
        await book.wait(wait())
    with pytest.raises(AttemptOverError):
        book.progress(progress())
    with pytest.raises(AttemptOverError):
        await book.result(result())


async def test_a_worker_that_never_registered_here_is_asked_to(book: AttemptBook) -> None:
    with pytest.raises(UnknownWorkerError):
        await book.wait(wait())
    with pytest.raises(UnknownWorkerError):
        book.progress(progress())
    with pytest.raises(UnknownWorkerError):
        await book.result(result())


def test_a_new_pod_may_take_the_index_of_one_that_has_said_goodbye(book: AttemptBook) -> None:
    """As when a Job that was deleted before its turn is created again."""
    book.register(register(state=STOPPED))
    book.register(register(pod="another"))
    view = book.views()[KEY][0]
    assert (view.pod_uid, view.state) == ("another", WAITING)


def test_a_new_pod_may_take_the_index_of_an_attempt_that_was_forgotten(book: AttemptBook) -> None:
    book.register(register())
    book.drop(())
    book.register(register(pod="another"))
    assert book.views()[KEY][0].pod_uid == "another"


# Silence


async def test_a_worker_is_silent_since_its_last_word(book: AttemptBook, clock: FakeClock) -> None:
    book.register(register())
    clock.advance(30)
    assert book.views()[KEY][0].silent == 30
    book.progress(progress())
    assert book.views()[KEY][0].silent == 0


async def test_a_worker_that_is_held_is_not_silent(book: AttemptBook, clock: FakeClock) -> None:
    book.register(register())
    held = asyncio.create_task(book.wait(wait()))
    await settled()
    clock.advance(300)
    assert book.views()[KEY][0].silent == 0
    book.command(KEY, PREPARE_0)
    await held
    clock.advance(5)
    assert book.views()[KEY][0].silent == 5


# Progress and results


def test_requests_are_those_of_the_phase_that_runs(book: AttemptBook) -> None:
    book.register(register(state=RUNNING, phase=0))
    book.progress(progress(phase=0))
    view = book.views()[KEY][0]
    assert (view.issued, view.failed) == (100, 10)
    book.register(register(state=RUNNING, phase=1))
    view = book.views()[KEY][0]
    assert (view.issued, view.failed) == (0, 0)


def test_the_newest_progress_of_each_worker_that_runs_is_shown(book: AttemptBook) -> None:
    for index in (0, 1):
        book.register(register(index, state=RUNNING, phase=0))
    book.progress(progress(0, issued=1))
    book.progress(progress(0, issued=2))
    book.progress(progress(1, issued=7))
    assert [report.issued for report in book.running(KEY)] == [2, 7]
    book.register(register(1, state=WorkerState.DRAINED, phase=0))
    assert [report.issued for report in book.running(KEY)] == [2]
    assert book.running(OTHER) == []


def test_what_a_worker_said_of_the_phase_before_is_not_shown_in_the_next(
    book: AttemptBook,
) -> None:
    book.register(register(state=RUNNING, phase=0))
    book.progress(progress(phase=0))
    book.register(register(state=RUNNING, phase=1))
    assert book.running(KEY) == []


async def test_a_result_is_stored_only_after_the_driver_says_so(
    book: AttemptBook, changes: Changes
) -> None:
    book.register(register())
    offered = asyncio.create_task(book.result(result()))
    await settled()
    assert book.views()[KEY][0].has_result
    assert changes.count == 2
    assert not offered.done()
    book.mark_stored(KEY)
    assert await offered is True
    assert await book.result(result()) is True


async def test_the_first_result_counts_however_often_one_is_offered(
    book: AttemptBook, impatient: None
) -> None:
    del impatient
    book.register(register())
    assert await book.result(result(cpu_seconds=1.0)) is False
    assert await book.result(result(cpu_seconds=2.0)) is False
    assert [found.cpu_seconds for found in book.results(KEY)] == [1.0]


async def test_results_come_in_the_order_of_the_workers(book: AttemptBook, impatient: None) -> None:
    del impatient
    for index in (1, 0):
        book.register(register(index))
        await book.result(result(index))
    assert [found.worker for found in book.results(KEY)] == [identity(0), identity(1)]
    assert book.results(OTHER) == []


async def test_forgetting_an_attempt_lets_its_workers_end(book: AttemptBook) -> None:
    book.register(register())
    offered = asyncio.create_task(book.result(result()))
    await settled()
    book.drop({OTHER})
    assert await offered is True
    assert book.views() == {}


def test_forgetting_keeps_what_is_wanted(book: AttemptBook) -> None:
    book.expect({KEY, OTHER})
    book.register(register())
    book.register(register(key=OTHER))
    book.drop({OTHER})
    assert list(book.views()) == [OTHER]


def test_the_first_worker_tells_what_all_of_them_send(book: AttemptBook) -> None:
    assert book.dataset(KEY) == {}
    book.register(register(1, dataset={"entries": 8}))
    book.register(register(0))
    assert book.dataset(KEY) == {"entries": 8}
