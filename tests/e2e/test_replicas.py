"""Replicas on a real cluster: they come and go under a run, and each has its share of the load."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from support.installation import KUBECONFIG, Installation, Space, condition, namespace
from support.one_cell import one_cell, profilers
from support.proxied import ProxiedServers
from tare.kube.client import ApiCluster
from tare.manifests.metadata import Owner
from tare.measure.servers import requests_by_replica
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tare.results.document import TrialDocument

REPLICAS = 3
MOST_SKEW = 0.2
"""Seconds within which all workers of a run start."""


@pytest.fixture(scope="module")
def runs() -> Iterator[Space]:
    with namespace("replicas") as space:
        tare = Installation(space, {"watch": {"namespaces": [space.name]}})
        with tare.installed():
            space.start_servers(replicas=REPLICAS)
            yield space


@pytest.fixture
async def servers(runs: Space) -> AsyncIterator[ProxiedServers]:
    """The servers, which count from zero."""
    async with ProxiedServers.open(KUBECONFIG, runs.name) as servers:
        await servers.forget()
        yield servers


async def only_trial(space: Space, name: str) -> TrialDocument:
    """The stored trial of a run of one cell."""
    metadata = space.get("benchmarkrun", name)["metadata"]
    owner = Owner(name=name, namespace=space.name, uid=metadata["uid"])
    async with ApiCluster.connect(KUBECONFIG) as cluster:
        (trial,) = (await ResultStore(cluster).load_trials(owner)).values()
    return trial


def events(space: Space, name: str) -> Counter[str]:
    """How often each reason was told of a run."""
    found = space.kubectl.items("events")
    return Counter(each["reason"] for each in found if each["involvedObject"]["name"] == name)


def soundness(run: dict[str, Any]) -> dict[str, Any]:
    """The condition `MeasurementSound`."""
    found: dict[str, Any] = next(
        each for each in run["status"]["conditions"] if each["type"] == "MeasurementSound"
    )
    return found


async def test_a_replica_that_got_no_request_is_named_and_the_results_say_what_each_got(
    runs: Space, servers: ProxiedServers
) -> None:
    runs.start_run("one-connection", **one_cell(concurrency=1, requests=8), workers={"replicas": 1})
    runs.kubectl("wait", "--for=condition=Complete", "benchmarkrun/one-connection", "--timeout=40s")
    trial = await only_trial(runs, "one-connection")
    counted = requests_by_replica(trial.servers)
    assert sorted(counted.values()) == [0, 0, 8]
    profiled = {
        pod: counters["requests_while_profiling"]
        for pod, counters in (await servers.counters()).items()
    }
    assert counted == profiled

    sound = soundness(runs.get("benchmarkrun", "one-connection"))
    assert sound["status"] == "False"
    idle = [pod for pod, count in counted.items() if count == 0]
    assert all(f"{pod} none" in sound["message"] for pod in idle)


async def test_load_that_goes_straight_to_the_pods_reaches_each_of_them(runs: Space) -> None:
    run = one_cell(concurrency=REPLICAS, requests=30)
    document = {
        "service": {"name": "qwen", "port": 8000},
        "model": "Qwen/Qwen3-8B",
        "via": "Endpoints",
    }
    runs.start_run("straight", **run, endpoint=document, workers={"replicas": 1})
    ended = runs.finish("straight", 40)
    counted = requests_by_replica((await only_trial(runs, "straight")).servers)
    assert sum(counted.values()) == 30
    assert min(counted.values()) >= 5
    assert "replicas answered less" not in soundness(ended)["message"]


async def test_eight_workers_start_together_by_the_servers_clock(
    runs: Space, servers: ProxiedServers
) -> None:
    # Each worker sends one request, which takes longer than all may take to start.
    runs.start_run(
        "together",
        **one_cell(concurrency=8, requests=8),
        dataset={"prompts": {"isl": 64, "osl": 64}, "seed": 7},
        workers={"replicas": 8},
    )
    assert condition(runs.finish("together", 60), "Complete") == "True"
    arrived = [
        request["arrived_ns"] / 1e9
        for requests in (await servers.requests()).values()
        for request in requests
        if request["while_profiling"]
    ]
    assert len(arrived) == 8
    skew = (await only_trial(runs, "together")).start_skew["profiling"]
    seen = max(arrived) - min(arrived)
    print(f"8 workers: {seen * 1e3:.0f} ms apart, {skew * 1e3:.0f} ms in the results")
    assert seen <= MOST_SKEW
    assert 0 < skew <= MOST_SKEW


async def test_scaling_the_deployment_repeats_the_trial_on_the_new_set(
    runs: Space, servers: ProxiedServers
) -> None:
    runs.start_run("scaled", **one_cell(concurrency=6, durationSeconds=4))
    await servers.under_load(20)
    runs.kubectl("scale", "deployment/qwen", f"--replicas={REPLICAS + 1}")
    assert condition(runs.finish("scaled", 60), "Complete") == "True"

    assert events(runs, "scaled")["ReplicasChanged"] == 1
    trial = await only_trial(runs, "scaled")
    counters = await servers.counters()
    assert trial.record.attempt == 2
    assert {replica.name for replica in trial.replicas} == set(counters)
    resets = sorted(each["resets"] for each in counters.values())
    assert resets == [1, 2, 2, 2], "the new replica was reset too"
    assert profilers(counters) == {(1, 1, False), (2, 2, False)}
    runs.kubectl("scale", "deployment/qwen", f"--replicas={REPLICAS}")
    runs.kubectl("rollout", "status", "deployment/qwen", "--timeout=50s")


async def test_a_rolling_update_repeats_the_trial_once_and_blames_nobody(
    runs: Space, servers: ProxiedServers
) -> None:
    before = set(await servers.pods())
    runs.start_run("rolled", **one_cell(concurrency=6, durationSeconds=4))
    await servers.under_load(20)
    runs.kubectl("rollout", "restart", "deployment/qwen")
    assert condition(runs.finish("rolled", 90), "Complete") == "True"

    told = events(runs, "rolled")
    assert told["ReplicasChanged"] == 1
    assert told["ProfilerStopFailed"] == 0, "a profiler ends with its pod"
    trial = await only_trial(runs, "rolled")
    after = set(await servers.pods())
    assert not before & after
    assert {replica.name for replica in trial.replicas} == after
    assert profilers(await servers.counters()) == {(1, 1, False)}
