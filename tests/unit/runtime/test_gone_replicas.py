"""Hooks that fail, and whether the pods of those replicas are still there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.memory_cluster import MemoryCluster
from tare.api.endpoint import Endpoint
from tare.api.reasons import Reason
from tare.endpoint.discovery import gone
from tare.kube.errors import Forbidden
from tare.kube.port import POD
from tare.manifests.metadata import Owner
from tare.measure.hooks import HookReport, Replica
from tare.runtime.target import TargetService
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.kube.port import Document

OWNER = Owner(name="run", namespace="bench", uid="run-uid")
ENDPOINT = Endpoint.model_validate(
    {"service": {"name": "qwen"}, "model": "m", "serverProfiler": True}
)


class NoRights(MemoryCluster):
    """A cluster on which the operator may list nothing, as after its RoleBinding was deleted."""

    @override
    async def list(self, *_: Any, **__: Any) -> list[Document]:
        raise Forbidden("cannot list pods")


async def replicas(cluster: MemoryCluster) -> tuple[Replica, ...]:
    """One replica that lives, one that ended, one on its way out, and one that was deleted."""
    pods: list[Document] = [
        {"metadata": {"name": "lives"}},
        {"metadata": {"name": "ended"}, "status": {"phase": "Failed"}},
        {"metadata": {"name": "leaves", "deletionTimestamp": "2026-11-30T12:00:00Z"}},
        {"metadata": {"name": "deleted"}},
    ]
    created = [await cluster.create(POD, "bench", pod) for pod in pods]
    await cluster.delete(POD, "bench", "deleted")
    metadata = [pod["metadata"] for pod in created]
    return tuple(
        Replica(uid=each["uid"], name=each["name"], origin="http://10.0.0.1:8000")
        for each in metadata
    )


async def stop(cluster: MemoryCluster, *of: Replica) -> HookReport:
    """Stop the profilers of servers that never answer."""
    target = TargetService(context_of(cluster, FakeClock()), OWNER)
    return await target.stop_profiler(ENDPOINT, of)


async def test_a_replica_is_gone_when_its_pod_ended_leaves_or_was_deleted() -> None:
    cluster = MemoryCluster()
    names = await gone(cluster, "bench", await replicas(cluster))
    assert names == {"ended", "leaves", "deleted"}


async def test_a_stop_that_no_living_replica_missed_is_done() -> None:
    cluster = MemoryCluster()
    _, *missing = await replicas(cluster)
    report = await stop(cluster, *missing)
    assert report.ok
    assert "gone with their pods: ended, leaves, deleted" in report.message


@pytest.mark.parametrize("kind", [MemoryCluster, NoRights])
async def test_a_stop_that_a_living_replica_may_have_missed_has_failed(
    kind: type[MemoryCluster],
) -> None:
    cluster = kind()
    report = await stop(cluster, *await replicas(cluster))
    assert report.reason is Reason.PROFILER_STOP_FAILED
