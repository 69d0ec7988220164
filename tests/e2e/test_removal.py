"""Removing the operator while it cannot end a live run: nothing is torn down behind its back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.installation import Installation, condition, namespace, until

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG: dict[str, Any] = {
    "sweep": None,
    "trials": None,
    "workers": {"replicas": 1},
    "phases": [
        {
            "name": "profiling",
            "kind": "profiling",
            "type": "concurrency",
            "concurrency": 2,
            "durationSeconds": 60,
        }
    ],
}


@pytest.fixture
def tare() -> Iterator[Installation]:
    with namespace("removal") as space:
        values = {"watch": {"namespaces": [space.name]}, "uninstall": {"timeoutSeconds": 4}}
        tare = Installation(space, values)
        with tare.installed():
            space.start_servers(replicas=1)
            yield tare
            # Without an operator a live run would keep the namespace for ever.
            if "tare" in {each["metadata"]["name"] for each in space.kubectl.items("deployments")}:
                space.kubectl("scale", "deployment/tare", "--replicas=1")
            for run in space.kubectl.items("benchmarkruns"):
                space.finish(run["metadata"]["name"])


def test_a_removal_that_would_leave_a_profiler_running_fails_and_can_be_repeated(
    tare: Installation,
) -> None:
    runs = tare.space
    runs.start_run("live", **LONG)
    until(lambda: condition(runs.get("benchmarkrun", "live"), "Profiling") == "True", 30, "a start")

    runs.kubectl("scale", "deployment/tare", "--replicas=0")
    runs.kubectl("wait", "--for=delete", "pods", "--selector=app.kubernetes.io/component=operator")
    with pytest.raises(AssertionError, match="job tare-uninstall failed"):
        tare.uninstall()
    assert f"still not ended: {runs.name}/live" in runs.kubectl("logs", "job/tare-uninstall")
    assert runs.get("deployment", "tare")

    runs.kubectl("scale", "deployment/tare", "--replicas=1")
    assert runs.finish("live", 60)["status"]["phase"] == "Cancelled"
    (server,) = runs.counters()
    assert (server["profiler_starts"], server["profiler_running"]) == (1, False)
    tare.uninstall()
    assert "deployment.apps/tare" not in runs.kubectl("get", "deployments", "--output=name")
