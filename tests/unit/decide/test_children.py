"""Jobs and pods as a real cluster shows them (measured: operators.md §6.4), reduced to views."""

from __future__ import annotations

from typing import Any

import pytest

from tare.api import names
from tare.api.reasons import Reason
from tare.decide.children import JobView, PodView, TrialKey, job_view, key_of, pod_view

KEY = TrialKey(3, 1, 2)
LABELS = {names.LABEL_CELL: "3", names.LABEL_TRIAL: "1", names.LABEL_ATTEMPT: "2"}
INDEX = "batch.kubernetes.io/job-completion-index"


def job(status: dict[str, Any] | None = None, **spec: Any) -> JobView:
    document: dict[str, Any] = {
        "metadata": {"name": "run-3-1-2", "uid": "j", "labels": LABELS},
        "spec": spec,
    }
    if status is not None:
        document["status"] = status
    view = job_view(document)
    assert view is not None
    return view


def pod(**status: Any) -> PodView:
    document = {
        "metadata": {
            "name": "run-3-1-2-1-abcde",
            "uid": "p",
            "labels": {**LABELS, INDEX: "1"},
            "ownerReferences": [{"uid": "j", "controller": True}],
        },
        "spec": {"nodeName": "node-a"},
        "status": status,
    }
    view = pod_view(document)
    assert view is not None
    return view


def container(name: str = names.CONTAINER_WORKER, **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


def test_an_attempt_is_read_from_the_labels() -> None:
    assert key_of({"metadata": {"labels": LABELS}}) == KEY


@pytest.mark.parametrize(
    "labels",
    [
        None,
        {},
        {names.LABEL_CELL: "3", names.LABEL_TRIAL: "1"},
        {**LABELS, names.LABEL_ATTEMPT: "two"},
    ],
)
def test_a_foreign_object_has_no_view(labels: dict[str, str] | None) -> None:
    document = {"metadata": {"name": "x", "uid": "x", "labels": labels}}
    assert key_of(document) is None
    assert job_view(document) is None
    assert pod_view(document) is None


def test_a_job_that_was_just_created_has_no_status_yet() -> None:
    assert job() == JobView(name="run-3-1-2", uid="j", key=KEY)


@pytest.mark.parametrize(
    ("text", "indexes"),
    [("", ()), ("1", (1,)), ("1,3-5", (1, 3, 4, 5)), ("0-2,7,9-10", (0, 1, 2, 7, 9, 10))],
)
def test_failed_indexes_are_expanded(text: str, indexes: tuple[int, ...]) -> None:
    assert job({"failed": 4, "failedIndexes": text}).failed_indexes == indexes


def test_a_job_fails_with_failure_target_seconds_before_failed() -> None:
    target = {
        "type": "FailureTarget",
        "status": "True",
        "reason": "FailedIndexes",
        "message": "Job has failed indexes",
    }
    assert job({"conditions": [target]}).failure == "FailedIndexes: Job has failed indexes"
    final = {**target, "type": "Failed"}
    assert job({"conditions": [target, final]}).failure == "FailedIndexes: Job has failed indexes"


def test_conditions_that_are_not_true_are_no_failure() -> None:
    conditions = [
        {"type": "Failed", "status": "False", "reason": "r", "message": "m"},
        {"type": "SuccessCriteriaMet", "status": "True", "reason": "r", "message": "m"},
    ]
    assert job({"conditions": conditions}).failure is None


def test_a_queued_job_is_suspended_and_has_not_started() -> None:
    view = job({}, suspend=True)
    assert view.suspended
    assert view.started is None


def test_the_start_of_a_job_is_in_epoch_seconds() -> None:
    view = job({"startTime": "2026-11-30T12:00:00Z", "active": 2}, suspend=False)
    assert (view.started, view.active, view.suspended) == (1_796_040_000.0, 2, False)


def test_a_job_that_is_being_deleted_is_deleting() -> None:
    document = {
        "metadata": {
            "name": "x",
            "uid": "j",
            "labels": LABELS,
            "deletionTimestamp": "2026-11-30T12:00:00Z",
        }
    }
    view = job_view(document)
    assert view is not None
    assert view.deleting


def test_a_running_pod_has_no_trouble() -> None:
    view = pod(phase="Running", containerStatuses=[container(running={"startedAt": "t"})])
    assert view == PodView(
        name="run-3-1-2-1-abcde", uid="p", key=KEY, index=1, job="j", node="node-a"
    )


def test_a_pod_out_of_memory_says_so() -> None:
    killed = container(terminated={"reason": "OOMKilled", "exitCode": 137})
    view = pod(phase="Failed", containerStatuses=[killed])
    assert (view.ended, view.exit_code, view.trouble) == (True, 137, Reason.OOM_KILLED)
    assert view.message == "killed for its memory limit (exit code 137)"


@pytest.mark.parametrize(
    ("terminated", "message"),
    [
        ({"reason": "Error", "exitCode": 1}, "exit code 1 Error"),
        ({"reason": "Error", "exitCode": 139, "message": "segfault"}, "exit code 139 segfault"),
        ({"exitCode": 2}, "exit code 2"),
    ],
)
def test_a_worker_that_crashed_is_lost_with_its_exit_code(
    terminated: dict[str, Any], message: str
) -> None:
    view = pod(phase="Failed", containerStatuses=[container(terminated=terminated)])
    assert (view.trouble, view.message) == (Reason.WORKER_LOST, message)


def test_a_worker_that_ended_well_has_ended_without_trouble() -> None:
    done = container(terminated={"reason": "Completed", "exitCode": 0})
    view = pod(phase="Succeeded", containerStatuses=[done])
    assert (view.ended, view.exit_code, view.trouble, view.message) == (True, 0, None, "")


@pytest.mark.parametrize(
    "reason", ["ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"]
)
def test_an_image_that_cannot_be_pulled_is_one_trouble_whatever_its_name(reason: str) -> None:
    waiting = container(waiting={"reason": reason, "message": "not found"})
    view = pod(phase="Pending", containerStatuses=[waiting])
    assert (view.trouble, view.ended) == (Reason.IMAGE_PULL_FAILED, False)
    assert view.message == f"{reason}: not found"


def test_a_secret_that_is_missing_keeps_the_container_from_starting() -> None:
    waiting = container(
        waiting={"reason": "CreateContainerConfigError", "message": 'secret "k" not found'}
    )
    view = pod(phase="Pending", containerStatuses=[waiting])
    assert (view.trouble, view.message) == (Reason.SECRET_MISSING, 'secret "k" not found')


def test_a_container_that_is_being_created_is_no_trouble() -> None:
    waiting = container(waiting={"reason": "ContainerCreating"})
    assert pod(phase="Pending", containerStatuses=[waiting]).trouble is None


def test_a_pod_without_a_node_says_why() -> None:
    text = "0/1 nodes are available: 1 Insufficient cpu."
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": text,
    }
    view = pod(phase="Pending", conditions=[condition])
    assert (view.trouble, view.message) == (Reason.UNSCHEDULABLE, text)


def test_a_pod_behind_a_scheduling_gate_is_not_unschedulable() -> None:
    gated = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}
    assert pod(phase="Pending", conditions=[gated]).trouble is None


def test_an_evicted_pod_names_the_eviction_and_not_the_signal_that_it_got() -> None:
    evicted = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    killed = container(terminated={"reason": "Error", "exitCode": 143})
    view = pod(phase="Failed", conditions=[evicted], containerStatuses=[killed])
    assert view.trouble is Reason.WORKER_LOST
    assert view.message == "EvictionByEvictionAPI: Eviction API: evicting"
    assert view.exit_code == 143


def test_our_container_is_found_behind_a_foreign_one() -> None:
    proxy = container("istio-proxy", terminated={"reason": "Error", "exitCode": 1})
    ours = container(running={"startedAt": "t"})
    view = pod(phase="Running", containerStatuses=[proxy, ours])
    assert (view.ended, view.trouble, view.exit_code) == (False, None, None)


def test_b105_a_huge_message_of_a_pod_is_cut() -> None:
    waiting = container(waiting={"reason": "ErrImagePull", "message": "x" * 100_000})
    assert len(pod(phase="Pending", containerStatuses=[waiting]).message) == 400


def test_a_pod_that_the_kubelet_has_not_seen_yet_is_alive() -> None:
    view = pod()
    assert (view.ended, view.trouble) == (False, None)
