"""kubectl as users type it, without `--validate=false`: from apply to delete, one run."""

from __future__ import annotations

import asyncio
import json
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from support.bed import QUICK, Bed, manifest
from support.eventually import eventually
from support.kubectl import Kubectl
from tare.kube.port import RUN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.kube.port import Document

FOREVER = 1_000_000
"""Requests that no test waits for."""


def run(name: str = "run", **spec: Any) -> Document:
    return manifest(name, workers={"replicas": 1}, **spec)


def endless(name: str = "run") -> Document:
    """A run whose profiling phase does not end by itself."""
    document = run(name)
    document["spec"]["phases"][1]["requests"] = FOREVER
    document["spec"]["dataset"]["entries"] = 100
    return document


def columns(table: str) -> dict[str, str]:
    """The first row of a table by its headings."""
    heading, row = table.splitlines()[:2]
    starts = [i for i, c in enumerate(heading) if c != " " and (i == 0 or heading[i - 1] == " ")]
    ends = [*starts[1:], None]
    return {heading[a:b].strip(): row[a:b].strip() for a, b in zip(starts, ends, strict=True)}


@contextmanager
def watching(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Keep a command running; it is ended with the block."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)


async def test_a_run_is_applied_watched_waited_for_described_and_deleted(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace, *QUICK, replicas=1)
    kubectl = Kubectl(bed.kubeconfig, namespace)
    await asyncio.to_thread(story, kubectl)
    await bed.gone(RUN, namespace, "run")


def story(kubectl: Kubectl) -> None:
    goals = [{"metric": "error_rate", "max": "0%"}]
    document = run(goals=goals, sweep={"grid": {"dataset.prompts.isl": [32, 64]}})
    with watching(kubectl.command("get", "benchmarkruns", "--watch")) as watch:
        said = kubectl("apply", "--filename=-", text=json.dumps(document))
        assert said == "benchmarkrun.tare.dev/run created\n"
        said = kubectl("apply", "--filename=-", text=json.dumps(document))
        assert said == "benchmarkrun.tare.dev/run unchanged\n"
        kubectl("wait", "br/run", "--for=condition=Finished", "--timeout=30s")
        kubectl("wait", "br/run", "--for=condition=Complete", "--timeout=1s")
        watch.terminate()
        assert watch.stdout is not None
        phases = [line.split()[1] for line in watch.stdout.read().splitlines()[1:] if "run" in line]
    assert phases[-1] == "Succeeded"
    assert "Running" in phases

    table = columns(kubectl("get", "br"))
    assert list(table) == ["NAME", "PHASE", "CELLS", "MODEL", "BEST", "GOALS", "AGE"]
    assert table["PHASE"] == "Succeeded"
    assert (table["CELLS"], table["MODEL"], table["GOALS"]) == ("2/2", "m", "Met")
    wide = columns(kubectl("get", "br", "--output=wide"))
    assert wide.keys() - table.keys() == {"REASON", "STARTED", "TARGET"}
    assert wide["REASON"] == "AllCellsMeasured"
    assert "run" in kubectl("get", "tare", "--output=name"), "the category finds it"

    told = kubectl("describe", "br", "run")
    events = told[told.index("Events:") :]
    for part in ("Accepted", "TargetReady", "CellMeasured", "AllMet", "AllCellsMeasured"):
        assert part in events
    assert kubectl("delete", "br", "run").startswith('benchmarkrun.tare.dev "run" deleted')


async def test_the_log_of_a_worker_is_there_while_it_runs(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    kubectl = Kubectl(bed.kubeconfig, namespace)
    kubectl("apply", "--filename=-", text=json.dumps(endless()))
    await server.under_load()

    log = ""

    async def told() -> bool:
        # A kubelet may tell that a container runs a moment after its first request.
        nonlocal log
        said = kubectl.attempt("logs", "--selector=app.kubernetes.io/managed-by=tare")
        log = said.out
        return said.code == 0 and "phase 1: running" in log

    await eventually(told, 30, lambda: f"the log is {log!r}")
    assert "worker 0 is registered" in log
    kubectl("patch", "br", "run", "--type=merge", '--patch={"spec":{"cancel":true}}')
    kubectl("wait", "br/run", "--for=condition=Finished", "--timeout=30s")
    assert columns(kubectl("get", "br", "run"))["PHASE"] == "Cancelled"


async def test_a_waiting_kubectl_sees_a_failure_at_once(bed: Bed) -> None:
    """`condition=Finished` never hangs, whatever became of the run."""
    namespace = await bed.namespace()
    kubectl = Kubectl(bed.kubeconfig, namespace)
    document = run()
    document["spec"]["endpoint"]["readyTimeoutSeconds"] = 1
    kubectl("apply", "--filename=-", text=json.dumps(document))
    kubectl("wait", "br/run", "--for=condition=Finished", "--timeout=30s")
    said = kubectl.attempt("wait", "br/run", "--for=condition=Complete", "--timeout=0s")
    assert said.code == 1
    assert "Service" in kubectl("describe", "br", "run")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"workers": {"replicas": 0}}, ("spec.workers.replicas", "greater than or equal to 1")),
        ({"phases": [{"name": "w", "kind": "warmup", "type": "concurrency"}]}, ("spec.phases",)),
        ({"worker": {"replicas": 1}}, ('unknown field "spec.worker"',)),
    ],
)
async def test_a_server_side_dry_run_says_what_is_wrong(
    bed: Bed, change: dict[str, Any], words: tuple[str, ...]
) -> None:
    namespace = await bed.namespace()
    kubectl = Kubectl(bed.kubeconfig, namespace)
    document = run()
    document["spec"] |= change
    said = kubectl.attempt("apply", "--dry-run=server", "--filename=-", text=json.dumps(document))
    assert said.code == 1
    assert [word for word in words if word not in said.err] == []
    good = kubectl("apply", "--dry-run=server", "--filename=-", text=json.dumps(run()))
    assert good == "benchmarkrun.tare.dev/run created (server dry run)\n"
    assert kubectl.items("br") == []


async def test_explain_documents_every_field(bed: Bed) -> None:
    kubectl = Kubectl(bed.kubeconfig, await bed.namespace())
    text = kubectl("explain", "br.spec.endpoint.readyTimeoutSeconds")
    assert "How long the target may take to be ready" in text
    tree = kubectl("explain", "br", "--recursive")
    for field in ("stopOn", "resetKvCache", "conditions", "bestCell"):
        assert field in tree
