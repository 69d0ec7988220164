"""Targets as they are in real life: missing, silent, still loading, misconfigured, half broken.

Each run must end by itself, soon, with a reason that says what to do; and what it did to the
servers on its way is counted by the servers themselves.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest

from support.bed import QUICK, Bed, Server, condition, manifest, secret, told
from support.cluster import ADDRESS
from support.scripted_http import Reply, scripted
from tare.kube.port import SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.kube.port import Document

FOREVER = 1_000_000
"""Requests that no test waits for."""


def run(name: str = "run", *, endpoint: Mapping[str, Any] | None = None, **spec: Any) -> Document:
    """A run with one worker; `endpoint` adds fields to its endpoint, None removes one."""
    document = manifest(name, **{"workers": {"replicas": 1}, **spec})
    fields = document["spec"]["endpoint"] | dict(endpoint or {})
    document["spec"]["endpoint"] = {k: v for k, v in fields.items() if v is not None}
    return document


def to_service(name: str) -> dict[str, Any]:
    return {"service": {"name": name, "port": 8000}}


def to_urls(*urls: str) -> dict[str, Any]:
    return {"service": None, "urls": list(urls)}


def assert_failed(status: Mapping[str, Any], reason: str, *parts: str) -> None:
    """The run ended for `reason`, and each part stands in its message."""
    finished = told(status, "Finished")
    assert (status["phase"], finished["status"], finished["reason"]) == ("Failed", "True", reason)
    assert condition(status, "Failed") == "True"
    assert condition(status, "Complete") == "False"
    missing = [part for part in parts if part not in finished["message"]]
    assert not missing, finished["message"]


async def load_of(*servers: Server) -> int:
    """Accepted requests of the load's API, probes included; canaries of a reset are completions."""
    asked = [request["path"] for server in servers for request in await server.requests()]
    return asked.count("/v1/chat/completions")


async def test_a_target_that_never_comes_ends_the_run_at_its_ready_timeout(bed: Bed) -> None:
    """All at once: no Service, a Service without pods, no Secret, no key, no answer at all."""
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    await bed.servers(namespace, *QUICK, replicas=0, name="empty")
    await bed.cluster.create(SECRET, namespace, secret("other", key="x"))
    async with scripted(host=ADDRESS) as silent:
        silent.on("/v1/models", Reply(silent=True))
        cases: dict[str, tuple[dict[str, Any], str, tuple[str, ...]]] = {
            "no-service": (to_service("nobody"), "TargetNotReady", ("nobody does not exist",)),
            "no-pods": (to_service("empty"), "TargetNotReady", ("has no endpoints", "app=empty")),
            "no-answer": (to_urls(silent.origin), "TargetNotReady", (silent.origin,)),
            "no-secret": (
                {"apiKeySecretRef": {"name": "absent", "key": "k"}},
                "SecretMissing",
                ("absent does not exist",),
            ),
            "no-key": (
                {"apiKeySecretRef": {"name": "other", "key": "k"}},
                "SecretMissing",
                ("'k'", "its keys are: key"),
            ),
        }
        began = time.monotonic()
        for name, (endpoint, _, _) in cases.items():
            document = run(name, endpoint={**endpoint, "readyTimeoutSeconds": 2})
            await bed.submit(namespace, document)
        for name, (_, reason, parts) in cases.items():
            assert_failed(await bed.finished(namespace, name), reason, "(waited", *parts)
        assert 1 < time.monotonic() - began < 10
    assert await bed.children(namespace) == []


async def test_the_port_of_a_service_is_its_only_one_unless_the_run_names_one(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    await bed.submit(namespace, run("only", endpoint={"service": {"name": "qwen"}}))
    await bed.submit(namespace, run("wrong", endpoint={"service": {"name": "qwen", "port": 9}}))

    assert (await bed.finished(namespace, "only"))["phase"] == "Succeeded"
    wrong = await bed.finished(namespace, "wrong")
    assert_failed(wrong, "InvalidSpec", "has no port 9", "its ports are: 8000 (http)")


async def test_b98_a_model_that_is_not_served_is_told_with_what_is_served(bed: Bed) -> None:
    """B98: no Job and no request of the load, and the message names both."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, "--model", "y-2", replicas=1)
    await bed.submit(namespace, run(endpoint={"model": "x"}))

    assert_failed(await bed.finished(namespace), "ModelNotServed", "'x'", "m, y-2")
    assert await load_of(server) == 0
    assert await bed.children(namespace) == []


async def test_b48_a_server_that_is_still_loading_is_waited_for(bed: Bed) -> None:
    """B48: 503 for a while, then a measurement of which nothing was sent before."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await server.faults(chat={"answer": 503, "seconds": 1.5})
    ready_from = time.monotonic_ns() + 1_400_000_000
    await bed.submit(namespace, run())
    waiting = await bed.until(namespace, lambda s: condition(s, "TargetReady") == "Unknown")
    assert waiting["phase"] == "Preparing"

    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    counters = await server.counters()
    assert counters["first_request_ns"] > ready_from
    assert counters["requests"] == 1 + 2 + 8, "one probe, the warm-up and the profiling phase"


async def test_b48_a_server_that_stays_loading_fails_the_run_with_its_own_words(bed: Bed) -> None:
    """B48 with a `readyTimeoutSeconds` that is too short."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await server.faults(chat=503)
    await bed.submit(namespace, run(endpoint={"readyTimeoutSeconds": 1}))

    status = await bed.finished(namespace)
    assert_failed(status, "TargetNotReady", "503", "fault 'chat' is switched on")
    assert await load_of(server) == 0


async def test_requests_that_are_never_answered_time_out_and_fail_their_cell(bed: Bed) -> None:
    """The server falls silent after the preflight; the run does not hang on its requests."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    # The reset comes between the preflight and the load; its second try is a second later.
    await server.faults(reset={"answer": "denied", "times": 1})
    endpoint = {"requestTimeoutSeconds": 0.5, "resetKvCache": True}
    await bed.submit(namespace, run(endpoint=endpoint))
    await bed.until(namespace, lambda s: condition(s, "WorkersReady") == "True")
    await server.faults(chat="hang")

    status = await bed.finished(namespace, seconds=20)
    assert_failed(
        status, "TooManyErrors", "none of 8 requests succeeded", "8 request_timeout", "0.5 s"
    )


async def test_b74_a_reset_that_fails_on_one_replica_fails_the_cell_and_names_it(bed: Bed) -> None:
    """B74: one replica of three stays warm, so nothing is measured."""
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK, replicas=3)
    await servers[1].faults(reset=500)
    await bed.submit(namespace, run(endpoint={"resetKvCache": True}))

    status = await bed.finished(namespace)
    assert_failed(status, "ResetRefused", servers[1].pod, "500")
    assert [row["state"] for row in status["cells"]] == ["Failed"]
    assert [(await server.counters())["resets"] for server in servers] == [1, 0, 1]
    assert await load_of(*servers) == 1, "the probe only"


async def test_b76_a_server_without_the_reset_route_says_what_to_switch_on(bed: Bed) -> None:
    """B76: 404 is not repeated, and `onFailure: Continue` marks the cache as unverified."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, "--no-dev-mode", replicas=1)
    await bed.submit(namespace, run("stop", endpoint={"server": "vllm", "resetKvCache": True}))
    status = await bed.finished(namespace, "stop")
    text = ("/reset_prefix_cache", "404", "VLLM_SERVER_DEV_MODE=1")
    assert_failed(status, "ResetRefused", *text)
    assert await load_of(server) == 1, "the probe only"

    reset = {"onFailure": "Continue"}
    await bed.submit(namespace, run("go-on", endpoint={"server": "vllm", "resetKvCache": reset}))
    status = await bed.finished(namespace, "go-on")
    assert status["phase"] == "Succeeded"
    assert told(status, "CacheAsPlanned")["reason"] == "Unverified"
    assert condition(status, "CacheAsPlanned") == "Unknown"


async def test_b70_a_reset_that_is_always_denied_is_given_up_within_its_budget(bed: Bed) -> None:
    """B70: `{"success": false}` in a 200 is no success, however often."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await server.faults(reset="denied")
    await bed.submit(namespace, run(endpoint={"resetKvCache": {"maxRetrySeconds": 1}}))

    status = await bed.finished(namespace)
    assert_failed(status, "ResetRefused", '"success":false', server.pod)
    assert await load_of(server) == 1, "the probe only"


async def test_a_profiler_that_does_not_start_everywhere_is_stopped_everywhere(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK)
    await servers[1].faults(start_profile=500)
    await bed.submit(namespace, run(endpoint={"serverProfiler": True}))

    status = await bed.finished(namespace)
    assert_failed(status, "ProfilerStartFailed", servers[1].pod, "500")
    for server in servers:
        counters = await server.counters()
        assert not counters["profiler_running"]
        assert counters["profiler_stops"] >= 1, "on each on which a start was tried"
    profiled = [r["while_profiling"] for server in servers for r in await server.requests()]
    assert not any(profiled)


async def test_a_profiler_that_does_not_stop_keeps_the_results_and_marks_them(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK)
    await servers[1].faults(stop_profile=500)
    await bed.submit(namespace, run(endpoint={"serverProfiler": True}))

    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    assert condition(status, "MeasurementSound") == "False"
    assert told(status, "MeasurementSound")["reason"] == "ProfilerStopFailed"
    assert (await servers[0].counters())["profiler_stops"] == 1, "the others are stopped"
    assert status["cells"][0]["metrics"]


async def test_b80_one_server_under_three_urls_is_reset_and_profiled_once(bed: Bed) -> None:
    """B80: the same origin in three spellings."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    urls = to_urls(server.url, f"{server.url}/v1", f"{server.url}/v1/")
    await bed.submit(
        namespace, run(endpoint={**urls, "resetKvCache": True, "serverProfiler": True})
    )

    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    counters = await server.counters()
    hooks = ("resets", "profiler_starts", "profiler_stops")
    assert {hook: counters[hook] for hook in hooks} == dict.fromkeys(hooks, 1)
    asked = [r["path"] for r in await server.requests()]
    assert asked.count("/v1/chat/completions") == 3 + 2 + 8, "each URL is probed"
    assert asked.count("/v1/completions") == 3, "one server's canaries"


async def test_a_url_that_the_operator_does_not_allow_is_never_called(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.submit(namespace, run(endpoint=to_urls("http://192.0.2.7:8000")))

    status = await bed.finished(namespace)
    assert_failed(status, "InvalidSpec", "spec.endpoint.urls[0]", "192.0.2.7", "allow-list")


async def test_b55_a_cell_that_the_server_refuses_fails_with_the_servers_text(bed: Bed) -> None:
    """B55: the short cell has numbers, the long one has the server's words."""
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, "--max-model-len", "128", replicas=1)
    sweep = {"grid": {"dataset.prompts.isl": [32, 400]}}
    await bed.submit(namespace, run(sweep=sweep))

    status = await bed.finished(namespace)
    assert status["phase"] == "PartiallyFailed"
    short, long = status["cells"]
    assert (short["state"], long["state"]) == ("Measured", "Failed")
    assert short["metrics"]
    assert "maximum context length is 128" in long["message"]
    assert "metrics" not in long


async def test_a_cell_that_only_fails_is_given_up_early_when_the_run_says_so(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, "--max-model-len", "128", replicas=1)
    document = run(
        dataset={"prompts": {"isl": 400, "osl": 4}, "entries": 10},
        stopOn={"errorRate": "50%", "afterRequests": 20},
    )
    document["spec"]["phases"][1]["requests"] = FOREVER
    await bed.submit(namespace, document)

    status = await bed.finished(namespace)
    assert_failed(status, "TooManyErrors", "requests failed", "stopOn.errorRate is 50%")
    assert (await server.counters())["requests_refused"] < FOREVER


@pytest.mark.parametrize(
    ("endpoint", "path", "streams"),
    [
        ({"type": "completions"}, "/v1/completions", True),
        ({"streaming": False}, "/v1/chat/completions", False),
        ({"type": "completions", "streaming": False}, "/v1/completions", False),
    ],
)
async def test_the_load_and_its_probe_use_the_api_that_the_run_names(
    bed: Bed, endpoint: dict[str, Any], path: str, streams: bool
) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await bed.submit(namespace, run(endpoint=endpoint))

    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    # A busy machine may saturate the client; that is not what is asked here.
    assert told(status, "MeasurementSound")["reason"] != "NotStreaming"
    seen = {(request["path"], request["stream"]) for request in await server.requests()}
    assert seen == {(path, streams)}
    metrics = status["cells"][0]["metrics"]
    assert "request_latency_p99" in metrics
    assert ("time_to_first_token_p99" in metrics) is streams
