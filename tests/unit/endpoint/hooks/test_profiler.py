"""Profilers are started once and together; a stop is tried until it is taken, twice at most."""

from __future__ import annotations

import pytest

from support.clock import FakeClock
from support.fleet import fleet, replicas_of
from support.scripted_http import Reply, ScriptedServer, json_reply
from support.silent import SilentNetwork
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.endpoint.hooks.profiler import start_profiler, stop_profiler
from tare.measure.hooks import HookKind, HookReport, Replica, Replicas

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
            timeout=wait,
            headers={},
            host=replicas.service_host,
            server="vllm",
            http=http,
            clock=FakeClock(),
            body=body,
        )


async def stop(replicas: Replicas, *, wait: float = 5) -> HookReport:
    async with ControlClient() as http:
        return await stop_profiler(
            replicas,
            path=STOP,
            timeout=wait,
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


async def test_a_start_that_fails_on_one_replica_has_failed_and_names_it() -> None:
    """Stopping what was started is its caller's: it has the intent on record (`decide.gates`)."""
    async with fleet(3) as servers:
        for server in servers:
            server.on(START, Reply())
        servers[1].on(START, ACTIVE)
        report = await start(servers)
        assert seen(servers) == [[START]] * 3
    assert not report.ok
    assert report.reason is Reason.PROFILER_START_FAILED
    assert "qwen-1" in report.message
    assert "already active" in report.message
    assert [row.hook for row in report.calls] == [HookKind.PROFILER_START] * 3


@pytest.mark.parametrize("answer", [Reply(status=503), Reply(silent=True)])
async def test_a_start_is_not_tried_twice(answer: Reply) -> None:
    async with fleet(1) as servers:
        servers[0].on(START, answer)
        report = await start(servers, wait=0.1)
        assert seen(servers) == [[START]]
    assert not report.ok


@pytest.mark.parametrize("answer", [Reply(status=500), Reply(silent=True)])
async def test_a_stop_that_fails_once_is_tried_again_and_others_are_not(answer: Reply) -> None:
    async with fleet(2) as servers:
        servers[0].on(STOP, answer, Reply())
        servers[1].on(STOP, Reply())
        report = await stop(replicas_of(servers), wait=0.2)
        assert seen(servers) == [[STOP, STOP], [STOP]]
    assert report.ok
    assert [(row.replica, row.attempt) for row in report.calls] == [
        ("qwen-0", 1),
        ("qwen-0", 2),
        ("qwen-1", 1),
    ]


async def test_a_stop_that_fails_for_good_on_one_replica_still_reaches_the_others() -> None:
    async with fleet(3) as servers:
        for server in servers:
            server.on(STOP, Reply())
        servers[0].on(STOP, Reply(status=500, body=b"trace not written"))
        report = await stop(replicas_of(servers))
        assert seen(servers) == [[STOP, STOP], [STOP], [STOP]]
    assert not report.ok
    assert report.reason is Reason.PROFILER_STOP_FAILED
    assert "qwen-0" in report.message
    assert f"{servers[0].origin}{STOP}, 2 tries" in report.message


async def test_a_server_that_never_answers_a_stop_costs_its_time_and_half_a_minute() -> None:
    clock = FakeClock()
    network = SilentNetwork(clock)
    replicas = Replicas(ready=(Replica(uid="u", name="qwen-0", origin="http://10.0.0.1:8000"),))
    report = await stop_profiler(
        replicas,
        path=STOP,
        timeout=300,
        headers={},
        host=None,
        server="vllm",
        http=network,
        clock=clock,
    )
    assert not report.ok
    assert len(network.urls) == 2
    assert 300 < clock.now() <= 330


async def test_a_stop_with_nobody_to_call_is_done() -> None:
    assert (await stop(Replicas())).ok


@pytest.mark.parametrize("missing", [404, 405])
async def test_a_missing_route_says_how_the_server_must_be_started(missing: int) -> None:
    async with fleet(1) as servers:
        servers[0].on(START, Reply(status=missing))
        report = await start(servers)
    assert "--profiler-config" in report.message


async def test_a_start_has_the_body_that_was_asked_for_and_a_stop_has_none() -> None:
    async with fleet(1) as (server,):
        server.on(START, Reply()).on(STOP, Reply())
        await start([server], body={"max_iterations": 7})
        await stop(replicas_of([server]))
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
