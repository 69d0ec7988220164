"""A Job's status, worked out from its pods: the parts that take time on a real cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from tare.devcluster.apiserver.kinds.jobs import fill_job
from tare.devcluster.controllers.job_pods import PodView, build_pod
from tare.devcluster.controllers.job_status import JobStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def job(status: Any = None, **spec: Any) -> Any:
    document = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "uid": "u", "namespace": "n"},
        "spec": {
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]}},
            **spec,
        },
        "status": status or {},
    }
    fill_job(document)
    return document


def indexed(completions: int, **spec: Any) -> Any:
    return job(completionMode="Indexed", completions=completions, parallelism=2, **spec)


def pod(owner: Any, index: int | None, phase: str, *, failures: int = 0) -> PodView:
    document = build_pod(owner, index, failures)
    document["status"] = {"phase": phase}
    return PodView(document)


def test_missing_pods_are_the_lowest_free_indexes_up_to_the_parallelism() -> None:
    owner = indexed(4)
    status = JobStatus(owner, NOW)

    assert status.missing([pod(owner, 1, "Running")]) == [(0, 0)]


def test_an_index_may_fail_as_often_as_its_limit_says() -> None:
    owner = indexed(1, backoffLimitPerIndex=1)
    first = pod(owner, 0, "Failed")
    status = JobStatus(owner, NOW)

    status.count([first])

    assert status.document["failedIndexes"] == ""
    assert status.missing([first]) == [(0, 1)]
    again = JobStatus(owner, NOW)
    again.count([pod(owner, 0, "Failed", failures=1)])
    assert again.document["failedIndexes"] == "0"


def test_too_many_failed_indexes_end_the_job() -> None:
    owner = indexed(5, backoffLimitPerIndex=0, maxFailedIndexes=1)
    status = JobStatus(owner, NOW)

    status.count([pod(owner, 0, "Failed"), pod(owner, 1, "Failed")])
    status.judge([])

    assert [item["reason"] for item in status.news] == ["MaxFailedIndexesExceeded"]


def test_the_backoff_limit_ends_the_job() -> None:
    owner = job(backoffLimit=0)
    status = JobStatus(owner, NOW)

    status.count([pod(owner, None, "Failed")])
    status.judge([])

    assert [item["reason"] for item in status.news] == ["BackoffLimitExceeded"]


def test_a_pod_is_counted_once() -> None:
    owner = job(completions=2)
    done = pod(owner, None, "Succeeded")
    status = JobStatus(owner, NOW)
    status.count([done])
    del done.document["metadata"]["finalizers"]  # what the controller does next

    again = JobStatus({**owner, "status": status.document}, NOW)
    again.count([done])

    assert again.succeeded == 1
    assert again.missing([done]) == [(None, 0)]


def test_the_final_condition_waits_for_the_last_pod_and_for_the_next_pass() -> None:
    owner = indexed(2, backoffLimitPerIndex=0)
    first = JobStatus(owner, NOW)
    first.count([pod(owner, 0, "Failed"), pod(owner, 1, "Succeeded")])
    first.judge([])
    first.observe([])
    first.finish()
    waiting = JobStatus({**owner, "status": first.document}, NOW)
    waiting.observe([pod(owner, 1, "Running")])
    waiting.finish()
    last = JobStatus({**owner, "status": first.document}, NOW)
    last.observe([])
    last.finish()

    assert not first.is_finished
    assert not waiting.is_finished
    assert last.is_finished


def test_the_deadline_does_not_run_while_the_job_is_suspended() -> None:
    started = {"startTime": "2025-12-31T23:59:00Z"}
    running = JobStatus(job(started, activeDeadlineSeconds=90), NOW)
    suspended = JobStatus(job(started, activeDeadlineSeconds=90, suspend=True), NOW)
    later = JobStatus(job(started, activeDeadlineSeconds=90), NOW + timedelta(seconds=31))
    later.judge([])

    assert running.seconds_to_deadline() == 30
    assert suspended.seconds_to_deadline() is None
    assert [item["reason"] for item in later.news] == ["DeadlineExceeded"]
