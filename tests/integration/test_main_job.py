"""The main job: apply a BenchmarkRun, get results, and the servers' word that all was as told."""

from __future__ import annotations

from support.bed import Bed, condition, eventually, manifest
from tare.kube.port import CONFIG_MAP, JOB, POD, RUN, Document
from tare.manifests.metadata import Owner
from tare.measure.servers import ServerCount
from tare.results.store import ResultStore

ISOLATED = "warmup_isolation_first_turn"
"""On two replicas nobody can say which of them has what the warm-up sent."""


def owner_of(run: Document) -> Owner:
    metadata = run["metadata"]
    return Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])


def sweep_manifest() -> Document:
    document = manifest(
        sweep={"grid": {"phases.profiling.concurrency": [2, 4], "dataset.prompts.isl": [32, 96]}},
        dataset={"prompts": {"isl": 64, "osl": 4, "cacheBust": {"target": ISOLATED}}, "seed": 1},
        trials={"count": 2, "order": "Interleaved"},
        goals=[{"metric": "error_rate", "max": "0%"}],
    )
    document["spec"]["endpoint"] |= {"resetKvCache": True, "serverProfiler": True}
    return document


async def test_a_sweep_with_trials_ends_measured_and_the_servers_confirm_every_hook(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "1ms", "--ttft-overhead", "2ms")
    run = await bed.submit(namespace, sweep_manifest())
    status = await bed.finished(namespace, seconds=120)

    assert status["phase"] == "Succeeded"
    assert [row["state"] for row in status["cells"]] == ["Measured"] * 4
    assert condition(status, "GoalsMet") == "True"
    assert condition(status, "CacheAsPlanned") == "True"
    replicas = status["target"]["replicas"]
    assert [replica["name"] for replica in replicas] == [server.pod for server in servers]
    assert all("tare" in replica["image"] for replica in replicas)
    assert status["target"]["serverVersion"]
    load = 0
    for server in servers:
        counters = await server.counters()
        assert counters["resets"] == 8, "cells × trials on each replica"
        assert counters["profiler_starts"] == counters["profiler_stops"] == 8
        assert not counters["profiler_running"]
        load += counters["requests"]
    trials = await ResultStore(bed.cluster).load_trials(owner_of(run))
    issued = sum(
        phase.counts["issued"]
        for trial in trials.values()
        if trial.record.summary
        for phase in trial.record.summary.phases
    )
    counted = [
        counts.delta(ServerCount.REQUESTS) or 0
        for trial in trials.values()
        for counts in trial.servers
    ]
    assert len(counted) == 8 * 2
    assert sum(counted) == issued, "the servers counted the load between gate and drain"
    probes, canaries = 8, 8 * 3 * len(servers)
    assert issued == 8 * (2 + 8)
    assert load == issued + probes + canaries, "hooks are in no metric, and every request is"
    assert {trial.record.reset for trial in trials.values()} == {"Proven"}


async def test_the_profiler_runs_during_profiling_and_never_during_warm_up(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace)
    document = manifest()
    document["spec"]["endpoint"]["serverProfiler"] = True
    await bed.submit(namespace, document)
    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    profiled = [r["while_profiling"] for server in servers for r in await server.requests()]
    # One probe and two warm-up requests are not profiled, all eight of the profiling phase are.
    assert sorted(profiled) == [False] * 3 + [True] * 8


async def test_results_survive_in_config_maps_that_the_run_owns(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace)
    run = await bed.submit(namespace, manifest())
    status = await bed.finished(namespace)
    maps = await bed.cluster.list(CONFIG_MAP, namespace)
    owned = [m for m in maps if m["metadata"].get("ownerReferences")]
    assert status["results"]["summary"] in {m["metadata"]["name"] for m in owned}
    summary = await ResultStore(bed.cluster).load_summary(owner_of(run))
    assert summary is not None
    assert summary.cells[0].summary is not None
    assert summary.cells[0].summary.counts["ok"] == 8


async def test_no_job_and_no_pod_of_ours_is_left_at_the_end(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace)
    await bed.submit(namespace, manifest())
    await bed.finished(namespace)
    for job in await bed.cluster.list(JOB, namespace):
        await bed.gone(JOB, namespace, job["metadata"]["name"])
    for pod in await bed.cluster.list(
        POD, namespace, labels={"app.kubernetes.io/managed-by": "tare"}
    ):
        await bed.gone(POD, namespace, pod["metadata"]["name"])


async def test_a_cancelled_run_stops_its_load_and_its_profiler(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "50ms")
    document = manifest()
    document["spec"]["phases"][1] |= {"requests": 100000}
    document["spec"]["endpoint"]["serverProfiler"] = True
    await bed.submit(namespace, document)
    await bed.until(namespace, lambda s: (s.get("progress") or {}).get("phase") == "profiling")
    await bed.cluster.patch(RUN, namespace, "run", {"spec": {"cancel": True}})
    status = await bed.finished(namespace)
    assert status["phase"] == "Cancelled"
    assert condition(status, "Failed") == "False"
    for server in servers:
        counters = await server.counters()
        assert counters["profiler_starts"] == counters["profiler_stops"] == 1


async def test_a_run_deleted_during_profiling_leaves_no_profiler_on(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, "--itl", "50ms")
    document = manifest()
    document["spec"]["phases"][1] |= {"requests": 100000}
    document["spec"]["endpoint"]["serverProfiler"] = True
    await bed.submit(namespace, document)
    await bed.until(namespace, lambda s: (s.get("progress") or {}).get("phase") == "profiling")
    await bed.cluster.delete(RUN, namespace, "run")
    await bed.gone(RUN, namespace, "run")
    for server in servers:
        counters = await server.counters()
        assert counters["profiler_starts"] == counters["profiler_stops"] == 1

    async def forgotten() -> bool:
        return 'run="run"' not in await _series(bed, namespace)

    await eventually(forgotten, 10, lambda: "series of a deleted run are still exported")


async def _series(bed: Bed, namespace: str) -> str:
    lines = (await bed.metrics()).splitlines()
    return "\n".join(line for line in lines if f'namespace="{namespace}"' in line)
