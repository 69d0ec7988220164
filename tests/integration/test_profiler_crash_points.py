"""Wherever a run is broken off, no profiler is left running on a server that is still alive.

Twenty points at which a worker, the operator, the run, its namespace or a server goes wrong around
the profiler. The servers are the judges: each counts the starts and stops that reached it and knows
whether its profiler runs. A crash may cost each of them one stop more than it had starts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.bed import NAMESPACE, condition
from support.processes import kill, process_of
from support.scene import SERVERS
from tare.kube.port import POD, RUN

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from support.scene import Scene

    Step = Callable[[Scene], Awaitable[None]]

ENDLESS = 3000
"""Requests of a profiling phase that lasts two minutes, so that no point can be missed."""
LOST = {"answer": "lost", "times": 1}
"""The server does what it is asked, and its answer never comes."""
HANG = {"answer": "hang", "times": 1}
"""The server does not do what it is asked, and never answers."""
FAILS = {"answer": 500, "times": 1}


async def profiling(scene: Scene, **endpoint: Any) -> None:
    """A run whose profilers are all on, and stay on until something happens."""
    await scene.submit(requests=ENDLESS, **endpoint)
    await scene.until_total("requests_while_profiling", 1)
    assert all(counters["profiler_running"] for counters in await scene.counters())


async def starting(scene: Scene, *, patience: float) -> None:
    """A run whose profilers are on, which the operator does not know: it waits for the answer."""
    await scene.break_servers(start_profile=LOST)
    limits = {"timeoutSeconds": patience, "stopTimeoutSeconds": 60}
    await scene.submit(requests=ENDLESS, serverProfiler=limits)
    await scene.until_served("start_profile")


async def stopping(scene: Scene, *, patience: float) -> None:
    """A run whose profilers are off, which the operator does not know: it waits for the answer."""
    await scene.break_servers(stop_profile=LOST)
    await scene.submit(serverProfiler={"stopTimeoutSeconds": patience})
    await scene.until_served("stop_profile")


async def profiling_elsewhere(scene: Scene) -> None:
    """The same in another namespace than that of the servers, which outlive it."""
    scene.namespace = await scene.bed.namespace()
    await profiling(scene, service=None, urls=[server.url for server in scene.servers])


async def delete(scene: Scene) -> None:
    await scene.bed.cluster.delete(RUN, scene.namespace, "run")


async def worker_is_killed_while_profiling(scene: Scene) -> None:
    await profiling(scene)
    kill(process_of((await scene.workers())[0]["metadata"]["name"]))
    await scene.until_total("profiler_stops", 2)


async def operator_is_killed_while_the_profiler_starts(scene: Scene) -> None:
    await starting(scene, patience=60)
    scene.bed.operator.kill()
    await scene.restart()


async def operator_is_killed_while_profiling(scene: Scene) -> None:
    await profiling(scene)
    scene.bed.operator.kill()
    await scene.restart()


async def operator_is_killed_while_the_profiler_stops(scene: Scene) -> None:
    await stopping(scene, patience=60)
    scene.bed.operator.kill()
    await scene.restart()


async def operator_is_replaced_while_profiling(scene: Scene) -> None:
    """SIGTERM, as in a roll-out of a new version."""
    await profiling(scene)
    scene.bed.operator.terminate()
    await scene.restart()


async def run_is_deleted_while_the_profiler_starts(scene: Scene) -> None:
    await starting(scene, patience=2)
    await delete(scene)


async def run_is_deleted_while_profiling(scene: Scene) -> None:
    await profiling(scene)
    await delete(scene)


async def run_is_deleted_while_the_profiler_stops(scene: Scene) -> None:
    await stopping(scene, patience=2)
    await delete(scene)


async def run_is_deleted_while_the_operator_is_down(scene: Scene) -> None:
    await profiling(scene)
    scene.bed.operator.kill()
    await delete(scene)
    await scene.restart()


async def operator_is_killed_while_it_cleans_up_after_a_deleted_run(scene: Scene) -> None:
    await profiling(scene)
    await scene.break_servers(stop_profile=LOST)
    await delete(scene)
    await scene.until_served("stop_profile")
    scene.bed.operator.kill()
    await scene.restart()


async def namespace_is_deleted_while_profiling(scene: Scene) -> None:
    await profiling_elsewhere(scene)
    await scene.bed.cluster.delete(NAMESPACE, "", scene.namespace)


async def namespace_is_deleted_while_the_operator_is_down(scene: Scene) -> None:
    await profiling_elsewhere(scene)
    scene.bed.operator.kill()
    await scene.bed.cluster.delete(NAMESPACE, "", scene.namespace)
    await scene.restart()


async def run_is_cancelled_while_profiling(scene: Scene) -> None:
    await profiling(scene)
    await scene.patch(cancel=True)


async def run_is_cancelled_while_the_operator_is_down(scene: Scene) -> None:
    await profiling(scene)
    scene.bed.operator.kill()
    await scene.patch(cancel=True)
    await scene.restart()


async def run_is_suspended_while_profiling(scene: Scene) -> None:
    await profiling(scene)
    await scene.patch(suspend=True)
    await scene.bed.until(scene.namespace, lambda s: condition(s, "Suspended") == "True")


async def a_server_answers_500_to_the_start(scene: Scene) -> None:
    await scene.servers[0].faults(start_profile=FAILS)
    await scene.submit(requests=ENDLESS)


async def a_server_hangs_at_the_start(scene: Scene) -> None:
    await scene.servers[0].faults(start_profile=HANG)
    limits = {"timeoutSeconds": 2, "stopTimeoutSeconds": 60}
    await scene.submit(requests=ENDLESS, serverProfiler=limits)


async def a_server_answers_500_to_the_stop(scene: Scene) -> None:
    await scene.servers[0].faults(stop_profile=FAILS)
    await scene.submit()


async def a_server_hangs_at_the_stop(scene: Scene) -> None:
    await scene.servers[0].faults(stop_profile=HANG)
    await scene.submit(serverProfiler={"stopTimeoutSeconds": 2})


async def a_replica_is_replaced_between_start_and_stop(scene: Scene) -> None:
    await profiling(scene)
    gone, stays = scene.servers
    new = await scene.bed.another_server(scene.namespace, "qwen-2", *SERVERS)
    await scene.bed.cluster.delete(POD, scene.namespace, gone.pod)
    scene.servers = [stays, new]
    await scene.bed.gone(POD, scene.namespace, gone.pod)


async def finished(scene: Scene) -> None:
    await scene.bed.finished(scene.namespace)


async def cancelled(scene: Scene) -> None:
    await scene.patch(cancel=True)
    await finished(scene)


async def run_gone(scene: Scene) -> None:
    await scene.bed.gone(RUN, scene.namespace, "run")


async def namespace_gone(scene: Scene) -> None:
    await scene.bed.gone(NAMESPACE, "", scene.namespace)


POINTS: tuple[tuple[Step, Step], ...] = (
    (worker_is_killed_while_profiling, cancelled),
    (operator_is_killed_while_the_profiler_starts, cancelled),
    (operator_is_killed_while_profiling, cancelled),
    (operator_is_killed_while_the_profiler_stops, finished),
    (operator_is_replaced_while_profiling, cancelled),
    (run_is_deleted_while_the_profiler_starts, run_gone),
    (run_is_deleted_while_profiling, run_gone),
    (run_is_deleted_while_the_profiler_stops, run_gone),
    (run_is_deleted_while_the_operator_is_down, run_gone),
    (operator_is_killed_while_it_cleans_up_after_a_deleted_run, run_gone),
    (namespace_is_deleted_while_profiling, namespace_gone),
    (namespace_is_deleted_while_the_operator_is_down, namespace_gone),
    (run_is_cancelled_while_profiling, finished),
    (run_is_cancelled_while_the_operator_is_down, finished),
    (run_is_suspended_while_profiling, cancelled),
    (a_server_answers_500_to_the_start, finished),
    (a_server_hangs_at_the_start, finished),
    (a_server_answers_500_to_the_stop, finished),
    (a_server_hangs_at_the_stop, finished),
    (a_replica_is_replaced_between_start_and_stop, cancelled),
)
"""What breaks, and how the run comes to its end then."""


@pytest.mark.parametrize(("point", "end"), POINTS, ids=lambda step: step.__name__.replace("_", " "))
async def test_a_run_that_is_broken_off_leaves_no_profiler_on(
    scene: Scene, point: Step, end: Step
) -> None:
    await point(scene)
    await end(scene)
    for counters in await scene.counters():
        assert not counters["profiler_running"]
        starts, stops = counters["profiler_starts"], counters["profiler_stops"]
        assert starts <= stops <= starts + 1


async def test_without_a_crash_every_start_has_one_stop(scene: Scene) -> None:
    await scene.submit(cells=2)
    await finished(scene)
    for counters in await scene.counters():
        assert counters["profiler_starts"] == counters["profiler_stops"] == scene.cells
