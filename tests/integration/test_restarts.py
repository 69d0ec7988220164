"""The operator is killed at every point of a run's life and started again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.bed import NAMESPACE, condition
from support.processes import frozen, process_of
from tare.kube.port import CONFIG_MAP, JOB, RUN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from support.scene import Scene

ONCE = {"answer": "lost", "times": 1}
"""The server does what it is asked, and its answer never comes."""


async def in_the_preflight(scene: Scene) -> None:
    await scene.break_servers(chat=503)
    await scene.submit()
    await scene.until_served("chat", any)


async def while_workers_register(scene: Scene) -> None:
    await scene.submit()

    async def started() -> bool:
        return bool(await scene.workers())

    await scene.until(started)


async def during_the_reset(scene: Scene) -> None:
    await scene.break_servers(reset=ONCE)
    await scene.submit()
    await scene.until_served("reset")


async def between_reset_and_gate(scene: Scene) -> None:
    """A worker that does not answer holds the gate shut."""
    await scene.break_servers(reset={"answer": 503, "times": 1, "retry_after": 1})
    await scene.submit()
    await scene.until_served("reset")
    pods = await scene.workers()
    scene.broken.enter_context(frozen(process_of(pods[0]["metadata"]["name"])))
    await scene.bed.until(scene.namespace, lambda s: "reset" in s.get("current", {}))


async def in_warm_up(scene: Scene) -> None:
    await scene.submit(cells=2)
    await scene.until_all_run(0)


async def while_the_profiler_starts(scene: Scene) -> None:
    await scene.break_servers(start_profile=ONCE)
    await scene.submit(cells=2)
    await scene.until_served("start_profile")


async def in_profiling(scene: Scene) -> None:
    await scene.submit(cells=2)
    await scene.until_all_run(1)


async def in_a_phase_that_outlasts_the_restart(scene: Scene) -> None:
    await scene.submit(concurrency=1)
    await scene.until_all_run(1)


async def while_the_profiler_stops(scene: Scene) -> None:
    await scene.break_servers(stop_profile=ONCE)
    await scene.submit()
    await scene.until_served("stop_profile")


async def before_the_result_is_stored(scene: Scene) -> None:
    scene.own.devcluster.faults.fail("POST", "/configmaps", status=503, times=1000)
    await scene.submit(cells=2)
    await scene.bed.until(scene.namespace, lambda s: "verdict" in s.get("current", {}))


async def before_the_terminal_status(scene: Scene) -> None:
    """Our finalizer cannot be taken off, which comes after the summary and before the end."""
    await scene.submit()
    await scene.until_total("requests_while_profiling", 1)
    scene.own.devcluster.faults.fail("PATCH", r"/benchmarkruns/run(\?|$)", status=503, times=1000)
    await scene.bed.until(scene.namespace, lambda s: "summary" in s.get("results", {}))


@pytest.mark.parametrize(
    ("moment", "attempt"),
    [
        (in_the_preflight, 1),
        (while_workers_register, 1),
        (during_the_reset, 1),
        (between_reset_and_gate, 1),
        (in_warm_up, 1),
        (while_the_profiler_starts, 2),
        (in_profiling, 1),
        (in_a_phase_that_outlasts_the_restart, 1),
        (while_the_profiler_stops, 1),
        (before_the_result_is_stored, 1),
        (before_the_terminal_status, 1),
    ],
    ids=lambda value: value.__name__ if callable(value) else f"attempt {value}",
)
async def test_an_operator_killed_at_any_moment_measures_each_cell_once(
    scene: Scene, moment: Callable[[Scene], Awaitable[None]], attempt: int
) -> None:
    await moment(scene)
    scene.bed.operator.kill()
    await scene.restart()
    await scene.ends_well(crashes=1, attempt=attempt)


async def test_a_suspended_run_stays_so_over_a_restart_and_goes_on_when_asked(
    scene: Scene,
) -> None:
    await in_profiling(scene)
    await scene.patch(suspend=True)
    await scene.bed.until(scene.namespace, lambda s: s["phase"] == "Suspended")
    scene.bed.operator.kill()
    await scene.restart()
    status = await scene.bed.status(scene.namespace)
    assert condition(status, "Suspended") == "True"
    sent = await scene.load()
    await scene.patch(suspend=False)
    status = await scene.bed.finished(scene.namespace)
    assert status["phase"] == "Succeeded"
    assert await scene.load() > sent
    assert [r.attempt for r in (await scene.trials()).values()] == [2, 1]


async def test_a_run_deleted_while_the_operator_is_down_leaves_no_profiler_on(
    scene: Scene,
) -> None:
    await in_profiling(scene)
    scene.bed.operator.kill()
    await scene.bed.cluster.delete(RUN, scene.namespace, "run")
    assert all(counters["profiler_running"] for counters in await scene.counters())
    await scene.restart()
    await scene.bed.gone(RUN, scene.namespace, "run")
    await _clean(scene)


@pytest.mark.parametrize("down", [False, True], ids=["operator up", "operator down"])
async def test_a_namespace_deleted_during_profiling_leaves_no_profiler_on(
    scene: Scene, *, down: bool
) -> None:
    urls = [server.url for server in scene.servers]
    scene.namespace = await scene.bed.namespace()
    await scene.submit(service=None, urls=urls)
    await scene.until_total("requests_while_profiling", 1)
    if down:
        scene.bed.operator.kill()
    await scene.bed.cluster.delete(NAMESPACE, "", scene.namespace)
    if down:
        await scene.restart()
    await scene.bed.gone(NAMESPACE, "", scene.namespace)
    await _clean(scene)


async def _clean(scene: Scene) -> None:
    """Nothing of a deleted run is left, neither on the servers nor on the cluster."""
    for counters in await scene.counters():
        assert not counters["profiler_running"]
        assert counters["profiler_starts"] == 1
        assert 1 <= counters["profiler_stops"] <= 2

    async def empty() -> bool:
        kinds = (JOB, CONFIG_MAP)
        return not any([await scene.bed.cluster.list(kind, scene.namespace) for kind in kinds])

    await scene.until(empty)
