"""Public bug cases of group G: what goes wrong between Kubernetes, an operator and its workers.

Numbers and wanted values: reference/bug-cases.md. B101 and B105 stand in tests/integration/
test_restarts.py and tests/unit/decide/test_status_schema.py, B98 in tests/integration/
test_targets.py.
"""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.bed import (
    CRD,
    CRDS,
    QUICK,
    Bed,
    OperatorProcess,
    condition,
    install_crd,
    manifest,
    told,
)
from support.cluster import ADDRESS, REAL
from support.measured import MS, histogram, phase_result, worker_result
from support.sightings import sightings
from tare.kube.errors import Invalid
from tare.kube.port import CONFIG_MAP, JOB, POD, RUN, SECRET
from tare.manifests.metadata import Owner
from tare.measure.trial import summarize
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from tare.kube.port import Document

FOREVER = 1_000_000
"""Requests that no test waits for."""
INJECT = "sidecar.istio.io/inject"
LABEL_VALUE = re.compile(r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")


def run(name: str = "run", **spec: Any) -> Document:
    return manifest(name, **{"workers": {"replicas": 1}, **spec})


def endless() -> Document:
    """A run whose profiling phase does not end by itself."""
    document = run()
    document["spec"]["phases"][1]["requests"] = FOREVER
    document["spec"]["dataset"]["entries"] = 100
    return document


async def test_b94_a_models_name_is_sent_as_it_is_and_kept_out_of_labels(bed: Bed) -> None:
    model = "meta-llama/Llama-3.1-8B-Instruct:fp8@v2"
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, "--model", model, replicas=1)
    document = run()
    document["spec"]["endpoint"]["model"] = model
    async with sightings(bed, namespace, JOB, POD, CONFIG_MAP, SECRET) as seen:
        await bed.submit(namespace, document)
        assert (await bed.finished(namespace))["phase"] == "Succeeded"

    # The server answers 404 to any other name.
    assert (await server.counters())["requests"] == 1 + 2 + 8
    ours = [d for objects in seen.values() for d in objects.values()]
    assert len(seen[JOB]) == 1
    labels = [value for d in ours for value in (d["metadata"].get("labels") or {}).values()]
    assert all(len(value) <= 63 and LABEL_VALUE.fullmatch(value) for value in labels), labels
    assert f'model="{model}"' in await bed.metrics()


@pytest.fixture
async def operator_with_a_bad_image(
    bed: Bed, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[None]:
    """Another operator in place of the session's, whose worker image nobody can pull."""
    bed.operator.terminate()
    other = OperatorProcess(
        kubeconfig, tmp_path, address=ADDRESS, worker_image="localhost/tare-worker:no-such-tag"
    )
    other.start()
    await other.ready()
    yield
    other.terminate()
    bed.operator.start()
    await bed.operator.ready()


@pytest.mark.usefixtures("operator_with_a_bad_image")
async def test_b99_an_image_that_does_not_exist_ends_the_run_at_the_start_timeout(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await bed.submit(namespace, run(workers={"replicas": 2, "startTimeoutSeconds": 2}))

    status = await bed.finished(namespace, seconds=15)
    assert_not_started(status, "ImagePullFailed", "0 of 2 workers registered within 2 s")
    assert "no-such-tag" in told(status, "Finished")["message"]
    await assert_nothing_is_left(bed, namespace)
    assert (await server.counters())["requests"] == 1, "the probe"


async def test_b99_pods_without_a_place_end_the_run_and_the_others_get_no_start(bed: Bed) -> None:
    """B99: no place for any of two pods, and (on the embedded node of 64 CPUs) for one of two."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    for name, cpu in (("none", "1000"), ("half", "40")):
        resources = {"requests": {"cpu": cpu}}
        workers = {"replicas": 2, "startTimeoutSeconds": 2, "resources": resources}
        await bed.submit(namespace, run(name, workers=workers))

    for name, here in (("none", 0), ("half", 0 if REAL else 1)):
        status = await bed.finished(namespace, name, seconds=15)
        text = f"{here} of 2 workers registered within 2 s"
        assert_not_started(status, "Unschedulable", text, "Insufficient cpu")
    await assert_nothing_is_left(bed, namespace)
    assert (await server.counters())["requests"] == 2, "two probes and no load"


def assert_not_started(status: Mapping[str, Any], reason: str, *parts: str) -> None:
    finished = told(status, "Finished")
    assert (status["phase"], finished["reason"]) == ("Failed", reason)
    assert [part for part in parts if part not in finished["message"]] == []


async def assert_nothing_is_left(bed: Bed, namespace: str) -> None:
    for job in await bed.children(namespace):
        await bed.gone(JOB, namespace, job["metadata"]["name"])


async def test_b103_a_worker_that_exits_at_once_is_not_started_again(bed: Bed) -> None:
    """B103: one repetition of the whole trial is ours; a restarted pod would be the Job's."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    # An interpreter that does not find its library exits with 1.
    broken = {"replicas": 2, "env": [{"name": "PYTHONHOME", "value": "/nowhere"}]}
    async with sightings(bed, namespace, JOB, POD) as seen:
        await bed.submit(namespace, run(workers=broken))
        status = await bed.finished(namespace)

    finished = told(status, "Finished")
    assert (status["phase"], finished["reason"]) == ("Failed", "WorkerLost")
    assert "exit code 1" in finished["message"]
    for job in seen[JOB].values():
        spec = job["spec"]
        assert (spec["completionMode"], spec["completions"]) == ("Indexed", 2)
        assert spec["backoffLimitPerIndex"] == 0
        assert "podFailurePolicy" not in spec
        assert spec["template"]["spec"]["restartPolicy"] == "Never"
    assert len(seen[JOB]) == 2, "the trial and its one repetition"
    indexes = [index_of(pod) for pod in seen[POD].values() if index_of(pod)]
    assert len(indexes) == len(set(indexes)) == 4, "no index of a Job had a second pod"
    assert (await server.counters())["requests"] == 2, "a probe for each attempt, and no load"


def index_of(pod: Document) -> tuple[str, str] | None:
    """Job and index of a worker pod; None for others."""
    labels = pod["metadata"].get("labels") or {}
    if "batch.kubernetes.io/job-completion-index" not in labels:
        return None
    return (
        labels["batch.kubernetes.io/controller-uid"],
        labels["batch.kubernetes.io/job-completion-index"],
    )


def test_b104_percentiles_are_of_all_requests_and_not_averages_of_pods() -> None:
    """B104: 900 requests of 10 ms on one pod, 100 of a second on the other."""
    pods = [
        worker_result(
            phase_result(
                counts={"issued": number, "ok": number},
                histograms={"request_latency": histogram([latency] * number)},
            ),
            index=index,
        )
        for index, (number, latency) in enumerate(((900, 10 * MS), (100, 1000 * MS)))
    ]
    found = summarize(pods, goodput={}, cost=None).metrics["request_latency"]
    wanted = {"p50": 0.010, "p95": 1.0, "p99": 1.0, "mean": 0.109}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, rel=0.01)


async def test_b109_a_mesh_adds_no_sidecar_to_a_worker_unless_the_run_says_so(bed: Bed) -> None:
    """B109: a second container would keep the pod running; the end comes from the workers."""
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    wanted = {"plain": "false", "meshed": "true"}
    async with sightings(bed, namespace, JOB) as seen:
        await bed.submit(namespace, run("plain"))
        annotations = {INJECT: "true"}
        await bed.submit(
            namespace, run("meshed", workers={"replicas": 1, "annotations": annotations})
        )
        for name in wanted:
            assert (await bed.finished(namespace, name))["phase"] == "Succeeded"

    found = {}
    for job in seen[JOB].values():
        (owner,) = job["metadata"]["ownerReferences"]
        found[owner["name"]] = job["spec"]["template"]["metadata"]["annotations"][INJECT]
    assert found == wanted
    await assert_nothing_is_left(bed, namespace)


@pytest.mark.parametrize("name", ["demo.test", "q" * 90], ids=["dots", "90 characters"])
async def test_b110_children_of_a_run_with_dots_or_a_long_name_have_valid_names(
    bed: Bed, name: str
) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    async with sightings(bed, namespace, JOB, SECRET, CONFIG_MAP) as seen:
        await bed.submit(namespace, run(name))
        status = await bed.finished(namespace, name)

    assert status["phase"] == "Succeeded"
    children = {
        kind: [
            d["metadata"]["name"] for d in objects.values() if "ownerReferences" in d["metadata"]
        ]
        for kind, objects in seen.items()
    }
    for kind, names in children.items():
        assert names, kind
        assert all(DNS_LABEL.fullmatch(child) for child in names), names
    assert status["results"]["summary"] in children[CONFIG_MAP]


@pytest.mark.skipif(REAL, reason="it reads the request log of the embedded API server")
async def test_b112_status_writes_change_no_generation_and_stop_when_nothing_happens(
    bed: Bed, request: pytest.FixtureRequest
) -> None:
    """B112: idle twice: while the run waits for its target, and after its end."""
    devcluster = request.getfixturevalue("devcluster")
    namespace = await bed.namespace()
    await bed.submit(namespace, run())
    await bed.until(namespace, lambda s: condition(s, "TargetReady") is not None)

    def patches() -> list[str]:
        sent = [r for r in devcluster.requests if namespace in r.path and r.method == "PATCH"]
        return [r.path for r in sent]

    async def assert_idle() -> None:
        await asyncio.sleep(0.2)
        before = patches()
        await asyncio.sleep(1)
        assert patches() == before

    await assert_idle()
    await bed.servers(namespace, *QUICK, replicas=1)
    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    await assert_idle()
    document = await bed.run(namespace)
    assert document["metadata"]["generation"] == 1
    assert document["status"]["observedGeneration"] == 1
    written = [path for path in patches() if path.endswith("/status")]
    assert len(written) > 3, "the status is written through its subresource"


async def test_b115_an_edit_of_a_running_spec_is_refused_and_a_cancel_keeps_results(
    bed: Bed,
) -> None:
    """B115: the second cell is under load when it is cancelled; the first one's numbers stay."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    document = endless()
    document["spec"]["sweep"] = {"grid": {"phases.profiling.requests": [8, FOREVER]}}
    submitted = await bed.submit(namespace, document)
    await server.under_load(100)

    phases = json.loads(json.dumps(document["spec"]["phases"]))
    phases[1]["concurrency"] = 20
    with pytest.raises(Invalid, match=r"spec\.phases is frozen since the run has started"):
        await bed.cluster.patch(RUN, namespace, "run", {"spec": {"phases": phases}})
    await bed.cluster.patch(RUN, namespace, "run", {"spec": {"cancel": True}})
    status = await bed.finished(namespace, seconds=5)

    assert status["phase"] == "Cancelled"
    assert [row["state"] for row in status["cells"]] == ["Measured", "Invalid"]
    sent = (await server.counters())["requests"]
    await asyncio.sleep(0.3)
    assert (await server.counters())["requests"] == sent, "no load after the end"
    trials = await ResultStore(bed.cluster).load_trials(owner_of(submitted))
    summaries = [trials[key].record.summary for key in sorted(trials)]
    assert [s is not None and s.complete for s in summaries] == [True, False], (
        "partial results are kept and marked"
    )


@pytest.mark.usefixtures("lax_crd")
async def test_b115_an_edit_that_slips_through_is_ignored_and_told(bed: Bed) -> None:
    """B115: a CRD without rules, as somebody's copy of it may be."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    await bed.submit(namespace, endless())
    await server.under_load()
    await bed.cluster.patch(RUN, namespace, "run", {"spec": {"dataset": {"seed": 77}}})

    status = await bed.until(namespace, lambda s: told(s, "SpecChangeIgnored") != {})
    ignored = told(status, "SpecChangeIgnored")
    assert (ignored["status"], ignored["reason"]) == ("True", "SpecChanged")
    assert status["observedGeneration"] == 2
    await bed.cluster.patch(RUN, namespace, "run", {"spec": {"cancel": True}})
    assert (await bed.finished(namespace))["phase"] == "Cancelled"


@pytest.fixture
async def lax_crd(bed: Bed, kubeconfig: Path) -> AsyncIterator[None]:
    """Our CRD without its rules, until the end of the test."""
    body = without_rules(yaml.safe_load(CRD.read_text()))
    await bed.cluster.patch(CRDS, "", body["metadata"]["name"], {"spec": body["spec"]})
    yield
    await install_crd(kubeconfig)


def without_rules(value: Any) -> Any:
    if isinstance(value, list):
        return [without_rules(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {k: without_rules(v) for k, v in value.items() if k != "x-kubernetes-validations"}


def owner_of(document: Document) -> Owner:
    metadata = document["metadata"]
    return Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
