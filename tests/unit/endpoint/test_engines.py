"""Hooks with a target of their own: which servers they go to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.memory_cluster import MemoryCluster
from tare.api.hooks import HookTarget
from tare.api.reasons import Reason
from tare.endpoint.engines import MOST_ENGINES, find_engines
from tare.endpoint.errors import TargetError
from tare.kube.port import ENDPOINT_SLICE, POD, SERVICE
from tare.measure.hooks import Replica

if TYPE_CHECKING:
    from tare.kube.port import Document

LOAD = (Replica(uid="r", name="router-0", origin="http://10.0.0.9:80"),)
READY = [{"type": "Ready", "status": "True"}]


def pod(name: str, ip: str = "", conditions: Any = None, *, deleted: bool = False) -> Document:
    """A pod with label `app: engine`."""
    metadata: Document = {"name": name, "labels": {"app": "engine"}}
    if deleted:
        metadata["deletionTimestamp"] = "2026-11-30T00:00:00Z"
    return {"metadata": metadata, "status": {"podIP": ip, "conditions": conditions}}


async def cluster_of(*pods: Document, namespace: str = "bench") -> MemoryCluster:
    """Pods, and Service `engine` for them."""
    cluster = MemoryCluster()
    for document in pods:
        await cluster.create(POD, namespace, document)
    service = {
        "metadata": {"name": "engine", "namespace": namespace},
        "spec": {
            "clusterIP": "10.96.0.7",
            "selector": {"app": "engine"},
            "ports": [{"name": "grpc", "port": 90}, {"name": "admin", "port": 91}],
        },
    }
    await cluster.create(SERVICE, namespace, service)
    return cluster


async def found(cluster: MemoryCluster, **target: Any) -> list[str]:
    engines = await find_engines(
        cluster, "bench", HookTarget.model_validate(target, strict=False), load=LOAD
    )
    return [f"{engine.name} {engine.origin}" for engine in engines]


TWO = (pod("engine-1", "10.0.0.2", READY), pod("engine-0", "10.0.0.1", READY))


@pytest.mark.parametrize(
    "target", [{"selector": {"app": "engine"}}, {"service": {"name": "engine"}}]
)
async def test_every_port_of_every_ready_pod_is_a_server_of_its_own(target: Any) -> None:
    cluster = await cluster_of(
        *TWO,
        pod("engine-2", "10.0.0.3", [{"type": "Ready", "status": "False"}]),
        pod("engine-3", "10.0.0.4", READY, deleted=True),
        pod("engine-4"),
    )
    assert await found(cluster, **target, ports=[8000, 8001]) == [
        "engine-0:8000 http://10.0.0.1:8000",
        "engine-0:8001 http://10.0.0.1:8001",
        "engine-1:8000 http://10.0.0.2:8000",
        "engine-1:8001 http://10.0.0.2:8001",
    ]


async def test_each_server_of_a_pod_has_an_identity_of_its_own() -> None:
    target = HookTarget.model_validate(
        {"selector": {"app": "engine"}, "ports": [8000, 8001]}, strict=False
    )
    engines = await find_engines(await cluster_of(*TWO), "bench", target, load=LOAD)
    assert len({engine.uid for engine in engines}) == 4


async def test_ports_alone_are_those_of_the_pods_that_the_load_goes_to() -> None:
    assert await found(MemoryCluster(), ports=[9090]) == ["router-0:9090 http://10.0.0.9:9090"]


async def test_urls_are_called_once_each() -> None:
    urls = ["http://10.0.0.1:8000/v1", "http://10.0.0.1:8000", "http://10.0.0.2:8000"]
    assert await found(MemoryCluster(), urls=urls) == [
        "http://10.0.0.1:8000 http://10.0.0.1:8000",
        "http://10.0.0.2:8000 http://10.0.0.2:8000",
    ]


async def test_a_service_without_ports_is_found_as_a_target_of_load_is() -> None:
    cluster = MemoryCluster()
    uid = (await cluster.create(POD, "bench", pod_of_slice()))["metadata"]["uid"]
    service = {
        "metadata": {"name": "engine", "namespace": "bench"},
        "spec": {"selector": {"app": "engine"}, "ports": [{"name": "http", "port": 80}]},
    }
    await cluster.create(SERVICE, "bench", service)
    entry = {
        "addresses": ["10.0.0.1"],
        "conditions": {"serving": True},
        "targetRef": {"uid": uid, "name": "engine-0"},
    }
    slice_ = {
        "metadata": {"name": "engine-a", "labels": {"kubernetes.io/service-name": "engine"}},
        "ports": [{"name": "http", "port": 8000}],
        "endpoints": [entry],
    }
    await cluster.create(ENDPOINT_SLICE, "bench", slice_)
    assert await found(cluster, service={"name": "engine"}) == ["engine-0 http://10.0.0.1:8000"]


def pod_of_slice() -> Document:
    document = pod("engine-0", "10.0.0.1", READY)
    document["status"]["podIPs"] = [{"ip": "10.0.0.1"}]
    return document


async def test_pods_of_another_namespace_are_none() -> None:
    cluster = await cluster_of(*TWO, namespace="other")
    with pytest.raises(TargetError, match="app=engine of namespace bench: there is no such pod"):
        await found(cluster, selector={"app": "engine"}, ports=[8000])


@pytest.mark.parametrize(
    ("pods", "target", "words", "final"),
    [
        ((), {"selector": {"app": "engine"}}, "there is no such pod", False),
        ((pod("engine-0", "10.0.0.1"),), {"service": {"name": "engine"}}, "none of 1 pods", False),
        ((), {"service": {"name": "gone"}}, "bench/gone, a hook's target, does not exist", False),
    ],
)
async def test_servers_that_may_still_come_are_waited_for(
    pods: tuple[Document, ...], target: Any, words: str, *, final: bool
) -> None:
    with pytest.raises(TargetError, match=words) as caught:
        await found(await cluster_of(*pods), **target, ports=[8000])
    assert (caught.value.final, caught.value.reason) == (final, Reason.TARGET_NOT_READY)


async def test_more_servers_than_the_status_can_name_are_refused() -> None:
    pods = [pod(f"engine-{n}", f"10.0.1.{n}", READY) for n in range(MOST_ENGINES // 2 + 1)]
    with pytest.raises(TargetError, match="258 servers; at most 256") as caught:
        await found(await cluster_of(*pods), selector={"app": "engine"}, ports=[8000, 8001])
    assert caught.value.final
