"""Seamless phases on a cluster: the servers' own logs say what overlapped and what was profiled."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.bed import Bed, Server, condition, eventually, manifest
from tare.kube.port import RUN

if TYPE_CHECKING:
    from support.scene import Scene
    from tare.kube.port import Document

TOKENS = 100
SLOW = ("--itl", "40ms", "--ttft-overhead", "1ms")
"""An answer takes four seconds: far more than the operator needs to open a gate."""
ENDLESS = 3000


def phase(name: str, kind: str = "profiling", requests: int = 4, **more: Any) -> dict[str, Any]:
    given = {"type": "concurrency", "concurrency": 4, "requests": requests, **more}
    return {"name": name, "kind": kind, **given}


def profiled(*phases: dict[str, Any], **spec: Any) -> Document:
    """A run of these phases with the server's profiler on."""
    document = manifest(phases=list(phases), **spec)
    document["spec"]["endpoint"] |= {"serverProfiler": True}
    document["spec"]["dataset"]["prompts"]["osl"] = TOKENS
    return document


async def load(server: Server) -> list[dict[str, Any]]:
    """Requests of the load, oldest first; the preflight asks for fewer tokens."""
    return [r for r in await server.requests() if r["max_tokens"] == TOKENS]


async def test_the_next_phase_begins_before_the_last_answers_and_both_are_in_one_profile(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *SLOW, replicas=1)
    workers = {"replicas": 2, "processes": 2, "startTimeoutSeconds": 60}
    run = profiled(phase("first", seamless=True), phase("second"), workers=workers)
    await bed.submit(namespace, run)
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded", status
    seen = await load(server)
    assert len(seen) == 8
    first, second = seen[:4], seen[4:]
    last_answer = max(request["last_token_due_ns"] for request in first)
    assert min(request["arrived_ns"] for request in second) < last_answer
    counters = await server.counters()
    assert counters["requests_aborted"] == 0
    assert (counters["profiler_starts"], counters["profiler_stops"]) == (1, 1)
    (window,) = counters["profiler_windows"]
    assert window["start_ns"] < min(request["arrived_ns"] for request in seen)
    assert window["stop_ns"] > max(request["last_token_due_ns"] for request in seen)


async def test_a_profile_ends_with_the_last_answer_of_its_phase_while_the_next_one_runs(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *SLOW, replicas=1)
    run = profiled(phase("measured", seamless=True), phase("after", "warmup", requests=ENDLESS))
    await bed.submit(namespace, run)

    async def stopped() -> bool:
        return bool((await server.counters())["profiler_stops"])

    await eventually(stopped, 30, lambda: "the profiler was not stopped")
    (window,) = (await server.counters())["profiler_windows"]
    seen = await load(server)
    measured, after = seen[:4], seen[4:]
    assert all(request["finished"] for request in measured)
    assert window["start_ns"] < min(request["arrived_ns"] for request in measured)
    assert window["stop_ns"] > max(request["last_token_due_ns"] for request in measured)
    assert min(request["arrived_ns"] for request in after) < window["stop_ns"]
    assert condition(await bed.status(namespace), "Finished") is None
    await bed.cluster.patch(RUN, namespace, "run", {"spec": {"cancel": True}})
    await bed.finished(namespace)
    counters = await server.counters()
    assert (counters["profiler_starts"], counters["profiler_stops"]) == (1, 1)
    assert counters["in_flight"] == 0


async def test_cancelling_while_phases_overlap_cancels_the_answers_of_both(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *SLOW, replicas=1)
    workers = {"replicas": 1, "processes": 2, "startTimeoutSeconds": 60}
    run = profiled(phase("first", seamless=True), phase("second"), workers=workers)
    await bed.submit(namespace, run)

    async def overlap() -> bool:
        return len(await load(server)) == 8

    await eventually(overlap, 30, lambda: "the second phase did not begin")
    await bed.cluster.patch(RUN, namespace, "run", {"spec": {"cancel": True}})
    status = await bed.finished(namespace)
    assert status["phase"] == "Cancelled"
    counters = await server.counters()
    assert (counters["in_flight"], counters["profiler_running"]) == (0, False)
    assert (counters["profiler_starts"], counters["profiler_stops"]) == (1, 1)
    assert counters["requests_aborted"] == 8


async def test_an_operator_killed_while_phases_overlap_goes_on_with_the_same_workers(
    scene: Scene,
) -> None:
    bed = scene.bed
    run = profiled(phase("first", seamless=True), phase("second"))
    await bed.submit(scene.namespace, run)

    async def overlap() -> bool:
        return sum([len(await load(server)) for server in scene.servers]) == 8

    await eventually(overlap, 30, lambda: "the second phase did not begin")
    bed.operator.kill()
    await scene.restart()
    status = await bed.finished(scene.namespace)
    assert status["phase"] == "Succeeded", status
    (record,) = (await scene.trials()).values()
    assert record.attempt == 1
    assert record.summary is not None
    counts = {p.name: (p.counts["issued"], p.counts["ok"]) for p in record.summary.phases}
    assert counts == {"first": (4, 4), "second": (4, 4)}
    for counters in await scene.counters():
        starts, stops = counters["profiler_starts"], counters["profiler_stops"]
        assert 1 == starts <= stops <= 2
        assert not counters["profiler_running"]
