"""Hooks go to the pods that the Service selects, whatever an EndpointSlice says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from support.installation import WORKER_IMAGE, Installation, Space, condition, namespace, until

if TYPE_CHECKING:
    from collections.abc import Iterator

ONE_CELL: dict[str, Any] = {"sweep": None, "trials": None, "workers": {"replicas": 1}}
# The address of a Service leads wherever any slice says, until every node has heard of its end.
STRAIGHT = {
    "service": {"name": "qwen", "port": 8000},
    "model": "Qwen/Qwen3-8B",
    "via": "Endpoints",
    "resetKvCache": True,
    "serverProfiler": True,
}


@pytest.fixture(scope="module")
def runs() -> Iterator[Space]:
    with namespace("targets") as space:
        tare = Installation(space, {"watch": {"namespaces": [space.name]}})
        with tare.installed():
            space.start_servers(replicas=1)
            yield space


def start_stranger(space: Space) -> dict[str, Any]:
    """Start a server that no Service selects."""
    deployment = space.get("deployment", "qwen")
    pod = deployment["spec"]["template"]
    pod["metadata"] = {"name": "stranger", "labels": {"app": "stranger"}}
    space.apply({"apiVersion": "v1", "kind": "Pod", **pod})
    space.kubectl("wait", "--for=condition=Ready", "pod/stranger", "--timeout=30s")
    assert pod["spec"]["containers"][0]["image"] == WORKER_IMAGE
    return space.get("pod", "stranger")


def slice_to(pod: dict[str, Any]) -> dict[str, Any]:
    """An EndpointSlice of the Service `qwen`, made by hand, that names another pod."""
    metadata = pod["metadata"]
    reference = {"kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "by-hand", "labels": {"kubernetes.io/service-name": "qwen"}},
        "addressType": "IPv4",
        "ports": [{"name": "http", "port": 8000, "protocol": "TCP"}],
        "endpoints": [
            {
                "addresses": [pod["status"]["podIP"]],
                "conditions": {"ready": True, "serving": True},
                "targetRef": reference,
            }
        ],
    }


def test_a_slice_made_by_hand_is_not_followed_and_is_named(runs: Space) -> None:
    stranger = start_stranger(runs)
    runs.apply(slice_to(stranger))
    runs.start_run("misled", **ONE_CELL, endpoint=STRAIGHT)

    def complaint() -> str:
        conditions = runs.get("benchmarkrun", "misled").get("status", {}).get("conditions", ())
        text = json.dumps(conditions)
        return text if stranger["status"]["podIP"] in text else ""

    assert "selects" in until(complaint, 30, "a word about the address")
    runs.kubectl("delete", "endpointslice", "by-hand")
    assert condition(runs.finish("misled"), "Complete") == "True"
    counted = json.loads(
        runs.kubectl("get", "--raw", runs.proxy("pod/stranger:8000/admin/counters"))
    )
    assert (counted["resets"], counted["profiler_starts"], counted["requests"]) == (0, 0, 0)
