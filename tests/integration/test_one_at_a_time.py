"""Runs on one target queue up: measured together they would measure each other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.bed import manifest
from tare.kube.port import LEASE, RUN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from support.bed import Bed


def is_profiling(status: Mapping[str, Any]) -> bool:
    return (status.get("progress") or {}).get("phase") == "profiling"


async def test_the_second_run_waits_says_for_whom_and_starts_when_the_first_is_over(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "20ms")
    await bed.submit(namespace, endless(manifest("first")))
    await bed.until(namespace, is_profiling, "first")
    await bed.submit(namespace, manifest("second"))
    waiting = await bed.until(namespace, lambda s: s.get("phase") == "Waiting", "second")
    busy = next(c for c in waiting["conditions"] if c["type"] == "TargetReady")
    assert busy["reason"] == "TargetBusy"
    assert f"{namespace}/first" in busy["message"]
    assert "startTime" not in waiting
    assert len(await bed.children(namespace)) == 1, "the second run has no Job"

    await bed.cluster.patch(RUN, namespace, "first", {"spec": {"cancel": True}})
    assert (await bed.finished(namespace, "second"))["phase"] == "Succeeded"
    assert await bed.cluster.list(LEASE, namespace) == []
    assert sum([(await server.counters())["requests"] for server in servers]) > 0


async def test_a_suspended_run_lets_the_next_one_go_first(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace, "--itl", "20ms")
    await bed.submit(namespace, endless(manifest("first")))
    await bed.until(namespace, is_profiling, "first")
    await bed.cluster.patch(RUN, namespace, "first", {"spec": {"suspend": True}})
    await bed.until(namespace, lambda s: s.get("phase") == "Suspended", "first")
    await bed.submit(namespace, manifest("second"))
    assert (await bed.finished(namespace, "second"))["phase"] == "Succeeded"
    assert (await bed.status(namespace, "first"))["phase"] == "Suspended"


def by_url(url: str) -> dict[str, Any]:
    """The usual run, on one server by its address."""
    document = manifest("second")
    document["spec"]["endpoint"]["url"] = url
    del document["spec"]["endpoint"]["service"]
    return document


def with_engines(name: str, app: str) -> dict[str, Any]:
    """A run through a router of its own, whose caches are those of the pods of `app`."""
    document = manifest(name)
    document["spec"]["endpoint"]["service"]["name"] = f"router-{name}"
    document["spec"]["endpoint"]["resetKvCache"] = {
        "target": {"selector": {"app": app}, "ports": [8000]}
    }
    return document


def endless(document: dict[str, Any]) -> dict[str, Any]:
    document["spec"]["phases"][1]["requests"] = 100000
    return document


async def assert_second_waits(bed: Bed, namespace: str, document: dict[str, Any]) -> None:
    """It waits while the first run is being measured, and is measured after that."""
    await bed.until(namespace, is_profiling, "first")
    await bed.submit(namespace, document)
    waiting = await bed.until(namespace, lambda s: s.get("phase") == "Waiting", "second")
    busy = next(c for c in waiting["conditions"] if c["type"] == "TargetReady")
    assert (busy["reason"], f"{namespace}/first" in busy["message"]) == ("TargetBusy", True)
    await bed.cluster.patch(RUN, namespace, "first", {"spec": {"cancel": True}})
    assert (await bed.finished(namespace, "second"))["phase"] == "Succeeded"


async def test_a_run_on_the_url_of_a_replica_waits_for_the_run_on_its_service(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "20ms")
    await bed.submit(namespace, endless(manifest("first")))
    await assert_second_waits(bed, namespace, by_url(servers[1].url))


async def test_runs_through_two_routers_to_the_same_engines_go_one_after_the_other(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    for run in ("first", "second"):
        await bed.servers(namespace, "--itl", "20ms", replicas=1, name=f"router-{run}")
    await bed.servers(namespace, "--itl", "20ms", replicas=1, name="engines")
    await bed.submit(namespace, endless(with_engines("first", "engines")))
    await assert_second_waits(bed, namespace, with_engines("second", "engines"))
