"""Pods: environment, logs, ends, and the reasons why one does not start."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import IMAGE, collection, eventually

if TYPE_CHECKING:
    from support.clusters import Api


@pytest.fixture
def pods(namespace: str) -> str:
    return collection("", "pods", namespace)


def pod(name: str, script: str, **container: Any) -> Any:
    """A pod that runs a Python script once."""
    return {
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 10,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["python3", "-u", "-c", script],
                    **container,
                }
            ],
        },
    }


def ended(document: Any) -> bool:
    return document["status"]["phase"] in {"Succeeded", "Failed"}


def waiting_reason(document: Any) -> str:
    statuses = document["status"].get("containerStatuses") or [{}]
    return str(statuses[0].get("state", {}).get("waiting", {}).get("reason", ""))


def waits_for(reason: str, document: Any) -> bool:
    return waiting_reason(document) == reason


async def test_a_pod_sees_the_environment_it_asked_for(api: Api, namespace: str, pods: str) -> None:
    await api.must_create(
        collection("", "secrets", namespace),
        {"metadata": {"name": "s"}, "stringData": {"token": "secret text"}},
    )
    await api.must_create(
        collection("", "configmaps", namespace),
        {"metadata": {"name": "c"}, "data": {"KEY": "configured"}},
    )

    def field(path: str) -> Any:
        return {"valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "token"}}},
        {"name": "LATE", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "KEY"}}},
        {
            "name": "NOT_THERE",
            "valueFrom": {"configMapKeyRef": {"name": "no", "key": "k", "optional": True}},
        },
        {"name": "NAME", **field("metadata.name")},
        {"name": "NAMESPACE", **field("metadata.namespace")},
        {"name": "UID", **field("metadata.uid")},
        {"name": "LABEL", **field("metadata.labels['app']")},
        {"name": "ADDRESS", **field("status.podIP")},
        {"name": "BOTH", "value": "$(NAME):$(LATE) $$(NAME) $(UNKNOWN)"},
    ]
    script = "import json, os, sys; print(json.dumps(dict(os.environ, ARG=sys.argv[1])))"
    spec = pod(
        "env",
        script,
        env=env,
        envFrom=[{"prefix": "ALL_", "configMapRef": {"name": "c"}}],
        args=["--at=$(ADDRESS)"],
    )
    created = await api.must_create(pods, spec)

    done = await api.until(f"{pods}/env", ended)

    seen = json.loads((await api.get(f"{pods}/env/log")).body)
    assert seen["TOKEN"] == "secret text"
    assert seen["LATE"] == seen["ALL_KEY"] == "configured"
    assert "NOT_THERE" not in seen
    assert (seen["NAME"], seen["NAMESPACE"]) == ("env", namespace)
    assert (seen["UID"], seen["LABEL"]) == (created["metadata"]["uid"], "env")
    assert seen["ADDRESS"] == done["status"]["podIP"]
    assert seen["ARG"] == f"--at={seen['ADDRESS']}"
    assert seen["BOTH"] == "env:configured $(NAME) $(UNKNOWN)"
    assert seen["HOSTNAME"] == "env"


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")]
)
async def test_the_exit_code_decides_the_phase(
    api: Api, pods: str, code: int, phase: str, reason: str
) -> None:
    await api.must_create(pods, pod("p", f"raise SystemExit({code})"))

    done = await api.until(f"{pods}/p", ended)

    assert done["status"]["phase"] == phase
    terminated = done["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, reason)


async def test_a_running_pod_is_ready_and_has_an_address(api: Api, pods: str) -> None:
    await api.must_create(pods, pod("p", "import time; time.sleep(600)"))

    running = await api.until(f"{pods}/p", is_ready)

    status = running["status"]
    assert status["phase"] == "Running"
    assert status["podIPs"] == [{"ip": status["podIP"]}]
    assert status["containerStatuses"][0]["ready"] is True
    assert running["spec"]["nodeName"]
    await api.delete(f"{pods}/p", gracePeriodSeconds=0)


def is_ready(document: Any) -> bool:
    return any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in document["status"].get("conditions") or ()
    )


async def test_logs_can_be_cut_at_the_tail(api: Api, pods: str) -> None:
    await api.must_create(pods, pod("p", "for i in range(5): print('line', i)"))
    await api.until(f"{pods}/p", ended)

    whole = await api.get(f"{pods}/p/log")
    tail = await api.get(f"{pods}/p/log", tailLines=2)

    assert whole.body == "".join(f"line {number}\n" for number in range(5))
    assert tail.body == "line 3\nline 4\n"


async def test_a_deleted_pod_gets_sigterm_and_may_finish(api: Api, pods: str) -> None:
    script = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: (print('bye'), time.sleep(1), sys.exit(0)))\n"
        "print('up')\n"
        "time.sleep(600)"
    )
    await api.must_create(pods, pod("p", script))

    async def is_up(document: Any) -> bool:
        return is_ready(document) and "up" in (await api.get(f"{pods}/p/log")).body

    running = await api.until(f"{pods}/p", is_ready)
    while not await is_up(running):
        pass

    deleted = await api.delete(f"{pods}/p")
    still_there = await api.get(f"{pods}/p")

    assert (deleted.status, deleted.body["kind"]) == (200, "Pod")
    assert deleted.body["metadata"]["deletionGracePeriodSeconds"] == 10
    assert still_there.body["metadata"]["deletionTimestamp"]
    await api.until_gone(f"{pods}/p")


async def test_a_pod_that_ignores_sigterm_is_killed_after_its_grace_period(
    api: Api, pods: str
) -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
    await api.must_create(pods, pod("p", script))
    await api.until(f"{pods}/p", is_ready)

    await api.delete(f"{pods}/p", gracePeriodSeconds=1)

    await api.until_gone(f"{pods}/p", seconds=20)


async def test_an_unknown_image_alternates_between_two_reasons(api: Api, pods: str) -> None:
    image = "localhost/nobody-built-this:1"
    await api.must_create(pods, pod("p", "", image=image, imagePullPolicy="IfNotPresent"))

    for reason in ("ErrImagePull", "ImagePullBackOff"):
        found = await api.until(f"{pods}/p", partial(waits_for, reason))
        waiting = found["status"]["containerStatuses"][0]["state"]["waiting"]
        assert image in waiting["message"]
        assert found["status"]["phase"] == "Pending"


async def test_a_pod_too_large_for_the_node_is_unschedulable(api: Api, pods: str) -> None:
    large = {"requests": {"cpu": "10k"}}
    await api.must_create(pods, pod("p", "", resources=large))

    found = await api.until(f"{pods}/p", lambda document: document["status"].get("conditions"))

    condition = found["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("PodScheduled", "False")
    assert condition["reason"] == "Unschedulable"
    assert condition["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


async def test_a_pod_waits_for_a_secret_that_is_not_there_yet(
    api: Api, namespace: str, pods: str
) -> None:
    env = [{"name": "T", "valueFrom": {"secretKeyRef": {"name": "late", "key": "t"}}}]
    await api.must_create(pods, pod("p", "import os; print(os.environ['T'])", env=env))
    waiting = await api.until(
        f"{pods}/p",
        lambda document: waiting_reason(document) == "CreateContainerConfigError",
    )

    await api.must_create(
        collection("", "secrets", namespace),
        {"metadata": {"name": "late"}, "stringData": {"t": "here"}},
    )

    state = waiting["status"]["containerStatuses"][0]["state"]["waiting"]
    assert state["message"] == 'secret "late" not found'
    done = await api.until(f"{pods}/p", ended)
    assert done["status"]["phase"] == "Succeeded"
    assert (await api.get(f"{pods}/p/log")).body == "here\n"


async def test_a_container_that_ends_is_restarted_by_default(api: Api, pods: str) -> None:
    document = pod("p", "print('once'); raise SystemExit(1)")
    del document["spec"]["restartPolicy"]
    await api.must_create(pods, document)

    found = await api.until(
        f"{pods}/p", lambda document: waiting_reason(document) == "CrashLoopBackOff"
    )

    status = found["status"]["containerStatuses"][0]
    assert status["restartCount"] >= 1
    assert status["lastState"]["terminated"]["exitCode"] == 1
    await api.delete(f"{pods}/p", gracePeriodSeconds=0)


async def test_an_eviction_marks_the_pod_as_disrupted(api: Api, pods: str) -> None:
    await api.must_create(
        pods,
        pod(
            "p",
            "import signal, time; signal.signal(15, lambda *_: None); print('up', flush=True);"
            " time.sleep(600)",
        ),
    )

    async def deaf() -> bool:
        return "up" in str((await api.get(f"{pods}/p/log")).body)

    await api.until(f"{pods}/p", is_ready)
    await eventually(deaf)
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}

    answer = await api.create(f"{pods}/p/eviction", eviction)

    assert answer.status == 201
    evicted = (await api.get(f"{pods}/p")).body
    conditions = {item["type"]: item for item in evicted["status"]["conditions"]}
    assert conditions["DisruptionTarget"]["reason"] == "EvictionByEvictionAPI"
    assert evicted["metadata"]["deletionTimestamp"]
    await api.delete(f"{pods}/p", gracePeriodSeconds=0)


async def test_a_pod_without_an_image_is_refused(api: Api, pods: str) -> None:
    document = pod("p", "")
    del document["spec"]["containers"][0]["image"]

    answer = await api.create(pods, document)

    assert answer.status == 422
    assert answer.message == 'Pod "p" is invalid: spec.containers[0].image: Required value'


async def test_a_pods_command_cannot_be_changed(api: Api, pods: str) -> None:
    await api.must_create(pods, pod("p", "import time; time.sleep(600)"))
    operations = [{"op": "replace", "path": "/spec/containers/0/command/3", "value": "1"}]

    answer = await api.patch(f"{pods}/p", operations, "json-patch+json")

    assert answer.status == 422
    assert "spec: Forbidden: pod updates may not change fields other than" in answer.message
    await api.delete(f"{pods}/p", gracePeriodSeconds=0)
