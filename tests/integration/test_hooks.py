"""Control hooks on a cluster, with the servers' own word for what reached them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from support.bed import QUICK, Bed, condition, manifest, told
from support.scripted_http import Reply, json_reply, scripted
from tare.manifests.metadata import Owner
from tare.measure.hooks import HookKind
from tare.measure.servers import ServerCount
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from tare.kube.port import Document
    from tare.results.document import TrialDocument

RESET, START, STOP = "/reset_prefix_cache", "/start_profile", "/stop_profile"
CANARIES = 3
"""Prompts to each replica around one reset."""


def with_hooks(**hooks: Any) -> Document:
    """The usual run with these settings of its endpoint."""
    document = manifest()
    document["spec"]["endpoint"] |= hooks
    return document


async def trial_of(bed: Bed, run: Document) -> TrialDocument:
    """The only trial of a run, as it is stored."""
    metadata = run["metadata"]
    owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    (trial,) = (await ResultStore(bed.cluster).load_trials(owner)).values()
    return trial


async def test_a_reset_before_profiling_takes_out_what_the_warm_up_left(bed: Bed) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK, replicas=1)
    run = await bed.submit(namespace, with_hooks(resetKvCache={"at": "Both"}, serverProfiler=True))
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    assert told(status, "CacheAsPlanned")["reason"] == "AsPlanned"
    trial = await trial_of(bed, run)
    assert (trial.record.reset, trial.record.reset_before_profiling) == ("Proven", "Proven")
    assert trial.record.summary is not None
    assert [phase.first_cached_tokens for phase in trial.record.summary.phases] == [0, 0]
    kinds = [row.hook for row in trial.hooks]
    assert kinds.count(HookKind.RESET) == 2
    assert kinds.count(HookKind.CANARY) == 2 * CANARIES
    counters = await servers[0].counters()
    assert (counters["resets"], counters["profiler_starts"], counters["profiler_stops"]) == (
        2,
        1,
        1,
    )
    (counts,) = trial.servers
    assert counts.delta(ServerCount.REQUESTS) == 2 + 8, "canaries are in no metric"


async def test_without_it_the_warm_up_has_warmed_the_profiling(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    run = await bed.submit(namespace, with_hooks(resetKvCache=True))
    await bed.finished(namespace)
    summary = (await trial_of(bed, run)).record.summary
    assert summary is not None
    assert summary.phases[0].first_cached_tokens == 0
    assert summary.phases[1].first_cached_tokens


async def test_a_server_that_says_yes_and_empties_nothing_is_found_before_any_load(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK)
    await servers[1].faults(reset="silent")
    await bed.submit(namespace, with_hooks(resetKvCache=True))
    status = await bed.finished(namespace)
    (cell,) = status["cells"]
    assert (status["phase"], cell["state"], cell["reason"]) == (
        "Failed",
        "Failed",
        "ResetIncomplete",
    )
    assert f"{servers[1].pod} still found" in cell["message"]
    asked = sum([(await server.counters())["requests"] for server in servers])
    assert asked == 1 + 2 * CANARIES, "the probe and the canaries"


async def test_a_cell_that_is_measured_all_the_same_says_what_the_reset_left(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await server.faults(reset="silent")
    await bed.submit(namespace, with_hooks(resetKvCache={"onFailure": "Continue"}))
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    found = told(status, "CacheAsPlanned")
    assert (found["status"], found["reason"]) == ("False", "ResetIncomplete")
    assert "tokens of a prompt from before it" in found["message"]


@pytest.mark.usefixtures("devcluster")
async def test_hooks_with_a_target_go_to_every_port_of_its_pods_and_nowhere_else(bed: Bed) -> None:
    """Behind one address of the embedded cluster: a pod's server, and beside it one of the test."""
    namespace = await bed.namespace()
    (router,) = await bed.servers(namespace, *QUICK, replicas=1)
    (engine,) = await bed.servers(namespace, *QUICK, replicas=1, name="ranks")
    target = {"selector": {"app": "ranks"}, "ports": [8000, 8001]}
    address = urlsplit(engine.url).hostname or ""
    async with scripted(host=address, port=8001) as second:
        second.on(RESET, json_reply({"success": True})).on(START, Reply()).on(STOP, Reply())
        hooks = with_hooks(resetKvCache={"target": target}, serverProfiler={"target": target})
        await bed.submit(namespace, hooks)
        status = await bed.finished(namespace)
        asked = [r.path for r in second.requests if r.path in (RESET, START, STOP)]
    assert status["phase"] == "Succeeded"
    assert asked == [RESET, START, STOP]
    counters = await engine.counters()
    assert (counters["resets"], counters["requests"]) == (1, CANARIES)
    assert counters["profiler_starts"] == counters["profiler_stops"] == 1
    counters = await router.counters()
    assert (counters["resets"], counters["profiler_starts"]) == (0, 0)
    assert counters["requests"] == 1 + 2 + 8


async def test_b82_the_profile_ends_after_its_time_and_the_phase_runs_on(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, "--itl", "20ms", replicas=1)
    document = with_hooks(
        server="vllm", serverProfiler={"maxSeconds": 1, "maxIterations": 7, "startBody": {"x": 1}}
    )
    profiling = document["spec"]["phases"][1]
    del profiling["requests"]
    profiling["durationSeconds"] = 4
    await bed.submit(namespace, document)
    status = await bed.finished(namespace)
    assert status["phase"] == "Succeeded"
    assert condition(status, "Profiling") is None, "it goes without saying"
    counters = await server.counters()
    (window,) = counters["profiler_windows"]
    assert window["body"] == {"profile_prefix": "run-cell0-trial0", "max_iterations": 7, "x": 1}
    assert 0.9 <= (window["stop_ns"] - window["start_ns"]) / 1e9 <= 2
    assert counters["last_request_ns"] - window["stop_ns"] > 1e9, "the load went on"
    assert counters["profiler_stops"] == 1
