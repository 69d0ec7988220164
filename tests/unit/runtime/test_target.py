"""The target of one run as the operator calls it: addresses, TLS settings, Secrets."""

from __future__ import annotations

import base64
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.memory_cluster import MemoryCluster
from support.scripted_http import Reply, json_reply, scripted
from tare.api.endpoint import Endpoint
from tare.api.reasons import Reason
from tare.endpoint.client import ControlClient
from tare.kube.port import ENDPOINT_SLICE, POD, SECRET, SERVICE
from tare.manifests.metadata import Owner
from tare.runtime.target import TargetService

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from support.certificates import Certificate
    from support.scripted_http import ScriptedServer
    from tare.kube.port import Document

OWNER = Owner(name="run", namespace="bench", uid="run-uid")
READY = {"serving": True, "ready": True, "terminating": False}
ADDRESSES = ("127.0.0.1", "127.0.0.2")


def endpoint(**fields: Any) -> Endpoint:
    """Service `qwen`, as a manifest names it."""
    document = {"service": {"name": "qwen", "port": "http"}, "model": "m", **fields}
    return Endpoint.model_validate(document)


async def cluster_of(port: int) -> MemoryCluster:
    """Service `qwen` with a pod at each of the addresses, all serving one port."""
    cluster = MemoryCluster()
    service: Document = {
        "metadata": {"name": "qwen", "namespace": "bench"},
        "spec": {
            "clusterIP": "10.96.0.7",
            "selector": {"app": "qwen"},
            "ports": [{"name": "http", "port": 80}],
        },
    }
    await cluster.create(SERVICE, "bench", service)
    entries = []
    for number, address in enumerate(ADDRESSES):
        pod: Document = {
            "metadata": {"name": f"qwen-{number}", "labels": {"app": "qwen"}},
            "status": {"podIPs": [{"ip": address}]},
        }
        uid = (await cluster.create(POD, "bench", pod))["metadata"]["uid"]
        reference = {"uid": uid, "name": f"qwen-{number}"}
        entries.append({"addresses": [address], "conditions": READY, "targetRef": reference})
    slice_: Document = {
        "metadata": {"name": "qwen-1", "labels": {"kubernetes.io/service-name": "qwen"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": port}],
        "endpoints": entries,
    }
    await cluster.create(ENDPOINT_SLICE, "bench", slice_)
    return cluster


def service_of(cluster: MemoryCluster) -> TargetService:
    return TargetService(context_of(cluster, FakeClock()), OWNER)


async def test_load_goes_to_the_service_or_straight_to_its_pods() -> None:
    target = service_of(await cluster_of(8000))

    through = await target.address(endpoint())
    direct = await target.address(endpoint(via="Endpoints"))

    assert through.urls == ("http://10.96.0.7:80",)
    assert direct.urls == tuple(f"http://{address}:8000" for address in ADDRESSES)
    assert through.host == direct.host == "qwen.bench.svc"


async def test_tls_settings_make_a_service_one_of_https() -> None:
    target = service_of(await cluster_of(8443))

    address = await target.address(endpoint(tls={}, via="Endpoints"))

    assert address.urls == tuple(f"https://{address}:8443" for address in ADDRESSES)


@asynccontextmanager
async def secure_servers(certificate: Certificate) -> AsyncIterator[tuple[ScriptedServer, ...]]:
    tls = certificate.server()
    async with (
        scripted(tls) as one,
        scripted(tls, host=ADDRESSES[1], port=one.port) as two,
    ):
        for server in (one, two):
            server.on("/reset_prefix_cache", json_reply({"success": True}))
            counters = b"vllm:request_success_total 3\n"
            server.on("/metrics", Reply(body=counters, headers={"Content-Type": "text/plain"}))
        yield one, two


def secret(content: str) -> Document:
    encoded = base64.b64encode(content.encode()).decode()
    return {"metadata": {"name": "ca"}, "data": {"ca.crt": encoded}}


OWN: dict[str, Any] = {"caSecretRef": {"name": "ca", "key": "ca.crt"}}
ANY: dict[str, Any] = {"insecureSkipVerify": True}


@pytest.mark.parametrize("tls", [OWN, ANY])
async def test_b63_hooks_and_scrapes_use_the_runs_tls_settings(
    certificate: Certificate, tls: dict[str, Any]
) -> None:
    async with secure_servers(certificate) as servers:
        cluster = await cluster_of(servers[0].port)
        await cluster.create(SECRET, "bench", secret(certificate.cert.read_text()))
        target = service_of(cluster)
        target_of_run = endpoint(tls=tls, resetKvCache=True, server="vllm")
        found = await target.reset(target_of_run, send=True, mark="m")
        counts = await target.counts(target_of_run, found.replicas.ready)
        hosts = {request.headers["Host"] for server in servers for request in server.requests}
    assert found.report is not None
    assert found.report.ok, found.report.message
    assert counts == {"qwen-0": {"requests": 3.0}, "qwen-1": {"requests": 3.0}}
    assert {host.partition(":")[0] for host in hosts} == {"qwen.bench.svc"}


async def test_b63_without_an_authority_the_reset_fails_and_names_the_certificate(
    certificate: Certificate,
) -> None:
    async with secure_servers(certificate) as servers:
        target = service_of(await cluster_of(servers[0].port))
        found = await target.reset(
            endpoint(tls={}, resetKvCache=True, server="vllm"), send=True, mark="m"
        )
    assert found.report is not None
    assert not found.report.ok
    assert "certificate" in found.report.message


@pytest.mark.parametrize(
    ("content", "words"),
    [(None, "Secret bench/ca does not exist"), ("rubbish", "key 'ca.crt': no certificate in PEM")],
)
async def test_an_authority_that_cannot_be_had_is_named(content: str | None, words: str) -> None:
    cluster = await cluster_of(8443)
    if content is not None:
        await cluster.create(SECRET, "bench", secret(content))
    found = await service_of(cluster).reset(
        endpoint(tls=OWN, resetKvCache=True, server="vllm"), send=True, mark="m"
    )
    assert found.report is not None
    assert (found.report.ok, found.report.reason) == (False, Reason.SECRET_MISSING)
    assert words in found.report.message


async def test_hooks_with_a_target_of_their_own_are_found_with_the_replicas() -> None:
    cluster = await cluster_of(8000)
    engine: Document = {
        "metadata": {"name": "engine-0", "labels": {"app": "engine"}},
        "status": {"podIP": "10.0.0.9", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    uid = (await cluster.create(POD, "bench", engine))["metadata"]["uid"]
    ports = {"selector": {"app": "engine"}, "ports": (8000, 8001)}
    asked = endpoint(
        resetKvCache={"target": ports}, serverProfiler={"target": {"ports": (9000,)}}, server="vllm"
    )
    target = service_of(cluster)
    found = await target.replicas(asked)
    assert len(found.ready) == 2
    assert [replica.origin for replica in found.reset or ()] == [
        "http://10.0.0.9:8000",
        "http://10.0.0.9:8001",
    ]
    assert [replica.origin for replica in found.profiler or ()] == [
        f"http://{address}:9000" for address in ADDRESSES
    ]
    members = await target.members(asked)
    assert {f"pod:{uid}", "origin:http://10.0.0.9:8001"} <= members


async def test_a_target_without_engines_is_not_ready() -> None:
    asked = endpoint(resetKvCache={"target": {"selector": {"app": "gone"}, "ports": (1,)}})
    found = await service_of(await cluster_of(8000)).reset(asked, send=True, mark="m")
    assert (found.replicas.ready, found.report) == ((), None)


@pytest.mark.parametrize(
    ("server", "options", "body"),
    [
        ("vllm", True, {"profile_prefix": "run-cell0-trial1"}),
        ("vllm", {"maxIterations": 7}, {"profile_prefix": "run-cell0-trial1", "max_iterations": 7}),
        ("vllm", {"startBody": {"profile_prefix": "mine"}}, {"profile_prefix": "mine"}),
        ("sglang", {"startBody": {"num_steps": 5}}, {"num_steps": 5}),
        ("generic", True, None),
    ],
)
async def test_a_trace_is_named_where_the_server_takes_a_name(
    server: str, options: Any, body: dict[str, Any] | None
) -> None:
    async with scripted() as model, ControlClient() as http:
        model.on("/start_profile", Reply())
        context = replace(context_of(MemoryCluster(), FakeClock()), control=http)
        target = TargetService(context, OWNER)
        asked = endpoint(service=None, url=model.origin, serverProfiler=options, server=server)
        replicas = await target.replicas(asked)
        report = await target.start_profiler(asked, replicas.ready, name="run-cell0-trial1")
        (request,) = model.requests
    assert report.ok
    assert (request.json() if request.body else None) == body


async def test_canaries_go_below_the_path_of_a_url() -> None:
    async with scripted() as model, ControlClient() as http:
        model.on("/reset_prefix_cache", json_reply({"success": True}))
        context = replace(context_of(MemoryCluster(), FakeClock()), control=http)
        target = TargetService(context, OWNER)
        asked = endpoint(service=None, url=f"{model.origin}/team/v1", resetKvCache=True)
        found = await target.reset(asked, send=True, mark="m")
        paths = [request.path for request in model.requests]
    assert found.report is not None
    assert found.report.ok
    assert paths == ["/team/v1/completions", "/team/v1/chat/completions", "/reset_prefix_cache"]


async def test_a_reset_that_is_not_due_only_finds_the_replicas() -> None:
    target = service_of(await cluster_of(8000))
    found = await target.reset(endpoint(resetKvCache=True), send=False, mark="m")
    assert found.report is None
    assert len(found.replicas.ready) == 2
