"""Least privilege: every right that the chart grants is used, and none is missing.

One installation, limited to two namespaces, goes through everything that makes it use a right: a
TTL, a quota, an API server that answers 409, what a crashed operator leaves behind. The API
server's audit log says what it asked for. A right that no test here can provoke is not granted.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support import audit
from support.audit import Right
from support.installation import Installation, Space, condition, namespace, until
from tare.api import names
from tare.decide.children import TrialKey
from tare.manifests.job import job_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.kubectl import Kubectl

HOOK = "-uninstall"
SHORT: dict[str, Any] = {
    "sweep": None,
    "trials": None,
    "stopOn": None,
    "phases": [
        {
            "name": "profiling",
            "kind": "profiling",
            "type": "concurrency",
            "concurrency": 2,
            "requests": 8,
        }
    ],
}
FIRST = TrialKey(0, 0, 1)
LONG = {**SHORT, "phases": [{**SHORT["phases"][0], "requests": None, "durationSeconds": 12}]}


@dataclass(frozen=True)
class Exercised:
    """An installation that has done everything and was removed again."""

    tare: Installation
    log: Path
    rules: dict[str, list[dict[str, Any]]]
    """By the name of the service account."""


@pytest.fixture(scope="module")
def exercised() -> Iterator[Exercised]:
    log = audit.log()
    if log is None:
        pytest.skip("this cluster writes no audit log that TARE_TEST_AUDIT or the kubeconfig names")
    with namespace("rights") as space, namespace("used") as runs, namespace("quota") as small:
        tare = Installation(space, {"watch": {"namespaces": [runs.name, small.name]}})
        with tare.installed():
            runs.start_servers(replicas=2)
            small.start_servers(replicas=1)
            small.kubectl("create", "quota", "pods", "--hard=pods=2")
            small.start_run("too-many", **SHORT, workers={"replicas": 2, "startTimeoutSeconds": 20})
            meet_a_job_of_the_same_name(runs, log, tare.user)
            write_over_what_a_crash_left(runs)
            survive_a_restart(tare, runs)
            take_a_prompt(runs)
            expire(runs)
            assert condition(small.finish("too-many", 60), "Failed") == "True"
            # A live run, so that the removal has something to cancel.
            runs.start_run("live", **LONG)
            until(lambda: runs.kubectl.items("jobs"), 20, "the Job of the live run")
            rules = {
                tare.user: granted_to(runs.kubectl, f"{space.name}-tare"),
                tare.user + HOOK: rules_of_the_hook(tare),
            }
        yield Exercised(tare, log, rules)


def meet_a_job_of_the_same_name(runs: Space, log: Path, operator: str) -> None:
    """A Job stands where the run's first one belongs, as that of an earlier run would."""
    name = job_name("blocked", FIRST)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [{"name": "none", "image": "localhost/none:none"}],
                }
            },
        },
    }
    runs.apply(job)
    runs.start_run("blocked", **SHORT)
    asked = Right("batch", "jobs", "get")
    until(lambda: asked in audit.asked(log, operator), 30, "the operator's look at the Job")
    runs.kubectl("delete", "job", name)
    assert condition(runs.finish("blocked"), "Complete") == "True"


def write_over_what_a_crash_left(runs: Space) -> None:
    """Half a trial and a summary are stored already; meanwhile somebody edits the run."""
    runs.start_run("crashed", **LONG)
    uid = runs.get("benchmarkrun", "crashed")["metadata"]["uid"]
    trial = {names.LABEL_CELL: "0", names.LABEL_TRIAL: "0", names.LABEL_ATTEMPT: "1"}
    runs.apply(
        _stored(uid, "crashed-c0-t0-a1-p0", "trial-result", trial),
        _stored(uid, "crashed-summary-p0", "summary-result", {}),
    )
    stop = threading.Event()
    editor = threading.Thread(target=_edit, args=(runs.kubectl, "crashed", stop))
    editor.start()
    try:
        assert condition(runs.finish("crashed"), "Complete") == "True"
    finally:
        stop.set()
        editor.join()


def survive_a_restart(tare: Installation, runs: Space) -> None:
    """The operator is killed in the middle of a run."""
    runs.start_run("restarted", **LONG)
    until(lambda: runs.kubectl.items("jobs"), 20, "the Job of the run")
    kill = ("delete", "pods", f"--selector={names.LABEL_COMPONENT}=operator", "--grace-period=0")
    tare.space.kubectl(*kill, "--force")
    assert condition(runs.finish("restarted"), "Complete") == "True"


def take_a_prompt(runs: Space) -> None:
    """A run names a ConfigMap that holds its system prompt."""
    runs.kubectl("create", "configmap", "prompts", "--from-literal=brief=Be brief.")
    source = {"configMapKeyRef": {"name": "prompts", "key": "brief"}}
    runs.start_run("prompted", **SHORT, dataset={"prefixPrompts": {"systemPromptFrom": source}})
    assert condition(runs.finish("prompted"), "Complete") == "True"


def expire(runs: Space) -> None:
    """A finished run is deleted after its time."""
    runs.start_run("expiring", **SHORT, ttlSecondsAfterFinished=0)

    def is_gone() -> bool:
        return not any(
            run["metadata"]["name"] == "expiring" for run in runs.kubectl.items("benchmarkruns")
        )

    until(is_gone, 60, "the end of the run that expires")


def _stored(uid: str, name: str, component: str, labels: dict[str, str]) -> dict[str, Any]:
    owner = {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": "crashed",
        "uid": uid,
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "ownerReferences": [owner],
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGED_BY,
                names.LABEL_RUN: "crashed",
                names.LABEL_RUN_UID: uid,
                names.LABEL_COMPONENT: component,
                **labels,
            },
        },
        "data": {"half": "of it"},
    }


def _edit(kubectl: Kubectl, name: str, stop: threading.Event) -> None:
    number = 0
    while not stop.is_set():
        number += 1
        with contextlib.suppress(AssertionError):
            kubectl("annotate", "benchmarkrun", name, f"edited={number}", "--overwrite")


def granted_to(kubectl: Kubectl, role: str) -> list[dict[str, Any]]:
    (found,) = [each for each in kubectl.items("roles") if each["metadata"]["name"] == role]
    rules: list[dict[str, Any]] = found["rules"]
    return rules


def rules_of_the_hook(tare: Installation) -> list[dict[str, Any]]:
    """The hook's Role lives only during the removal, so it is read from the release."""
    return [
        rule
        for document in tare.hooks()
        if document["kind"] == "Role"
        for rule in document["rules"]
    ]


@pytest.mark.parametrize("account", ["", HOOK], ids=["the operator", "the hook of the removal"])
def test_every_right_that_is_granted_is_used(exercised: Exercised, account: str) -> None:
    user = exercised.tare.user + account
    given = audit.granted(exercised.rules[user])
    assert given
    assert sorted(map(str, given - audit.asked(exercised.log, user))) == []


@pytest.mark.parametrize("account", ["", HOOK], ids=["the operator", "the hook of the removal"])
def test_nothing_is_asked_for_without_a_right(exercised: Exercised, account: str) -> None:
    assert audit.refused(exercised.log, exercised.tare.user + account) == set()
