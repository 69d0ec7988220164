"""Runs on one target queue up: measured together they would measure each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.bed import manifest
from tare.kube.port import LEASE, RUN

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from support.bed import Bed


def is_profiling(status: Mapping[str, Any]) -> bool:
    return (status.get("progress") or {}).get("phase") == "profiling"


async def test_the_second_run_waits_says_for_whom_and_starts_when_the_first_is_over(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "20ms")
    endless = manifest("first")
    endless["spec"]["phases"][1]["requests"] = 100000
    await bed.submit(namespace, endless)
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
    endless = manifest("first")
    endless["spec"]["phases"][1]["requests"] = 100000
    await bed.submit(namespace, endless)
    await bed.until(namespace, is_profiling, "first")
    await bed.cluster.patch(RUN, namespace, "first", {"spec": {"suspend": True}})
    await bed.until(namespace, lambda s: s.get("phase") == "Suspended", "first")
    await bed.submit(namespace, manifest("second"))
    assert (await bed.finished(namespace, "second"))["phase"] == "Succeeded"
    assert (await bed.status(namespace, "first"))["phase"] == "Suspended"
