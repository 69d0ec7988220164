"""Seamless phases in a worker: the next phase begins while answers of this one are awaited."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.events import content, normal
from support.eventually import eventually
from support.load import closed_loop, work_order
from support.scripted import Script, ScriptedServer, Seen
from support.scripted_operator import ScriptedOperator
from tare.measure.counts import Count
from tare.measure.messages import CommandKind, WorkerState
from tare.measure.wire import encode
from tare.net.origin import parse_base_url
from tare.worker.crew import Crew
from tare.worker.inbox import Inbox
from tare.worker.lifecycle import EXIT_DONE, Lifecycle
from tare.worker.load import Load
from tare.worker.mate import follow, share_of_process
from tare.worker.orders import OrderError, read_assignment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tare.plan.order import PhaseOrder, WorkOrder

QUICK = Script(writes=[(0, data) for _, data in normal()])
ENDLESS = Script(writes=[(0, content("a"))], end="silence")
FIRST = replace(closed_loop(requests=6, concurrency=6), name="first", seamless=True)
SECOND = replace(closed_loop(requests=4, concurrency=2), name="second")
SIX = 6


class Held:
    """A server that answers the first requests when the test says so, and later ones at once."""

    def __init__(self, held: int = SIX) -> None:
        self.server = ScriptedServer(self._answer)
        self._held = held

    def _answer(self, _: Seen) -> Script:
        return ENDLESS if len(self.server.requests) <= self._held else QUICK

    @property
    def connections(self) -> int:
        """Open connections; a request that is cancelled closes its own."""
        return len(self.server._open)

    def fail_held(self) -> None:
        """End what is held: their connections are closed."""
        self.server.drop_connections()


@contextlib.asynccontextmanager
async def crew_of(order: WorkOrder) -> AsyncIterator[Crew]:
    """Several processes as one worker, in this event loop."""
    assignment = read_assignment({}, encode(order))
    pairs = [socket.socketpair() for _ in range(order.processes)]
    mates = [
        asyncio.create_task(follow(theirs, share_of_process(assignment, number)))
        for number, (_, theirs) in enumerate(pairs)
    ]
    crew = await Crew.muster(assignment, [ours for ours, _ in pairs])
    try:
        yield crew
    finally:
        crew.stop()
        await crew.collect()
        crew.close()
        await asyncio.wait_for(asyncio.gather(*mates), 5)


@contextlib.asynccontextmanager
async def carrier_of(order: WorkOrder) -> AsyncIterator[Load | Crew]:
    """What carries an order: one process or several."""
    if order.processes > 1:
        async with crew_of(order) as crew:
            yield crew
    else:
        load = Load(read_assignment({}, encode(order)))
        try:
            yield load
        finally:
            load.stop()


class Told:
    """What a carrier said of a phase."""

    def __init__(self) -> None:
        self.sent = asyncio.Event()
        self.drained = asyncio.Event()


def start(load: Load | Crew, phase: int) -> Told:
    told = Told()
    load.start(phase, told.drained.set, told.sent.set)
    return told


async def until(holds: Callable[[], bool]) -> None:
    async def reached() -> bool:
        return holds()

    await eventually(reached, 5, lambda: "it never came true", every=0.005)


async def soon(event: asyncio.Event) -> None:
    await asyncio.wait_for(event.wait(), 5)


@pytest.mark.parametrize("processes", [1, 3])
async def test_answers_count_for_the_phase_that_asked_for_them(processes: int) -> None:
    held = Held()
    async with held.server as server:
        order = work_order(server, phases=(FIRST, SECOND), processes=processes)
        async with carrier_of(order) as load:
            await load.prepare(0)
            first = start(load, 0)
            await soon(first.sent)
            await until(lambda: len(server.requests) == SIX)
            await load.prepare(1)
            second = start(load, 1)
            await until(lambda: len(server.requests) == SIX + 4 and not server.in_flight)
            held.fail_held()
            await soon(first.drained)
            await soon(second.drained)
            assert load.drained == 1
            result = await load.collect()
    assert result.complete
    assert [phase.name for phase in result.phases] == ["first", "second"]
    one, two = (phase.counts for phase in result.phases)
    assert (one[Count.ISSUED], one.get(Count.OK, 0), one[Count.FAILED]) == (6, 0, 6)
    assert (two[Count.ISSUED], two[Count.OK], two.get(Count.FAILED, 0)) == (4, 4, 0)


async def test_a_phase_has_not_drained_before_the_one_that_it_overlaps() -> None:
    held = Held()
    async with (
        held.server as server,
        carrier_of(work_order(server, phases=(FIRST, SECOND))) as load,
    ):
        first = start(load, 0)
        await until(lambda: len(server.requests) == SIX)
        second = start(load, 1)
        await until(lambda: load.progress() is None)
        assert load.drained == -1
        assert not second.drained.is_set()
        held.fail_held()
        await soon(second.drained)
        assert first.drained.is_set()


@pytest.mark.parametrize("processes", [1, 2])
async def test_a_stop_cancels_what_is_in_flight_of_both_phases(processes: int) -> None:
    held = Held(held=100)
    async with held.server as server:
        order = work_order(server, phases=(FIRST, SECOND), processes=processes)
        async with carrier_of(order) as load:
            await load.prepare(0)
            await soon(start(load, 0).sent)
            await load.prepare(1)
            start(load, 1)
            await until(lambda: len(server.requests) == SIX + 2)
            load.stop()
            result = await load.collect()
            await until(lambda: not held.connections)
    assert not result.complete
    assert [phase.counts[Count.CANCELLED] for phase in result.phases] == [6, 2]


@pytest.mark.parametrize("processes", [1, 2])
async def test_the_grace_of_each_phase_is_its_own(processes: int) -> None:
    async with ScriptedServer(ENDLESS) as server:
        first = replace(FIRST, grace=0.05)
        order = work_order(server, phases=(first, SECOND), processes=processes)
        async with carrier_of(order) as load:
            await load.prepare(0)
            told = start(load, 0)
            await soon(told.sent)
            start(load, 1)
            await soon(told.drained)
            assert load.drained == 0
            load.stop()
            result = await load.collect()
    assert [dict(phase.errors) for phase in result.phases] == [{}, {}]
    assert [phase.counts[Count.CANCELLED] for phase in result.phases] == [6, 2]


async def test_connections_count_for_the_phase_that_opened_them() -> None:
    """Those that were opened ahead count for none."""
    held = Held()
    async with (
        held.server as server,
        carrier_of(work_order(server, phases=(FIRST, SECOND))) as load,
    ):
        start(load, 0)
        await until(lambda: len(server.requests) == SIX)
        await load.prepare(1)
        assert server.connections == SIX + 2
        second = start(load, 1)
        await until(lambda: len(server.requests) == SIX + 4)
        held.fail_held()
        await soon(second.drained)
        result = await load.collect()
    assert result.phases[1].connections_opened == 0


async def test_progress_is_that_of_the_phase_that_was_started_last() -> None:
    async with (
        ScriptedServer(ENDLESS) as server,
        carrier_of(work_order(server, phases=(FIRST, SECOND))) as load,
    ):
        await soon(start(load, 0).sent)
        before = load.progress()
        start(load, 1)
        after = load.progress()
    assert before is not None
    assert after is not None
    assert (before.phase, before.issued) == (0, 6)
    assert (after.phase, after.issued) == (1, 2)


async def test_an_idle_process_does_not_hold_the_next_phase_up() -> None:
    """One request for two processes: the other has sent all of its share from the start."""
    phases = (replace(FIRST, requests=1, concurrency=1), SECOND)
    async with (
        ScriptedServer(QUICK) as server,
        carrier_of(work_order(server, phases=phases, processes=2)) as load,
    ):
        await load.prepare(0)
        await soon(start(load, 0).sent)
        await load.prepare(1)
        second = start(load, 1)
        await soon(second.drained)
        assert load.drained == 1


def test_a_seamless_last_phase_is_a_bad_order() -> None:
    order = work_order(phases=(SECOND, FIRST))
    order = replace(order, target=replace(order.target, urls=("http://model",)))
    with pytest.raises(OrderError, match=r"phases\[1\] \(first\): seamless leads to a next phase"):
        read_assignment({}, encode(order))


class Led:
    """A worker under a scripted operator."""

    def __init__(self, operator: ScriptedOperator, life: Lifecycle, load: Load) -> None:
        self.operator = operator
        self.life = life
        self.load = load
        self.running = asyncio.create_task(life.run())

    async def begin(self) -> None:
        """Start the first phase."""
        self.operator.tell(CommandKind.PREPARE, 0)
        await self.operator.until(WorkerState.READY, 0)
        self.operator.tell(CommandKind.START, 0)

    async def until_drained(self, phase: int) -> None:
        await until(lambda: self.operator.waits[-1].drained >= phase)


@contextlib.asynccontextmanager
async def led(server: ScriptedServer, *phases: PhaseOrder) -> AsyncIterator[Led]:
    async with ScriptedOperator() as operator:
        assignment = read_assignment({}, encode(work_order(server, phases=phases)))
        inbox = Inbox(parse_base_url(operator.url), "token")
        load = Load(assignment)
        worker = Led(operator, Lifecycle(assignment.identity, load, inbox), load)
        try:
            yield worker
        finally:
            worker.running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await worker.running
            inbox.close()


async def test_a_worker_says_sent_when_it_could_begin_the_next_phase_at_once() -> None:
    held = Held()
    async with held.server as server, led(server, FIRST, SECOND) as worker:
        await worker.begin()
        await worker.operator.until(WorkerState.SENT, 0)
        assert server.connections == SIX + 2
        assert worker.operator.waits[-1].drained == -1
        worker.operator.tell(CommandKind.START, 1)
        await worker.operator.until(WorkerState.RUNNING, 1)
        held.fail_held()
        await worker.operator.until(WorkerState.DRAINED, 1)
        worker.operator.tell(CommandKind.FINISH)
        assert await asyncio.wait_for(worker.running, 5) == EXIT_DONE
        (result,) = worker.operator.results
    states = [(wait.state, wait.phase) for wait in worker.operator.waits]
    assert list(dict.fromkeys(states)) == [
        (WorkerState.WAITING, -1),
        (WorkerState.READY, 0),
        (WorkerState.RUNNING, 0),
        (WorkerState.SENT, 0),
        (WorkerState.RUNNING, 1),
        (WorkerState.DRAINED, 1),
    ]
    assert [phase.counts[Count.ISSUED] for phase in result.phases] == [6, 4]


async def test_a_worker_says_at_once_that_an_earlier_phase_has_drained() -> None:
    """While the next one runs: the server's profiler may be waiting for that."""
    held = Held(held=100)
    async with held.server as server, led(server, replace(FIRST, grace=0.2), SECOND) as worker:
        await worker.begin()
        await worker.operator.until(WorkerState.SENT, 0)
        worker.operator.tell(CommandKind.START, 1)
        await worker.until_drained(0)
        said = worker.operator.waits[-1]
        assert (said.state, said.phase, said.drained) == (WorkerState.RUNNING, 1, 0)


async def test_a_worker_whose_answers_are_all_there_still_waits_for_the_gate() -> None:
    async with ScriptedServer(QUICK) as server, led(server, FIRST, SECOND) as worker:
        await worker.begin()
        await worker.operator.until(WorkerState.SENT, 0)
        await worker.until_drained(0)
        assert worker.operator.waits[-1].state is WorkerState.SENT
        assert len(server.requests) == SIX
        worker.operator.tell(CommandKind.START, 1)
        await worker.operator.until(WorkerState.DRAINED, 1)


async def test_a_stop_while_phases_overlap_ends_both() -> None:
    held = Held(held=100)
    async with held.server as server, led(server, FIRST, SECOND) as worker:
        await worker.begin()
        await worker.operator.until(WorkerState.SENT, 0)
        worker.operator.tell(CommandKind.START, 1)
        await worker.operator.until(WorkerState.RUNNING, 1)
        worker.operator.tell(CommandKind.STOP)
        await worker.operator.until(WorkerState.STOPPED, 1)
        await until(lambda: not held.connections)
        assert await asyncio.wait_for(worker.running, 5) == EXIT_DONE
        assert not worker.operator.results[-1].complete


async def test_a_restarted_operator_is_told_what_has_drained() -> None:
    held = Held(held=100)
    async with held.server as server, led(server, replace(FIRST, grace=0.05), SECOND) as worker:
        await worker.begin()
        await worker.operator.until(WorkerState.SENT, 0)
        worker.operator.tell(CommandKind.START, 1)
        await worker.until_drained(0)
        await worker.operator.__aexit__(None, None, None)
        worker.operator.forget()
        await worker.operator.__aenter__()
        await worker.operator.until_registered(2)
        register = worker.operator.registers[-1]
    assert (register.state, register.phase, register.drained) == (WorkerState.RUNNING, 1, 0)
