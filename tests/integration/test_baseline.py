"""`spec.baseline` through the real operator: the verdict outlives the baseline and a restart."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from rich.console import Console

from support.bed import Bed, condition, manifest, told
from tare.api.names import LABEL_RUN_UID
from tare.cli.exits import Exit
from tare.cli.outcome import show_outcome
from tare.kube.port import CONFIG_MAP, JOB, RUN

if TYPE_CHECKING:
    from support.embedded import Embedded
    from tare.kube.port import Document

FAST = ("--itl", "1ms", "--ttft-overhead", "5ms")
SLOW = ("--itl", "1ms", "--ttft-overhead", "150ms")
"""Far above what a busy machine adds: which server is the slower one is never in doubt."""


def against(baseline: str | None, *, name: str, service: str = "qwen", **spec: Any) -> Document:
    """Three trials with a reset before each, so that every one finds the same cache."""
    document = manifest(
        name,
        trials={"count": 3},
        workers={"replicas": 1, "startTimeoutSeconds": 60},
        baseline={"run": baseline} if baseline else None,
        **spec,
    )
    document["spec"]["endpoint"] |= {
        "service": {"name": service, "port": 8000},
        "resetKvCache": True,
    }
    return document


async def delete(bed: Bed, namespace: str, name: str) -> None:
    """Delete a run and wait until nothing of it is left."""
    run = await bed.run(namespace, name)
    await bed.cluster.delete(RUN, namespace, name)
    await bed.gone(RUN, namespace, name)
    labels = {LABEL_RUN_UID: run["metadata"]["uid"]}
    for part in await bed.cluster.list(CONFIG_MAP, namespace, labels=labels):
        await bed.gone(CONFIG_MAP, namespace, part["metadata"]["name"])


async def printed(bed: Bed, namespace: str, name: str) -> tuple[Exit, str]:
    """What `tare run` would print at the end of this run."""
    output = io.StringIO()
    console = Console(file=output, width=120)
    code = await show_outcome(console, bed.cluster, await bed.run(namespace, name))
    return code, output.getvalue()


async def test_a_slower_server_is_a_regression_and_a_faster_one_is_not(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.servers(namespace, *FAST, replicas=1)
    await bed.servers(namespace, *SLOW, replicas=1, name="slow")
    await bed.submit(namespace, against(None, name="before"))
    assert condition(await bed.finished(namespace, "before"), "NoRegression") is None

    await bed.submit(namespace, against("before", name="slower", service="slow"))
    await bed.until(namespace, lambda s: condition(s, "Accepted") == "True", "slower")
    await delete(bed, namespace, "before")
    slower = await bed.finished(namespace, "slower")

    verdict = told(slower, "NoRegression")
    assert (verdict["status"], verdict["reason"]) == ("False", "Regression")
    assert "Against before: Regression: time_to_first_token mean" in verdict["message"]
    assert "base (+" in verdict["message"], "the cell, and by how much"
    assert slower["summary"]["regression"] == "Found"
    events = await bed.events(namespace, "slower")
    assert [e["type"] for e in events if e["reason"] == "Regression"] == ["Warning"]
    code, text = await printed(bed, namespace, "slower")
    assert code is Exit.REGRESSION
    assert "Regression: time_to_first_token mean is worse by more than 5 %" in text

    await bed.submit(namespace, against("slower", name="faster"))
    faster = await bed.finished(namespace, "faster")
    assert told(faster, "NoRegression")["reason"] == "NotWorse"
    assert (await printed(bed, namespace, "faster"))[0] is Exit.OK


async def test_the_same_server_is_not_worse_than_itself_over_a_restart_of_the_operator(
    own: Embedded,
) -> None:
    """The metric that decides is one that a busy machine does not move."""
    goals = [{"metric": "error_rate", "max": "1%"}]
    async with Bed.open(own.kubeconfig, own.operator) as bed:
        namespace = await bed.namespace()
        [server] = await bed.servers(namespace, *FAST, replicas=1)
        await bed.submit(namespace, against(None, name="before", goals=goals))
        await bed.finished(namespace, "before")
        before = (await server.counters())["requests"]
        await bed.submit(namespace, against("before", name="after", goals=goals))
        await server.under_load(before + 1)
        own.operator.kill()
        await bed.cluster.delete(RUN, namespace, "before")
        own.operator.start()
        await own.operator.ready()
        after = await bed.finished(namespace, "after")
    verdict = told(after, "NoRegression")
    assert (verdict["status"], verdict["reason"]) == ("True", "NotWorse"), verdict
    assert "Against before: No regression: error_rate" in verdict["message"]


async def test_a_baseline_without_results_is_refused_before_anything_is_created(bed: Bed) -> None:
    namespace = await bed.namespace()
    for name, baseline in (("waits", "nobody"), ("itself", "itself"), ("chained", "waits")):
        await bed.submit(namespace, against(baseline, name=name))
        status = await bed.finished(namespace, name)
        accepted = told(status, "Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
        assert accepted["message"].startswith("spec.baseline.run: ")
        assert f"'{baseline}'" in accepted["message"]
        assert status["phase"] == "Failed"
    assert await bed.cluster.list(JOB, namespace) == []
    # A namespace of a real cluster has one of its own, with the cluster's certificate.
    stored = await bed.cluster.list(CONFIG_MAP, namespace)
    assert [part for part in stored if part["metadata"].get("ownerReferences")] == []
