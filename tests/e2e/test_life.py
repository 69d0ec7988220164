"""The life of a run on a real cluster: what is deleted under it, and pods that do not start."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support.installation import (
    KUBECONFIG,
    SHARED,
    Installation,
    Space,
    condition,
    namespace,
    until,
)
from support.one_cell import one_cell, profilers
from support.proxied import ProxiedServers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

REPLICAS = 3
ENDLESS = one_cell(concurrency=6, durationSeconds=600)
SHORT = one_cell(concurrency=2, requests=4)


@dataclass(frozen=True)
class Bed:
    """An installation and the namespaces that it watches."""

    tare: Installation
    runs: Space
    """Has three servers."""
    doomed: Space
    """Is deleted with its runs; the servers that they measure are those of `runs`."""
    small: Space
    """Has one server, and room for one more pod."""


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    with (
        namespace("life") as space,
        namespace("lived") as runs,
        namespace("doomed") as doomed,
        namespace("small") as small,
    ):
        watched = [each.name for each in (runs, doomed, small)]
        values = {
            "watch": {"namespaces": watched} if SHARED else {},
            "allowedTargets": [f"qwen.{runs.name}.svc"],
        }
        tare = Installation(space, values)
        with tare.installed():
            runs.start_servers(replicas=REPLICAS)
            small.start_servers(replicas=1)
            small.kubectl("create", "quota", "pods", "--hard=pods=2")
            yield Bed(tare, runs, doomed, small)


@pytest.fixture
async def servers(bed: Bed) -> AsyncIterator[ProxiedServers]:
    """The three servers, which count from zero."""
    async with ProxiedServers.open(KUBECONFIG, bed.runs.name) as servers:
        await servers.forget()
        yield servers


@pytest.mark.parametrize("end", ["delete", "cancel"])
async def test_the_load_ends_within_a_second_and_the_profiler_within_ten(
    bed: Bed, servers: ProxiedServers, end: str
) -> None:
    bed.runs.start_run(end, **ENDLESS)
    await servers.under_load(40)
    if end == "delete":
        bed.runs.kubectl("delete", "benchmarkrun", end, "--wait=false")
    else:
        bed.runs.kubectl(
            "patch", "benchmarkrun", end, "--type=merge", '--patch={"spec": {"cancel": true}}'
        )
    asked = time.monotonic()
    await asyncio.sleep(1)
    after_a_second = await servers.counters()
    while profilers(await servers.counters()) != {(1, 1, False)}:
        assert time.monotonic() - asked < 10, await servers.counters()

    if end == "delete":
        bed.runs.kubectl("wait", "--for=delete", f"benchmarkrun/{end}", "--timeout=30s")
    else:
        assert bed.runs.finish(end, 30)["status"]["phase"] == "Cancelled"
    counters = await servers.counters()
    assert profilers(counters) == {(1, 1, False)}
    requests = [{pod: c["requests"] for pod, c in at.items()} for at in (after_a_second, counters)]
    assert requests[0] == requests[1], "a request came later than a second after it was asked for"


async def test_a_namespace_goes_with_its_runs_and_no_profiler_stays_on(
    bed: Bed, servers: ProxiedServers
) -> None:
    target = {
        "service": {"name": "qwen", "namespace": bed.runs.name, "port": 8000},
        "model": "Qwen/Qwen3-8B",
        "resetKvCache": True,
        "serverProfiler": True,
    }
    bed.doomed.start_run("finished", **SHORT, endpoint=target)
    assert condition(bed.doomed.finish("finished", 40), "Complete") == "True"
    bed.doomed.start_run("running", **ENDLESS, endpoint=target)
    await servers.under_load(60)
    assert profilers(await servers.counters()) == {(2, 1, True)}

    # The namespace controller itself waits for five seconds before it begins.
    bed.doomed.kubectl("delete", "namespace", bed.doomed.name, "--timeout=40s")
    counters = await servers.counters()
    assert profilers(counters) == {(2, 2, False)}
    assert {c["in_flight"] for c in counters.values()} == {0}
    if SHARED:  # Helm cannot change, nor remove, a release with a Role in a namespace that is gone.
        bed.tare.values["watch"]["namespaces"].remove(bed.doomed.name)
        bed.tare.install()


def test_a_quota_that_leaves_no_room_for_a_worker_is_named(bed: Bed) -> None:
    bed.small.start_run("quota", **SHORT, workers={"replicas": 2, "startTimeoutSeconds": 6})
    ended = failed(bed.small, "quota")
    assert ended["reason"] == "QuotaExceeded"
    assert "1 of 2 workers registered within 6 s" in ended["message"]
    assert "exceeded quota: pods, requested: pods=1, used: pods=2" in ended["message"]


def test_a_worker_without_enough_memory_is_told_from_one_that_was_lost(bed: Bed) -> None:
    workers = {"replicas": 1, "resources": {"limits": {"memory": "16Mi"}}}
    bed.small.start_run("memory", **SHORT, workers=workers)
    ended = failed(bed.small, "memory")
    assert ended["reason"] == "OOMKilled"
    assert "killed for its memory limit" in ended["message"]


def test_an_image_that_does_not_exist_is_named(bed: Bed) -> None:
    bed.tare.values["workerImage"] = {"tag": "of-nobody"}
    bed.tare.install()
    bed.small.start_run("image", **SHORT, workers={"replicas": 1, "startTimeoutSeconds": 4})
    ended = failed(bed.small, "image")
    assert ended["reason"] == "ImagePullFailed"
    assert "localhost/tare-worker:of-nobody" in ended["message"]


def failed(space: Space, name: str) -> dict[str, Any]:
    """Wait for the end of a run; what it says of its failure, while no pod of it is left."""
    ended = space.finish(name, 40)
    found: dict[str, Any] = next(
        each for each in ended["status"]["conditions"] if each["type"] == "Failed"
    )
    assert found["status"] == "True"
    workers = f"--selector=tare.dev/run={name}"
    until(lambda: not space.kubectl("get", "pods", workers, "--output=name"), 20, "pods to go")
    return found
