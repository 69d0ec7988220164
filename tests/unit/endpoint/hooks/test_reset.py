"""The reset of several replicas: told apart, repeated where that helps, and reported."""

from __future__ import annotations

import asyncio

import pytest

from support.clock import FakeClock
from support.fleet import fleet, replicas_of
from support.scripted_http import Reply, json_reply, scripted
from support.silent import SilentNetwork
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.hooks.reset import reset
from tare.measure.hooks import CallOutcome, HookReport, Replica, Replicas

PATH = "/reset_prefix_cache"
YES, NO = json_reply({"success": True}), json_reply({"success": False})
KEY = {"Authorization": "Bearer sk-secret-1"}


async def run(
    replicas: Replicas, clock: FakeClock, *, max_retry: float = 60, wait: float = 5
) -> HookReport:
    async with ControlClient() as http:
        return await reset(
            replicas,
            path=PATH,
            timeout=wait,
            max_retry=max_retry,
            headers=KEY,
            host=replicas.service_host,
            server="vllm",
            http=http,
            clock=clock,
        )


async def test_every_replica_confirms_a_reset() -> None:
    async with fleet(3) as servers:
        for server in servers:
            server.on(PATH, YES)
        report = await run(replicas_of(servers), FakeClock())
        requests = [server.requests for server in servers]
    assert report.ok
    assert report.verified
    assert report.reason is None
    assert report.message == "KV cache reset confirmed by 3 of 3 replicas"
    assert report.replicas == ("uid-0", "uid-1", "uid-2")
    assert [row.outcome for row in report.calls] == [CallOutcome.CONFIRMED] * 3
    for (request,) in requests:
        assert request.method == "POST"
        assert request.headers["Authorization"] == "Bearer sk-secret-1"
        assert request.headers["Host"] == "qwen.bench.svc:8000"


async def test_one_empty_answer_leaves_the_reset_unverified_and_names_the_replica() -> None:
    async with fleet(2) as servers:
        servers[0].on(PATH, YES)
        servers[1].on(PATH, Reply())
        report = await run(replicas_of(servers), FakeClock())
    assert report.ok
    assert not report.verified
    assert report.message.endswith("not confirmed by qwen-1")


async def test_replicas_are_called_at_the_same_time() -> None:
    all_three = asyncio.Barrier(3)
    async with fleet(3) as servers:
        for server in servers:
            server.on(PATH, Reply(body=YES.body, together=all_three))
        report = await run(replicas_of(servers), FakeClock(), max_retry=0, wait=2)
    assert report.verified


async def test_a_hundred_replicas_are_all_called_before_one_of_them_answers() -> None:
    hundred = asyncio.Barrier(100)
    async with fleet(100) as servers:
        for server in servers:
            server.on(PATH, Reply(body=YES.body, together=hundred))
        report = await run(replicas_of(servers), FakeClock(), max_retry=0, wait=60)
    assert report.message == "KV cache reset confirmed by 100 of 100 replicas"
    assert [row.attempt for row in report.calls] == [1] * 100


async def test_a_slow_replica_holds_up_neither_the_tries_of_others_nor_their_time_outs() -> None:
    """It answers when two others were refused, waited and were asked again: for them all, once."""
    three = asyncio.Barrier(3)
    clock = FakeClock()
    late = Reply(body=YES.body, together=three)
    async with fleet(3) as servers:
        servers[0].on(PATH, late)
        servers[1].on(PATH, NO, late)
        servers[2].on(PATH, NO, late)
        report = await run(replicas_of(servers), clock, max_retry=2, wait=60)
        calls = [len(server.requests) for server in servers]
    assert report.verified
    assert calls == [1, 2, 2]


async def test_silent_replicas_take_their_time_outs_at_the_same_time() -> None:
    clock = FakeClock()
    silent = Replicas(
        ready=tuple(
            Replica(uid=f"u{n}", name=f"qwen-{n}", origin=f"http://10.0.0.{n}:8000")
            for n in range(3)
        )
    )
    report = await reset(
        silent,
        path=PATH,
        timeout=30,
        max_retry=0,
        headers=KEY,
        host=None,
        server="vllm",
        http=SilentNetwork(clock),
        clock=clock,
    )
    assert clock.now() == 30
    assert [(row.outcome, row.seconds) for row in report.calls] == [(CallOutcome.TIMEOUT, 30)] * 3


async def test_replicas_are_repeated_each_for_itself() -> None:
    clock = FakeClock()
    async with fleet(3) as servers:
        servers[0].on(PATH, YES)
        servers[1].on(PATH, NO, YES)
        servers[2].on(PATH, NO, NO, YES)
        report = await run(replicas_of(servers), clock)
        calls = [len(server.requests) for server in servers]
    assert report.verified
    assert calls == [1, 2, 3]
    assert sorted(clock.slept) == [1, 1, 2]
    assert [(row.replica, row.attempt) for row in report.calls] == [
        ("qwen-0", 1),
        ("qwen-1", 1),
        ("qwen-1", 2),
        ("qwen-2", 1),
        ("qwen-2", 2),
        ("qwen-2", 3),
    ]


async def test_a_server_that_says_when_to_come_back_is_asked_then() -> None:
    clock = FakeClock()
    async with scripted() as server:
        server.on(PATH, Reply(status=429, headers={"Retry-After": "20"}), YES)
        report = await run(replicas_of([server]), clock)
    assert report.ok
    assert clock.slept == [20]


async def test_a_server_that_is_down_for_a_moment_is_tried_again() -> None:
    clock = FakeClock()
    async with scripted() as gone:
        replicas = replicas_of([gone])
    report = await run(replicas, clock, max_retry=5)
    assert not report.ok
    assert report.reason is Reason.RESET_REFUSED
    assert {row.outcome for row in report.calls} == {CallOutcome.UNREACHABLE}
    assert clock.slept == [1, 2, 1]


async def test_a_refusal_for_good_is_not_repeated() -> None:
    clock = FakeClock()
    async with fleet(2) as servers:
        servers[0].on(PATH, Reply(status=500, body=b"engine is dead"))
        servers[1].on(PATH, YES)
        report = await run(replicas_of(servers), clock)
        assert len(servers[0].requests) == 1
    assert not report.ok
    assert clock.slept == []
    assert report.message == (
        f"KV cache reset failed on 1 of 2 replicas: qwen-0, POST {servers[0].origin}{PATH}:"
        " 500 engine is dead"
    )


async def test_a_redirect_to_another_host_is_never_followed() -> None:
    async with scripted() as trap, scripted() as server:
        server.on(PATH, Reply(status=307, headers={"Location": trap.origin + PATH}))
        report = await run(replicas_of([server]), FakeClock())
        assert not trap.requests
    assert not report.ok
    assert "redirects are not followed" in report.message


async def test_a_key_that_the_server_repeats_is_in_no_row_and_no_message() -> None:
    async with scripted() as server:
        server.on(PATH, Reply(status=403, body=b"bad key: Bearer sk-secret-1"))
        report = await run(replicas_of([server]), FakeClock())
    assert "sk-secret-1" not in str(report)
    assert "403 bad key: ***" in report.message


async def test_a_reset_of_nobody_is_not_a_reset() -> None:
    report = await run(Replicas(), FakeClock())
    assert not report.ok
    assert not report.verified
    assert report.reason is Reason.TARGET_NOT_READY


@pytest.mark.parametrize("names", [1, 3])
async def test_the_message_names_every_replica_that_failed(names: int) -> None:
    async with fleet(names) as servers:
        report = await run(replicas_of(servers), FakeClock())
    assert f"failed on {names} of {names} replicas" in report.message
    assert all(f"qwen-{index}" in report.message for index in range(names))
