"""Two real vLLM replicas as pods, measured by the installed operator: `make test-vllm-cluster`.

`TARE_VLLM_NAMESPACE` has the Service `vllm` (port 80, model `tiny`) with two ready pods, which were
started as `test_vllm.py` says and are used by nobody else. KUBECONFIG names the cluster, with the
images of `make image` on it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.installation import KUBECONFIG, Installation, Space, condition, namespace, until
from support.kubectl import Kubectl
from tare.kube.client import ApiCluster
from tare.manifests.metadata import Owner
from tare.measure.histogram import Histogram
from tare.measure.hooks import CallOutcome, HookKind
from tare.measure.servers import ServerCount, requests_by_replica
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.results.document import TrialDocument

EXAMPLE = Path(__file__).parents[2] / "examples" / "vllm.yaml"
NAME, REPLICAS, CELLS, REQUESTS = "vllm", 2, 2, 8


@pytest.fixture(scope="module")
def models() -> Iterator[Space]:
    """The namespace of the servers, with an operator that watches it."""
    name = os.environ["TARE_VLLM_NAMESPACE"]
    models = Space(name, Kubectl(KUBECONFIG, name))
    models.kubectl("rollout", "status", "deployment/vllm", "--timeout=50s")
    with namespace("vllm") as space:
        tare = Installation(space, {"watch": {"namespaces": [name]}})
        with tare.installed():
            yield models


@pytest.fixture(scope="module")
def finished(models: Space) -> Iterator[dict[str, Any]]:
    """The run of `examples/vllm.yaml` on the Service; writing the traces takes its time."""
    document = yaml.safe_load(EXAMPLE.read_text())
    document["metadata"] = {"name": NAME, "namespace": models.name}
    del document["spec"]["endpoint"]["url"]
    document["spec"]["endpoint"]["service"] = {"name": "vllm", "port": "http"}
    models.apply(document)
    yield models.finish(NAME, 600)
    models.kubectl("delete", "benchmarkrun", NAME)


@pytest.fixture
async def trials(models: Space, finished: dict[str, Any]) -> list[TrialDocument]:
    owner = Owner(name=NAME, namespace=models.name, uid=finished["metadata"]["uid"])
    async with ApiCluster.connect(KUBECONFIG) as cluster:
        stored = await ResultStore(cluster).load_trials(owner)
    assert len(stored) == CELLS
    return [trial for _, trial in sorted(stored.items())]


def test_the_run_measures_both_cells_and_says_what_it_measured(finished: dict[str, Any]) -> None:
    found = {kind: condition(finished, kind) for kind in ("Complete", "GoalsMet", "CacheAsPlanned")}
    assert found == dict.fromkeys(found, "True"), json.dumps(finished["status"], indent=1)
    target = finished["status"]["target"]
    assert target["serverVersion"]
    assert len(target["replicas"]) == REPLICAS


def test_every_replica_is_reset_and_profiled_in_each_cell(trials: list[TrialDocument]) -> None:
    for trial in trials:
        names = {replica.name for replica in trial.replicas}
        assert len(names) == REPLICAS
        for hook in HookKind:
            rows = [row for row in trial.hooks if row.hook is hook]
            assert {row.replica for row in rows} == names, hook
            done = (CallOutcome.CONFIRMED, CallOutcome.UNVERIFIED)
            assert all(row.outcome in done for row in rows), rows
        resets = [row for row in trial.hooks if row.hook is HookKind.RESET]
        assert {row.outcome for row in resets} == {CallOutcome.CONFIRMED}


def test_the_servers_counted_what_the_results_say(trials: list[TrialDocument]) -> None:
    for trial in trials:
        counted = requests_by_replica(trial.servers)
        assert len(counted) == REPLICAS
        assert sum(counted.values()) == REQUESTS
        assert trial.record.summary is not None
        (phase,) = trial.record.summary.phases
        assert phase.first_cached_tokens == 0
        for metric, count in (
            ("prompt_tokens", ServerCount.PROMPT_TOKENS),
            ("output_tokens", ServerCount.OUTPUT_TOKENS),
        ):
            reported = Histogram.from_json(phase.histograms[metric]).sum
            assert reported == sum(server.delta(count) or 0 for server in trial.servers)


def test_no_worker_is_left(models: Space, finished: dict[str, Any]) -> None:
    assert finished["status"]["phase"] == "Succeeded"
    workers = f"--selector=tare.dev/run={NAME}"
    until(lambda: not models.kubectl("get", "pods", workers, "--output=name"), 20, "pods to go")
