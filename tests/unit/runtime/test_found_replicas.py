"""The replicas of a target are looked for once between two cells, unless it was long ago."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.memory_cluster import MemoryCluster
from tare.api.endpoint import Endpoint
from tare.kube.port import ENDPOINT_SLICE, POD, SERVICE
from tare.manifests.metadata import Owner
from tare.runtime.target import TargetService
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.kube.port import Document

OWNER = Owner(name="run", namespace="bench", uid="run-uid")
ENDPOINT = Endpoint.model_validate({"service": {"name": "qwen"}, "model": "m"})


class Counting(MemoryCluster):
    """A cluster that counts how often the slices of a Service are listed."""

    looks = 0

    @override
    async def list(self, kind: Any, *arguments: Any, **more: Any) -> list[Document]:
        self.looks += kind == ENDPOINT_SLICE
        return await super().list(kind, *arguments, **more)


async def cluster_of_one_replica() -> Counting:
    cluster = Counting()
    service: Document = {
        "metadata": {"name": "qwen", "namespace": "bench"},
        "spec": {"clusterIP": "10.96.0.7", "selector": {"app": "qwen"}, "ports": [{"port": 80}]},
    }
    await cluster.create(SERVICE, "bench", service)
    pod: Document = {
        "metadata": {"name": "qwen-0", "labels": {"app": "qwen"}},
        "status": {"podIPs": [{"ip": "10.0.0.1"}]},
    }
    uid = (await cluster.create(POD, "bench", pod))["metadata"]["uid"]
    endpoint = {
        "addresses": ["10.0.0.1"],
        "conditions": {"serving": True},
        "targetRef": {"uid": uid, "name": "qwen-0"},
    }
    slices: Document = {
        "metadata": {"name": "qwen-a", "labels": {"kubernetes.io/service-name": "qwen"}},
        "ports": [{"port": 8000}],
        "endpoints": [endpoint],
    }
    await cluster.create(ENDPOINT_SLICE, "bench", slices)
    return cluster


@pytest.mark.parametrize(("later", "looks"), [(0.5, 1), (1.0, 2)])
async def test_what_was_found_a_moment_ago_is_not_looked_for_again(
    later: float, looks: int
) -> None:
    cluster, clock = await cluster_of_one_replica(), FakeClock()
    target = TargetService(context_of(cluster, clock), OWNER)
    await target.replicas(ENDPOINT)
    clock.advance(later)
    found = await target.reset(ENDPOINT, send=False, mark="")
    assert [replica.name for replica in found.replicas.ready] == ["qwen-0"]
    assert cluster.looks == looks


async def test_the_set_after_a_trial_is_always_looked_for() -> None:
    cluster = await cluster_of_one_replica()
    target = TargetService(context_of(cluster, FakeClock()), OWNER)
    await target.replicas(ENDPOINT)
    await target.replicas(ENDPOINT)
    assert cluster.looks == 2
