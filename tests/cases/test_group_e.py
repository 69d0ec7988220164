"""Public bug cases of group E: resets and profilers that look done and are not.

Numbers and wanted values: reference/bug-cases.md. Servers are real ones on loopback; waiting is on
a fake clock. What a failed hook means for its cell is decided in `decide` and tested there.
"""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.fleet import fleet, replicas_of
from support.kube_api import kube_api
from support.memory_cluster import MemoryCluster
from support.scripted_http import Reply, ScriptedServer, json_reply, scripted
from support.silent import SilentNetwork
from support.world import World, manifest, report
from tare.api.endpoint import Endpoint
from tare.api.reasons import CellState, Reason
from tare.decide.children import TrialKey
from tare.decide.facts import OpKind, ResetResult
from tare.endpoint.client import Control, ControlClient
from tare.endpoint.discovery import discover, from_urls
from tare.endpoint.hooks.profiler import start_profiler, stop_profiler
from tare.endpoint.hooks.reset import reset
from tare.manifests.metadata import Owner
from tare.measure.hooks import CallOutcome, HookKind, HookReport, Replica, Replicas
from tare.runtime.target import TargetService

if TYPE_CHECKING:
    from pathlib import Path

RESET, FLUSH, CLEAR = "/reset_prefix_cache", "/flush_cache", "/clear_kv_blocks"
START, STOP = "/start_profile", "/stop_profile"
HITS = "vllm:external_prefix_cache_hits_total"
YES, NO = json_reply({"success": True}), json_reply({"success": False})


async def run_reset(
    replicas: Replicas,
    clock: FakeClock,
    *,
    path: str = RESET,
    server: str = "vllm",
    max_retry: float = 60,
    http: Control | None = None,
) -> HookReport:
    async with ControlClient() as client:
        return await reset(
            replicas,
            path=path,
            timeout=30,
            max_retry=max_retry,
            headers={},
            host=replicas.service_host,
            server=server,
            http=http or client,
            clock=clock,
        )


async def test_b70_a_reset_that_is_denied_in_the_body_is_tried_again() -> None:
    clock = FakeClock()
    async with scripted() as server:
        server.on(RESET, NO, NO, YES)
        report = await run_reset(replicas_of([server]), clock)
        assert len(server.requests) == 3
    assert report.ok
    assert report.verified
    assert min(clock.slept) >= 1


async def test_b70_a_reset_that_is_always_denied_fails_when_its_budget_ends() -> None:
    clock = FakeClock()
    async with scripted() as server:
        server.on(RESET, NO)
        report = await run_reset(replicas_of([server]), clock, max_retry=5)
    assert not report.ok
    assert report.reason is Reason.RESET_REFUSED
    assert clock.now() == pytest.approx(5, abs=2)
    assert '{"success":false}' in report.message


async def test_b70_an_empty_answer_is_accepted_and_marked_unverified() -> None:
    async with scripted() as server:
        server.on(RESET, Reply())
        report = await run_reset(replicas_of([server]), FakeClock())
        assert len(server.requests) == 1
    assert report.ok
    assert not report.verified
    assert report.calls[0].outcome is CallOutcome.UNVERIFIED


async def test_b72_a_busy_400_is_tried_again_without_haste() -> None:
    clock = FakeClock()
    async with scripted() as server:
        busy = Reply(status=400, body=b"pending requests")
        server.on(FLUSH, busy, busy, busy, Reply(body=b"Cache flushed."))
        report = await run_reset(replicas_of([server]), clock, path=FLUSH, server="sglang")
        assert len(server.requests) == 4
    assert report.verified
    assert 3 <= clock.now() <= 10
    assert [row.message for row in report.calls] == [
        *["400 pending requests"] * 3,
        "200 Cache flushed.",
    ]


async def run_b74(folder: Path, answers: list[Reply]) -> tuple[list[int], HookReport]:
    """Discover three ready pods and one that is not, each on an address of its own, and reset."""
    async with AsyncExitStack() as stack:
        pods = [await stack.enter_async_context(scripted(host="127.0.0.1"))]
        port = pods[0].port
        for last in (2, 3, 4):
            server = scripted(host=f"127.0.0.{last}", port=port)
            pods.append(await stack.enter_async_context(server))
        for pod, answer in zip(pods, answers, strict=True):
            pod.on(RESET, answer)
        api, cluster = await stack.enter_async_context(kube_api(folder))
        script_b74(api, port)
        replicas = await discover(cluster, "bench", "qwen", "http")
        report = await run_reset(replicas, FakeClock())
        return [len(pod.requests) for pod in pods], report


def script_b74(api: ScriptedServer, port: int) -> None:
    service = {
        "metadata": {"name": "qwen", "namespace": "bench"},
        "spec": {
            "clusterIP": "10.96.0.7",
            "selector": {"app": "qwen"},
            "ports": [{"name": "http", "port": 80}],
        },
    }
    endpoints = [
        {
            "addresses": [f"127.0.0.{index}"],
            "conditions": {"serving": index != 4, "terminating": False},
            "targetRef": {"kind": "Pod", "name": f"qwen-{index}", "uid": f"u{index}"},
        }
        for index in (1, 2, 3, 4)
    ]
    slices = {
        "metadata": {"name": "qwen-a"},
        "ports": [{"name": "http", "port": port}],
        "endpoints": endpoints,
    }
    pods = [
        {
            "metadata": {"name": f"qwen-{index}", "uid": f"u{index}"},
            "status": {"podIPs": [{"ip": f"127.0.0.{index}"}]},
        }
        for index in (1, 2, 3, 4)
    ]
    api.on("/api/v1/namespaces/bench/services/qwen", json_reply(service))
    api.on(
        "/apis/discovery.k8s.io/v1/namespaces/bench/endpointslices", json_reply({"items": [slices]})
    )
    api.on("/api/v1/namespaces/bench/pods", json_reply({"items": pods}))


async def test_b74_a_reset_reaches_every_ready_pod_and_no_other(tmp_path: Path) -> None:
    calls, report = await run_b74(tmp_path, [YES, YES, YES, YES])
    assert calls == [1, 1, 1, 0]
    assert report.verified


async def test_b74_one_pod_that_fails_fails_the_reset_by_name(tmp_path: Path) -> None:
    broken = Reply(status=500, body=b"engine is dead")
    calls, report = await run_b74(tmp_path, [YES, broken, YES, YES])
    assert calls == [1, 1, 1, 0]
    assert not report.ok
    assert "qwen-2" in report.message
    assert "500 engine is dead" in report.message


async def test_b76_a_missing_route_is_called_once_and_named_with_its_cause() -> None:
    clock = FakeClock()
    async with scripted() as server:
        report = await run_reset(replicas_of([server]), clock)
        assert len(server.requests) == 1
    assert not report.ok
    assert report.reason is Reason.RESET_REFUSED
    assert clock.now() <= 2
    assert RESET in report.message
    assert "VLLM_SERVER_DEV_MODE=1" in report.message


def test_b76_a_run_that_may_go_on_without_its_reset_is_marked() -> None:
    """The world takes the cache for cold, since it would not let a warm one be measured."""
    endpoint = {**manifest()["spec"]["endpoint"], "resetKvCache": {"onFailure": "Continue"}}
    world = World(manifest(sweep=None, endpoint=endpoint))
    failed = report(HookKind.RESET, ok=False, reason=Reason.RESET_REFUSED)
    world.fail[OpKind.RESET] = ResetResult(replicas=world.found, report=failed)
    world.resets.append(TrialKey(0, 0, 1))
    world.warm = False
    world.settle()
    record = world.records[0, 0]
    assert (record.state, record.reset) == (CellState.MEASURED, "Unverified")


@pytest.mark.parametrize(
    "body",
    [
        {"cleared_workers": ["a"], "failed_workers": [{"name": "b", "error": "x"}]},
        {"message": "No active worker groups found"},
    ],
)
async def test_b77_a_200_that_lists_failed_workers_is_a_failure(body: dict[str, object]) -> None:
    async with scripted() as server:
        server.on(CLEAR, json_reply(body))
        replicas = replicas_of([server])
        report = await run_reset(replicas, FakeClock(), path=CLEAR, server="dynamo")
    assert not report.ok


async def test_b80_three_spellings_of_one_origin_are_called_once() -> None:
    """The case's port 80 needs root; the spelling of the default port is tested with discovery."""
    async with fleet(1) as (server,):
        server.on(RESET, YES).on(START, Reply()).on(STOP, Reply())
        host = f"localhost:{server.port}"
        replicas = from_urls(
            [f"http://{host.upper()}/v1", f"http://{host}/v1/", f"HTTP://{host}/v1"]
        )
        clock = FakeClock()
        async with ControlClient() as http:
            common: dict[str, Any] = {
                "headers": {},
                "host": None,
                "server": "vllm",
                "http": http,
                "clock": clock,
            }
            await run_reset(replicas, clock)
            await start_profiler(replicas, path=START, timeout=5, **common)
            await stop_profiler(replicas, path=STOP, timeout=5, **common)
        assert [request.path for request in server.requests] == [RESET, START, STOP]


@pytest.mark.parametrize(("max_retry", "seconds", "calls"), [(0, 30, 1), (60, 60, 2)])
async def test_b84_a_hook_that_is_never_answered_ends_when_it_should(
    max_retry: float, seconds: float, calls: int
) -> None:
    clock = FakeClock()
    network = SilentNetwork(clock)
    url = "http://10.0.0.1:8000"
    replicas = Replicas(ready=(Replica(uid="u", name="qwen-0", origin=url),))
    report = await run_reset(replicas, clock, max_retry=max_retry, http=network)
    assert not report.ok
    assert clock.now() == pytest.approx(seconds, abs=2)
    assert clock.now() <= seconds
    assert network.urls == [url + RESET] * calls
    assert "reset" in report.message
    assert url + RESET in report.message


async def test_b71_the_external_tier_that_stays_warm_is_told_with_its_number() -> None:
    """Its counter grows by 1024 with the first request after the reset, our canary."""
    metrics = [
        Reply(
            body=f'# TYPE {HITS} counter\n{HITS}{{engine="0"}} {hits}\n'.encode(),
            headers={"Content-Type": "text/plain"},
        )
        for hits in (4096, 5120, 5120)
    ]
    async with scripted() as server, ControlClient() as http:
        text = json_reply({"usage": {"prompt_tokens": 1100}})
        server.on(RESET, YES).on("/v1/completions", text).on("/metrics", *metrics)
        target = TargetService(
            replace(context_of(MemoryCluster(), FakeClock()), control=http),
            Owner(name="run", namespace="bench", uid="run-uid"),
        )
        asked = Endpoint.model_validate(
            {"url": server.origin, "model": "m", "resetKvCache": {"resetExternal": True}}
        )
        found = await target.reset(asked, send=True, mark="m")
        (request,) = server.calls(RESET)
    assert request.path == f"{RESET}?reset_external=true"
    assert found.report is not None
    assert (found.report.ok, found.report.reason) == (True, Reason.RESET_INCOMPLETE)
    assert "took 1024 tokens from it" in found.report.message


def test_b82_an_unbounded_profile_is_ended_by_its_limit() -> None:
    """A phase of 30 s with a limit of 5 s; deletion and restart are tested with the hooks."""
    endpoint = {**manifest()["spec"]["endpoint"], "serverProfiler": {"maxSeconds": 5}}
    world = World(manifest(sweep=None, endpoint=endpoint))
    world.go_on_until(lambda w: w.profiler_on)
    started, stopped = world.now, None
    for _ in range(30):
        world.step()
        world.finish_ops()
        if not world.profiler_on:
            stopped = stopped or world.now
        world.now += 1
    assert stopped is not None
    assert stopped - started == pytest.approx(5, abs=1)
    assert (world.starts, world.stops) == (1, 1)


def test_b83_a_stop_that_fails_costs_a_warning_and_no_result() -> None:
    world = World(manifest(sweep=None))
    world.fail[OpKind.PROFILER_STOP] = report(
        HookKind.PROFILER_STOP, ok=False, reason=Reason.PROFILER_STOP_FAILED
    )
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED
    sound = next(c for c in world.status["conditions"] if c["type"] == "MeasurementSound")
    assert (sound["status"], sound["reason"]) == ("False", "ProfilerStopFailed")
    profiler = world.run.spec.endpoint.profiler
    assert profiler is not None
    assert profiler.stop_timeout_seconds >= 300
