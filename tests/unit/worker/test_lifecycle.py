from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import pytest

from support.events import content, normal
from support.load import closed_loop, work_order
from support.scripted import Script, ScriptedServer
from support.scripted_operator import ScriptedOperator
from tare.measure.counts import Count
from tare.measure.messages import CommandKind, WorkerState
from tare.measure.wire import encode
from tare.net.origin import parse_base_url
from tare.worker.inbox import Inbox, RefusedError
from tare.worker.lifecycle import EXIT_DONE, EXIT_TERMINATED, Lifecycle
from tare.worker.load import Load
from tare.worker.orders import read_assignment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tare.plan.order import PhaseOrder

QUICK = Script(writes=[(0, data) for _, data in normal()])
ENDLESS = Script(writes=[(0, content("a"))], end="silence")


class _Worker:
    """A worker under a scripted operator and in front of a scripted model server."""

    def __init__(self, operator: ScriptedOperator, server: ScriptedServer, life: Lifecycle) -> None:
        self.operator = operator
        self.server = server
        self.life = life
        self.running = asyncio.create_task(life.run())

    async def lead_to(self, state: WorkerState, phase: int = 0) -> None:
        """Prepare `phase`, and start it if `state` lies behind that."""
        self.operator.tell(CommandKind.PREPARE, phase)
        await self.operator.until(WorkerState.READY, phase)
        if state is not WorkerState.READY:
            self.operator.tell(CommandKind.START, phase)
            await self.operator.until(state, phase)

    async def exit_code(self) -> int:
        return await asyncio.wait_for(self.running, 5)


@contextlib.asynccontextmanager
async def _worker(
    script: Script = QUICK,
    *phases: PhaseOrder,
    token: str = "token",  # noqa: S107 - made up
) -> AsyncIterator[_Worker]:
    async with ScriptedOperator() as operator, ScriptedServer(script) as server:
        order = work_order(server, phases=phases or (closed_loop(requests=4, concurrency=2),))
        assignment = read_assignment({"POD_UID": "pod", "POD_NAME": "w-0"}, encode(order))
        inbox = Inbox(parse_base_url(operator.url), token)
        worker = _Worker(operator, server, Lifecycle(assignment.identity, Load(assignment), inbox))
        try:
            yield worker
        finally:
            worker.running.cancel()
            with contextlib.suppress(asyncio.CancelledError, RefusedError):
                await worker.running
            inbox.close()


async def test_a_worker_goes_through_its_phases_and_hands_the_result_in() -> None:
    two = (closed_loop(requests=4), closed_loop(requests=6, concurrency=3))
    async with _worker(QUICK, *two) as worker:
        for phase in (0, 1):
            await worker.lead_to(WorkerState.DRAINED, phase)
        worker.operator.tell(CommandKind.FINISH)
        assert await worker.exit_code() == EXIT_DONE
        (result,) = worker.operator.results
        assert result.complete
        assert [phase.counts[Count.OK] for phase in result.phases] == [4, 6]
        assert len(worker.server.requests) == 10
        (register,) = worker.operator.registers
        assert (register.worker.pod_uid, register.dataset["entries"]) == ("pod", 100)
        states = [(wait.state, wait.phase) for wait in worker.operator.waits]
        assert list(dict.fromkeys(states)) == [
            (WorkerState.WAITING, -1),
            (WorkerState.READY, 0),
            (WorkerState.RUNNING, 0),
            (WorkerState.DRAINED, 0),
            (WorkerState.READY, 1),
            (WorkerState.RUNNING, 1),
            (WorkerState.DRAINED, 1),
        ]
        assert worker.operator.waits[-1].round_trip > 0


async def test_connections_are_open_before_the_gate() -> None:
    async with _worker(QUICK, closed_loop(requests=8, concurrency=8)) as worker:
        await worker.lead_to(WorkerState.READY)
        assert worker.server.connections == 8
        worker.operator.tell(CommandKind.START, 0)
        await worker.operator.until(WorkerState.DRAINED, 0)
        assert worker.server.connections == 8


async def test_a_stop_ends_the_load_and_hands_in_a_partial_result() -> None:
    async with _worker(ENDLESS, closed_loop(requests=50, concurrency=5)) as worker:
        await worker.lead_to(WorkerState.RUNNING)
        worker.operator.stored = False
        worker.operator.tell(CommandKind.STOP)
        await worker.operator.until(WorkerState.STOPPED, 0)
        await asyncio.sleep(0.01)
        assert worker.server.in_flight == 0
        worker.operator.stored = True
        assert await worker.exit_code() == EXIT_DONE
        assert len(worker.server.requests) == 5
        result = worker.operator.results[-1]
        assert not result.complete
        assert result.phases[0].counts[Count.CANCELLED] == 5
        assert all(other == result for other in worker.operator.results)


async def test_one_wait_is_held_while_load_is_sent() -> None:
    async with _worker(ENDLESS) as worker:
        await worker.lead_to(WorkerState.RUNNING)
        await asyncio.sleep(0.02)
        assert (worker.operator.held, worker.operator.most_held) == (1, 1)


async def test_a_signal_stops_the_load_and_says_so_before_the_end() -> None:
    async with _worker(ENDLESS) as worker:
        await worker.lead_to(WorkerState.RUNNING)
        worker.life.terminate()
        assert await worker.exit_code() == EXIT_TERMINATED
        assert worker.operator.waits[-1].state is WorkerState.STOPPED
        assert not worker.operator.results[-1].complete


async def test_a_signal_ends_a_worker_that_never_reached_the_operator() -> None:
    async with _worker() as worker:
        worker.operator.refuse["/v1/register"] = 503
        await asyncio.sleep(0.05)
        worker.life.terminate()
        assert await worker.exit_code() == EXIT_TERMINATED


async def test_registration_is_tried_until_the_operator_answers() -> None:
    async with _worker() as worker:
        worker.operator.refuse["/v1/register"] = 503
        await asyncio.sleep(0.1)
        worker.operator.refuse.clear()
        await worker.operator.until(WorkerState.WAITING, -1)


async def test_a_restarted_operator_is_told_where_the_worker_is() -> None:
    async with _worker(ENDLESS) as worker:
        await worker.lead_to(WorkerState.RUNNING)
        worker.operator.forget()
        worker.operator.tell(CommandKind.STOP)  # Whatever is answered next, 404 comes first.
        assert await worker.exit_code() == EXIT_DONE
        assert worker.operator.registers[-1].state is WorkerState.STOPPED


async def test_an_operator_that_was_away_finds_the_worker_running() -> None:
    async with _worker(ENDLESS) as worker:
        await worker.lead_to(WorkerState.RUNNING)
        await worker.operator.__aexit__(None, None, None)
        worker.operator.forget()
        await asyncio.sleep(0.1)
        await worker.operator.__aenter__()
        await worker.operator.until_registered(2)
        register = worker.operator.registers[-1]
        assert (register.state, register.phase) == (WorkerState.RUNNING, 0)
        assert len(worker.server.requests) == 2


async def test_a_worker_that_is_not_needed_ends_quietly() -> None:
    async with _worker() as worker:
        worker.operator.refuse["/v1/register"] = 410
        assert await worker.exit_code() == EXIT_DONE


@pytest.mark.parametrize("status", [409, 400])
async def test_a_worker_that_is_refused_says_why(status: int) -> None:
    async with _worker() as worker:
        worker.operator.refuse["/v1/register"] = status
        with pytest.raises(RefusedError, match=f"register: {status} refused by the test"):
            await worker.exit_code()


async def test_a_wrong_token_is_a_refusal() -> None:
    async with _worker(token="other") as worker:
        with pytest.raises(RefusedError, match="401 wrong token"):
            await worker.exit_code()
