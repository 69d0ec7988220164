"""Jobs and pods of a run between watch events, our own requests and fresh LISTs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tare.api import names
from tare.api.reasons import Reason
from tare.decide.children import PodView, TrialKey
from tare.runtime.children import Children

if TYPE_CHECKING:
    from tare.kube.port import Document

KEY, OTHER = TrialKey(0, 0, 1), TrialKey(1, 0, 1)


def document(name: str, key: TrialKey = KEY, **fields: Any) -> Document:
    labels = {
        names.LABEL_CELL: str(key.cell),
        names.LABEL_TRIAL: str(key.trial),
        names.LABEL_ATTEMPT: str(key.attempt),
    }
    return {"metadata": {"name": name, "uid": f"uid-{name}", "labels": labels}, **fields}


def died(name: str) -> Document:
    state = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}
    statuses = [{"name": names.CONTAINER_WORKER, "state": state}]
    return document(name, status={"phase": "Failed", "containerStatuses": statuses})


def foreign() -> Document:
    return {"metadata": {"name": "x", "uid": "x", "labels": {}}}


@pytest.fixture
def children() -> Children:
    return Children()


def pod(children: Children, name: str) -> PodView:
    [found] = [pod for pod in children.pods if pod.name == name]
    return found


def test_a_job_is_known_by_its_attempt_and_goes_with_its_event(children: Children) -> None:
    children.see_job(document("j"))
    assert children.jobs[KEY].name == "j"
    children.see_job(document("j"), deleted=True)
    assert children.jobs == {}


def test_a_delete_that_was_accepted_counts_before_the_watch_says_so(children: Children) -> None:
    children.see_job(document("j"))
    children.job_deleted("uid-j")
    children.job_deleted("uid-unknown")
    assert children.jobs[KEY].deleting
    children.see_job(document("j", status={"active": 1}))
    assert children.jobs[KEY].deleting, "an event from before the delete came after its answer"


def test_what_is_none_of_ours_is_left_out(children: Children) -> None:
    children.see_job(foreign())
    children.see_pod(foreign())
    children.relist([foreign()], [foreign()], before=())
    assert (children.jobs, children.pods) == ({}, ())


def test_a_pod_that_vanished_stays_known_as_ended_and_lost(children: Children) -> None:
    children.see_pod(document("p"))
    children.see_pod(document("p"), deleted=True)
    found = pod(children, "p")
    assert (found.ended, found.deleting) == (True, True)
    assert (found.trouble, found.message) == (Reason.WORKER_LOST, "the pod was deleted")


def test_what_a_pod_said_of_its_death_outlives_it(children: Children) -> None:
    children.see_pod(died("p"))
    children.see_pod(died("p"), deleted=True)
    assert pod(children, "p").trouble is Reason.OOM_KILLED


def test_a_pod_that_ended_well_is_not_lost_when_it_goes(children: Children) -> None:
    children.see_pod(document("p", status={"phase": "Succeeded"}))
    children.see_pod(document("p", status={"phase": "Succeeded"}), deleted=True)
    found = pod(children, "p")
    assert (found.ended, found.deleting, found.trouble) == (True, True, None)


def test_a_list_shows_what_a_watch_missed(children: Children) -> None:
    children.see_job(document("old"))
    children.see_pod(document("gone"))
    children.see_pod(document("there"))
    before = children.pods
    children.relist([document("new", OTHER)], [document("there")], before=before)
    assert list(children.jobs) == [OTHER]
    assert (pod(children, "gone").ended, pod(children, "there").ended) == (True, False)


def test_a_pod_that_a_watch_showed_while_the_list_was_on_its_way_has_not_vanished(
    children: Children,
) -> None:
    children.see_pod(document("old"))
    before = children.pods
    children.see_pod(document("new"))
    children.relist([], [document("old")], before=before)
    assert not pod(children, "new").ended


def test_a_list_does_not_bring_the_reason_of_a_death_to_nothing(children: Children) -> None:
    children.see_pod(died("p"))
    children.relist([], [], before=children.pods)
    assert pod(children, "p").trouble is Reason.OOM_KILLED


def test_only_ended_pods_of_attempts_that_are_over_are_forgotten(children: Children) -> None:
    for name, key in (("mine", KEY), ("ended", OTHER), ("alive", OTHER)):
        children.see_pod(document(name, key))
    for name, key in (("mine", KEY), ("ended", OTHER)):
        children.see_pod(document(name, key), deleted=True)
    children.forget_pods([KEY])
    assert sorted(pod.name for pod in children.pods) == ["alive", "mine"]


def test_only_what_a_decision_looks_at_is_news(children: Children) -> None:
    assert children.see_pod(document("p"))
    assert not children.see_pod(document("p", status={"phase": "Running", "podIP": "10.0.0.1"}))
    assert children.see_pod(died("p"))
    assert children.see_pod(died("p"), deleted=True)
    assert not children.see_pod(died("p"), deleted=True)
    assert children.see_job(document("j"))
    assert not children.see_job(document("j"))
    assert children.see_job(document("j", status={"active": 2}))
    assert children.see_job(document("j"), deleted=True)
    assert not children.see_job(document("j"), deleted=True)
    assert not children.see_pod(foreign())
    assert not children.see_job(foreign())
