"""The Kubernetes API misbehaves while a run is under way; the run is measured all the same.

Every outcome that the API leaves unknown is tried again, and nothing that is tried again counts
twice: the servers and the stored results say so.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from support.bed import condition
from support.processes import kill, process_of
from support.scene import PROFILING, WARMUP
from tare.kube.port import JOB, POD

if TYPE_CHECKING:
    from support.scene import Scene
    from tare.devcluster.faults import Faults

STATUS = "/benchmarkruns/run/status"
VERBS = (("GET", "/endpointslices"), ("POST", "/jobs"), ("PATCH", STATUS), ("DELETE", "/jobs/"))


@pytest.fixture
def faults(scene: Scene) -> Faults:
    return scene.own.devcluster.faults


def sent(scene: Scene, method: str, path: str) -> int:
    """How many requests of a kind the API server received about the test's namespace."""
    return sum(
        entry.method == method and scene.namespace in entry.path and path in entry.path
        for entry in scene.own.devcluster.requests
    )


async def until_profiling(scene: Scene) -> None:
    await scene.until_total("requests_while_profiling", 1)


async def test_conflicts_on_the_status_cost_nothing_but_another_look(
    scene: Scene, faults: Faults
) -> None:
    faults.fail("PATCH", STATUS, status=409, times=12)
    await scene.submit()
    await scene.ends_well()


async def test_b101_a_job_that_was_stored_though_the_answer_was_500_is_found_by_its_name(
    scene: Scene, faults: Faults
) -> None:
    """No watch and no worker tells of the Job: the 409 of the second try must."""
    faults.black_hole_watches("/jobs")
    faults.refuse_pods()
    faults.fail("POST", "/jobs", status=500, after_store=True)
    await scene.submit()

    async def tried_again() -> bool:
        return sent(scene, "POST", "/jobs") == 2

    await scene.until(tried_again)
    faults.admit_pods()
    await scene.ends_well()
    assert await tried_again()


async def test_what_was_done_though_the_answer_was_an_error_is_not_done_twice(
    scene: Scene, faults: Faults
) -> None:
    for method, path in (("PATCH", STATUS), ("POST", "/configmaps"), ("DELETE", "/jobs/")):
        faults.fail(method, path, status=500, after_store=True)
    await scene.submit()
    await scene.ends_well()


async def test_refusals_at_every_verb_are_sat_out(scene: Scene, faults: Faults) -> None:
    for number, (method, path) in enumerate(VERBS):
        faults.fail(method, path, status=(429, 503)[number % 2])
    await scene.submit()
    await scene.ends_well()


async def test_watches_that_break_again_and_again_lose_nothing(
    scene: Scene, faults: Faults
) -> None:
    async def break_them() -> None:
        while True:
            faults.drop_watches()
            await asyncio.sleep(0.2)

    breaking = asyncio.create_task(break_them())
    try:
        await scene.submit()
        await scene.ends_well()
    finally:
        breaking.cancel()


async def test_a_pod_that_went_while_the_watch_had_to_start_over_is_missed(
    scene: Scene, faults: Faults
) -> None:
    """The LIST after a 410 brings the living only; a worker without a pod is lost."""
    await scene.submit(concurrency=1)
    await until_profiling(scene)
    name = (await scene.workers())[0]["metadata"]["name"]
    faults.black_hole_watches("/pods")
    kill(process_of(name))
    await scene.bed.cluster.delete(POD, scene.namespace, name)
    await scene.bed.gone(POD, scene.namespace, name)
    faults.expire_watches("/pods")
    await scene.measures_once(attempt=2)


async def test_b107_a_watch_that_fell_silent_is_given_up_and_the_new_run_is_seen(
    scene: Scene, faults: Faults
) -> None:
    faults.black_hole_watches()
    await scene.submit()
    await scene.ends_well()


async def test_a_phase_ends_on_its_own_clock_while_the_api_server_is_down(scene: Scene) -> None:
    await scene.submit()
    await until_profiling(scene)
    scene.own.devcluster.stop_listening()
    try:
        await scene.until_total("requests_complete", 1 + WARMUP + PROFILING)
        await scene.until_total("profiler_stops", len(scene.servers))
    finally:
        scene.own.devcluster.start_listening()
    await scene.ends_well()


async def test_a_quota_that_refuses_the_pods_is_named_when_the_start_takes_too_long(
    scene: Scene, faults: Faults
) -> None:
    faults.refuse_pods("exceeded quota: team, requested: pods=1, used: pods=9, limited: pods=9")
    await scene.submit(start_timeout=3)
    status = await scene.bed.finished(scene.namespace, seconds=15)
    assert (status["phase"], status["reason"]) == ("Failed", "QuotaExceeded")
    failed = next(c for c in status["conditions"] if c["type"] == "Failed")
    assert "exceeded quota: team" in failed["message"]
    assert not await scene.bed.cluster.list(JOB, scene.namespace)
    assert await scene.total("resets") == 0


async def test_a_result_is_kept_until_its_config_map_can_be_written(
    scene: Scene, faults: Faults
) -> None:
    faults.fail("POST", "/configmaps", times=1000)
    await scene.submit()
    await scene.bed.until(scene.namespace, lambda s: "verdict" in s.get("current", {}))
    faults.clear()
    await scene.ends_well()


@pytest.mark.parametrize("status", [403, 422])
async def test_a_status_that_is_refused_for_a_while_loses_no_result(
    scene: Scene, faults: Faults, status: int
) -> None:
    """A right may be missing, or the definition be older than the operator."""
    await scene.submit()
    await until_profiling(scene)
    before = sent(scene, "PATCH", STATUS)
    faults.fail("PATCH", STATUS, status=status, times=1000)
    await scene.until_total("profiler_stops", len(scene.servers))

    async def refused() -> bool:
        return sent(scene, "PATCH", STATUS) > before

    await scene.until(refused)
    faults.clear()
    await scene.ends_well()


async def test_b112_the_status_is_written_by_its_subresource_and_not_when_nothing_happens(
    scene: Scene,
) -> None:
    await scene.submit()
    status = await scene.bed.finished(scene.namespace)
    run = await scene.bed.run(scene.namespace)
    assert run["metadata"]["generation"] == 1
    assert status["observedGeneration"] == 1
    assert condition(status, "Complete") == "True"

    async def let_go() -> bool:
        return not (await scene.bed.run(scene.namespace))["metadata"].get("finalizers")

    await scene.until(let_go)
    written = sent(scene, "PATCH", "/benchmarkruns/")
    await asyncio.sleep(0.4)
    assert sent(scene, "PATCH", "/benchmarkruns/") == written
    finalizers = written - sent(scene, "PATCH", STATUS)
    assert finalizers <= 5, "on and off, of Kopf's finalizer and of ours"
