"""Profilers are started together, and whatever was tried is stopped."""

from __future__ import annotations

import pytest

from support.clock import FakeClock
from support.fleet import fleet, replicas_of
from support.scripted_http import Reply, ScriptedServer, json_reply
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.hooks.profiler import start_profiler, stop_profiler
from tare.measure.hooks import CallOutcome, HookKind, HookReport, Replicas

START, STOP = "/start_profile", "/stop_profile"
ACTIVE = json_reply({"error": {"message": "A profiling session is already active."}}, 409)


async def start(
    servers: list[ScriptedServer], *, wait: float = 5, body: dict[str, object] | None = None
) -> HookReport:
    replicas = replicas_of(servers)
    async with ControlClient() as http:
        return await start_profiler(
            replicas,
            path=START,
            stop_path=STOP,
            timeout=wait,
            stop_timeout=5,
            headers={},
            host=replicas.service_host,
            server="vllm",
            http=http,
            clock=FakeClock(),
            body=body,
        )


async def stop(replicas: Replicas) -> HookReport:
    async with ControlClient() as http:
        return await stop_profiler(
            replicas,
            path=STOP,
            timeout=5,
            headers={},
            host=replicas.service_host,
            server="vllm",
            http=http,
            clock=FakeClock(),
        )


def seen(servers: list[ScriptedServer]) -> list[list[str]]:
    return [[request.path for request in server.requests] for server in servers]


async def test_a_start_reaches_every_replica_and_stops_none() -> None:
    async with fleet(2) as servers:
        for server in servers:
            server.on(START, Reply())
        report = await start(servers)
        assert seen(servers) == [[START], [START]]
    assert report.ok
    assert report.message == "profiler start accepted by 2 of 2 replicas"


async def test_a_start_that_fails_on_one_replica_stops_all_on_which_it_was_tried() -> None:
    async with fleet(3) as servers:
        for server in servers:
            server.on(START, Reply()).on(STOP, Reply())
        servers[1].on(START, ACTIVE)
        report = await start(servers)
        assert seen(servers) == [[START, STOP]] * 3
    assert not report.ok
    assert report.reason is Reason.PROFILER_START_FAILED
    assert "qwen-1" in report.message
    assert "already active" in report.message
    assert [row.hook for row in report.calls] == (
        [HookKind.PROFILER_START] * 3 + [HookKind.PROFILER_STOP] * 3
    )


async def test_a_start_without_an_answer_may_have_started_and_is_stopped() -> None:
    async with fleet(2) as servers:
        servers[0].on(START, Reply()).on(STOP, Reply())
        servers[1].on(START, Reply(silent=True)).on(STOP, Reply())
        report = await start(servers, wait=0.1)
        assert seen(servers) == [[START, STOP]] * 2
    assert report.calls[1].outcome is CallOutcome.TIMEOUT


async def test_a_start_is_not_tried_twice() -> None:
    async with fleet(1) as servers:
        servers[0].on(START, Reply(status=503)).on(STOP, Reply())
        report = await start(servers)
        assert seen(servers) == [[START, STOP]]
    assert not report.ok


async def test_a_start_and_the_stop_after_it_may_both_fail_and_both_are_told() -> None:
    async with fleet(1) as servers:
        servers[0].on(START, Reply(status=500, body=b"no disk")).on(
            STOP, Reply(status=500, body=b"no trace")
        )
        report = await start(servers)
    assert report.reason is Reason.PROFILER_START_FAILED
    assert "no disk" in report.message
    assert "no trace" in report.message


async def test_a_stop_that_fails_on_one_replica_still_reaches_the_others() -> None:
    async with fleet(3) as servers:
        for server in servers:
            server.on(STOP, Reply())
        servers[0].on(STOP, Reply(status=500, body=b"trace not written"))
        report = await stop(replicas_of(servers))
        assert seen(servers) == [[STOP]] * 3
    assert not report.ok
    assert report.reason is Reason.PROFILER_STOP_FAILED
    assert "qwen-0" in report.message
    assert servers[0].origin in report.message


async def test_a_stop_with_nobody_to_call_is_done() -> None:
    assert (await stop(Replicas())).ok


@pytest.mark.parametrize("missing", [404, 405])
async def test_a_missing_route_says_how_the_server_must_be_started(missing: int) -> None:
    async with fleet(1) as servers:
        servers[0].on(START, Reply(status=missing)).on(STOP, Reply(status=missing))
        report = await start(servers)
    assert "--profiler-config" in report.message


async def test_a_start_has_the_body_that_was_asked_for_and_its_stop_has_none() -> None:
    async with fleet(1) as (server,):
        server.on(START, Reply(status=500)).on(STOP, Reply())
        await start([server], body={"max_iterations": 7})
        first, second = server.requests
    assert first.json() == {"max_iterations": 7}
    assert first.headers["Content-Type"] == "application/json"
    assert (second.path, second.body) == (STOP, b"")


async def test_a_start_without_a_body_is_an_empty_post() -> None:
    async with fleet(1) as (server,):
        server.on(START, Reply())
        await start([server], body={})
        (request,) = server.requests
    assert request.body == b""
