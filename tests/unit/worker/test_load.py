from __future__ import annotations

import asyncio

from support.events import content, normal
from support.load import closed_loop, run_load, work_order
from support.scripted import Script, ScriptedServer
from tare.measure.counts import Count
from tare.measure.wire import encode
from tare.worker.load import Load
from tare.worker.orders import read_assignment

QUICK = Script(writes=[(0, data) for _, data in normal()])


async def test_urls_take_turns_and_workers_begin_at_different_ones() -> None:
    async with ScriptedServer(QUICK) as one, ScriptedServer(QUICK) as two:
        order = work_order(one, two, phases=(closed_loop(requests=6, concurrency=2),), workers=2)
        result = await run_load(order, index=1)
        first_of_second_worker = min(
            (server for server in (one, two)), key=lambda s: s.requests[0].read_at
        )
        assert first_of_second_worker is two
        assert result.phases[0].endpoints == {one.url: 1, two.url: 2}
        assert (len(one.requests), len(two.requests)) == (1, 2)


async def test_a_running_phase_says_how_far_it_is() -> None:
    endless = Script(writes=[(0, content("a"))], end="silence")
    async with ScriptedServer(endless) as server:
        order = work_order(server, phases=(closed_loop(requests=9, concurrency=3),))
        load = Load(read_assignment({}, encode(order)))
        assert load.progress() is None
        await load.prepare(0)
        load.start(0, lambda: None)
        await asyncio.sleep(0.05)
        progress = load.progress()
        assert progress is not None
        assert (progress.phase, progress.issued, progress.in_flight) == (0, 3, 3)
        assert (progress.ok, progress.failed) == (0, 0)
        assert progress.elapsed > 0
        load.stop()
        assert load.progress() is None
        result = load.result()
        assert not result.complete
        assert result.phases[0].counts[Count.CANCELLED] == 3
        assert result.phases[0].counts[Count.OUTPUT_TOKENS_IN_WINDOW] == 3


async def test_a_target_that_refuses_connections_is_counted_not_fatal() -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(closed_loop(requests=2),))
    load = Load(read_assignment({}, encode(order)))
    drained = asyncio.Event()
    load.start(0, drained.set)
    await asyncio.wait_for(drained.wait(), 5)
    assert load.result().phases[0].errors == {"connect": 2}


async def test_every_phase_starts_at_the_first_prompt() -> None:
    async with ScriptedServer(QUICK) as server:
        phases = (closed_loop(requests=3), closed_loop(requests=5))
        await run_load(work_order(server, phases=phases, entries=4))
    prompts = [seen.json["messages"][0]["content"] for seen in server.requests]
    assert prompts[:3] == prompts[3:6]
    assert prompts[3] == prompts[7]
    assert len(set(prompts)) == 4
