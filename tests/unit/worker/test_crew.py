"""Several processes as one worker; here they share the test's event loop, but for their sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.events import content, normal
from support.load import closed_loop, histogram, run_load, work_order
from support.scripted import Script, ScriptedServer
from tare.measure.counts import Count
from tare.measure.messages import Command, Progress, WorkerState
from tare.measure.wire import encode
from tare.worker.channel import Channel
from tare.worker.crew import Crew, CrewError
from tare.worker.mate import Report, follow, share_of_process
from tare.worker.orders import OrderError, read_assignment

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tare.measure.messages import WorkerResult
    from tare.plan.order import WorkOrder

QUICK = Script(writes=[(0, data) for _, data in normal()])
ENDLESS = Script(writes=[(0, content("a"))], end="silence")


@contextlib.asynccontextmanager
async def _crew(order: WorkOrder) -> AsyncIterator[Crew]:
    assignment = read_assignment({}, encode(order))
    pairs = [socket.socketpair() for _ in range(order.processes)]
    mates = [
        asyncio.create_task(follow(theirs, share_of_process(assignment, number)))
        for number, (_, theirs) in enumerate(pairs)
    ]
    try:
        crew = await Crew.muster(assignment, [ours for ours, _ in pairs])
        yield crew
        crew.close()
        await asyncio.wait_for(asyncio.gather(*mates), 5)
    finally:
        for task in mates:
            task.cancel()


async def _run(crew: Crew) -> WorkerResult:
    for phase in range(crew.phases):
        await crew.prepare(phase)
        drained = asyncio.Event()
        crew.start(phase, drained.set)
        await asyncio.wait_for(drained.wait(), 10)
    return await crew.collect()


async def test_processes_share_a_phase_and_their_results_are_one() -> None:
    first = replace(closed_loop(requests=7, concurrency=3), name="first")
    phases = (first, closed_loop(requests=20, concurrency=8))
    async with ScriptedServer(QUICK) as server:
        async with _crew(work_order(server, phases=phases, processes=3)) as crew:
            result = await _run(crew)
        prompts = [seen.json["messages"][0]["content"] for seen in server.requests]
    assert result.complete
    assert result.worker.index == 0
    assert [phase.counts[Count.OK] for phase in result.phases] == [7, 20]
    assert len(set(prompts[7:])) == 20
    assert histogram(result.phases[1], "request_latency").count == 20
    assert result.phases[1].connections_opened <= 8
    assert 0 <= result.phases[1].start_skew < 1
    assert result.cpu_seconds > 0
    assert crew.dataset["entries"] == 100


async def test_processes_of_several_workers_share_one_plan() -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(closed_loop(requests=12, concurrency=12),), workers=2)
        for index in range(2):
            await run_load(order, index=index)
        alone = {seen.body for seen in server.requests}
        assert len(server.requests) == len(alone) == 12
        server.requests.clear()
        async with _crew(replace(order, processes=3)) as crew:
            await _run(crew)
        first = {seen.body for seen in server.requests}
    assert len(server.requests) == len(first) == 6
    assert first < alone


async def test_a_stop_ends_every_process_before_the_result_is_there() -> None:
    async with ScriptedServer(ENDLESS) as server:
        order = work_order(server, phases=(closed_loop(requests=9, concurrency=4),), processes=2)
        async with _crew(order) as crew:
            await crew.prepare(0)
            drained: list[None] = []
            crew.start(0, lambda: drained.append(None))
            await asyncio.sleep(0.05)
            crew.stop()
            result = await crew.collect()
            assert crew.stopped
            assert (await crew.collect()) == result
        await asyncio.sleep(0.01)
        assert server.in_flight == 0
    assert not result.complete
    assert result.phases[0].counts[Count.CANCELLED] == 4


async def test_a_crew_that_was_stopped_prepares_nothing_more() -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(closed_loop(requests=9),), processes=2)
        async with _crew(order) as crew:
            crew.stop()
            await crew.prepare(0)
            assert not (await crew.collect()).complete
        assert server.connections == 0


async def test_an_order_that_cannot_be_followed_is_refused_with_the_reason() -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(closed_loop(requests=9),), processes=2, osl=0)
        with pytest.raises(OrderError, match=r"osl: entry 0 would have 0 tokens"):
            async with _crew(order):
                pass


async def test_a_process_that_ends_early_is_named() -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(closed_loop(requests=9),), processes=2)
        async with _crew(order) as crew:
            crew._mates[1].channel.close()
            with pytest.raises(CrewError, match="process 1 of 2 ended"):
                await crew.collect()


async def test_the_progress_of_all_processes_is_added_up() -> None:
    async with ScriptedServer(ENDLESS) as server:
        order = work_order(server, phases=(closed_loop(requests=9, concurrency=4),), processes=2)
        assignment = read_assignment({}, encode(order))
        pairs = [socket.socketpair() for _ in range(2)]
        theirs = [await Channel.over(sock) for _, sock in pairs]
        for channel in theirs:
            channel.send(Report(state=WorkerState.WAITING))
        crew = await Crew.muster(assignment, [sock for sock, _ in pairs])
        crew.start(0, lambda: None)
        assert crew.progress() is None
        progress = _progress(order)
        for channel in theirs:
            assert await channel.receive(Command)
            channel.send(Report(state=WorkerState.RUNNING, phase=0, progress=progress))
        await crew._until(lambda mate: mate.progress is not None)
        merged = crew.progress()
        crew.close()
        for channel in theirs:
            channel.close()
    assert merged is not None
    assert (merged.issued, merged.ok, merged.in_flight) == (10, 6, 4)
    assert merged.elapsed == 1.5


def _progress(order: WorkOrder) -> Progress:
    assignment = read_assignment({}, encode(order))
    return Progress(
        worker=assignment.identity,
        phase=0,
        elapsed=1.5,
        issued=5,
        ok=3,
        failed=0,
        in_flight=2,
        output_tokens=9,
    )
