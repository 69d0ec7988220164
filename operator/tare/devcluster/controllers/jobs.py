"""The Job controller: creates the pods of a Job, counts how they end, says when it is over.

Follows the real controller where it shows: per-index failures, the interim conditions
`FailureTarget` and `SuccessCriteriaMet` before the final ones, the tracking finalizer that holds a
pod until it is counted, no condition at all while pods cannot be created.
https://kubernetes.io/docs/concepts/workloads/controllers/job/
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from tare.devcluster.apiserver.deletion import DeleteOptions, delete
from tare.devcluster.apiserver.documents import (
    Document,
    copy_of,
    key_of,
    parse_time,
)
from tare.devcluster.apiserver.errors import ApiError
from tare.devcluster.apiserver.registry import PODS, Registry
from tare.devcluster.apiserver.resources import Propagation
from tare.devcluster.controllers.events import EventRecorder
from tare.devcluster.controllers.job_pods import TRACKING, PodView, build_pod
from tare.devcluster.controllers.job_status import FINAL, JobStatus
from tare.devcluster.controllers.queue import WorkQueue

if TYPE_CHECKING:
    from tare.devcluster.apiserver.store import Change

__all__ = ["JOBS", "JobController"]

JOBS: Final = ("batch", "jobs")
_RETRY_SECONDS: Final = 1.0
_BACKOFF_SECONDS: Final = 10.0
_MAX_BACKOFF_SECONDS: Final = 600.0

_Key = tuple[str, str]


class JobController:
    """Brings the pods of every Job to what its spec asks for."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._recorder = EventRecorder(registry, "job-controller")
        self._queue = WorkQueue(self._reconcile)
        registry.store.listen(self._on_job, JOBS)
        registry.store.listen(self._on_pod, PODS)

    def close(self) -> None:
        """Stop."""
        self._queue.close()

    def _on_job(self, change: Change) -> None:
        self._queue.add(key_of(change.document))

    def _on_pod(self, change: Change) -> None:
        metadata = change.document["metadata"]
        for owner in metadata.get("ownerReferences") or ():
            if owner["kind"] == "Job" and owner.get("controller"):
                self._queue.add((metadata["namespace"], owner["name"]))

    def _reconcile(self, key: _Key) -> None:
        job = self._registry.store.find(JOBS, *key)
        if job is None:
            self._release_orphans(key)
            return
        pods = self._pods(job)
        status = JobStatus(job, self._registry.clock())
        if status.is_finished:
            self._release(pods)
            self._expire(key, job)
            return
        status.count(pods)
        if not job["metadata"].get("deletionTimestamp"):
            self._proceed(key, job, status, pods)
        self._write(job, status)
        self._release([pod for pod in pods if pod.uncounted and not pod.active])
        self._announce(job, status)

    def _pods(self, job: Document) -> list[PodView]:
        dependents = self._registry.store.dependents(job["metadata"]["uid"])
        return [PodView(document) for resource, document in dependents if resource == PODS]

    def _proceed(self, key: _Key, job: Document, status: JobStatus, pods: list[PodView]) -> None:
        """Decide whether the Job is over; if not, delete or create pods."""
        self._watch_deadline(key, status)
        active = [pod for pod in pods if pod.active]
        status.judge(active)
        if status.is_ending:
            for pod in active:
                self._delete_pod(job, pod)
        elif job["spec"]["suspend"]:
            status.suspend()
            for pod in active:
                self._release([pod])  # so that it does not count as failed
                self._delete_pod(job, pod)
        else:
            status.resume()
            active += self._create_pods(key, job, status, pods)
        remaining = self._pods(job)
        status.observe([pod for pod in remaining if not pod.finished])
        status.finish()

    def _watch_deadline(self, key: _Key, status: JobStatus) -> None:
        if (left := status.seconds_to_deadline()) is not None and left > 0:
            self._queue.add(key, left)

    def _create_pods(
        self, key: _Key, job: Document, status: JobStatus, pods: list[PodView]
    ) -> list[PodView]:
        wanted = status.missing(pods)
        if wanted and (pause := self._pause(status, pods)) > 0:
            self._queue.add(key, pause)
            return []
        created = []
        for index, failures in wanted:
            document = build_pod(job, index, failures)
            namespace = job["metadata"]["namespace"]
            try:
                pod = self._registry.create(self._registry.resources[PODS], namespace, document)
            except ApiError as error:
                self._recorder.warning(job, "FailedCreate", f"Error creating: {error}")
                self._queue.add(key, _RETRY_SECONDS)
                break
            self._recorder.normal(
                job, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}"
            )
            created.append(PodView(pod))
        return created

    def _pause(self, status: JobStatus, pods: list[PodView]) -> float:
        """Return the seconds before the next try: 10, 20, 40 … after the latest failure."""
        ends = [moment for pod in pods if pod.phase == "Failed" and (moment := pod.ended_at)]
        if not ends:
            return 0.0
        backoff = min(_BACKOFF_SECONDS * 2 ** (status.failed - 1), _MAX_BACKOFF_SECONDS)
        due = parse_time(max(ends)) + timedelta(seconds=backoff)
        return (due - self._registry.clock()).total_seconds()

    def _delete_pod(self, job: Document, pod: PodView) -> None:
        metadata = pod.document["metadata"]
        options = DeleteOptions(uid=metadata["uid"], propagation=Propagation.BACKGROUND)
        resource = self._registry.resources[PODS]
        delete(self._registry, resource, metadata["namespace"], metadata["name"], options)
        self._recorder.normal(job, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")

    def _release(self, pods: list[PodView]) -> None:
        """Take the tracking finalizer off pods that are counted, or need not be."""

        def change(document: Document) -> None:
            finalizers = document["metadata"]["finalizers"]
            finalizers.remove(TRACKING)
            if not finalizers:
                del document["metadata"]["finalizers"]

        for pod in pods:
            if pod.uncounted:
                self._registry.modify(self._registry.resources[PODS], pod.document, change)

    def _release_orphans(self, key: _Key) -> None:
        """Let the pods of a Job that is gone go, too."""
        namespace, name = key
        for document in self._registry.store.all(PODS, namespace):
            owners = document["metadata"].get("ownerReferences") or ()
            if (
                any(owner["kind"] == "Job" and owner["name"] == name for owner in owners)
                or not owners
            ):
                self._release([PodView(document)])

    def _write(self, job: Document, status: JobStatus) -> None:
        def change(document: Document) -> None:
            document["status"] = copy_of(status.document)

        resource = self._registry.resources[JOBS]
        self._registry.modify(resource, job, change, subresource="status")

    def _announce(self, job: Document, status: JobStatus) -> None:
        """Post what became of the Job in this pass."""
        for condition in status.news:
            kind, reason, message = (condition[key] for key in ("type", "reason", "message"))
            match kind:
                case "Complete":
                    self._recorder.normal(job, "Completed", "Job completed")
                case "Failed":
                    self._recorder.warning(job, reason, message)
                case "Suspended":
                    word = "Suspended" if condition["status"] == "True" else "Resumed"
                    self._recorder.normal(job, word, message)
                case _:
                    continue

    def _expire(self, key: _Key, job: Document) -> None:
        """Delete a finished Job when its time is over."""
        seconds = job["spec"].get("ttlSecondsAfterFinished")
        if seconds is None or job["metadata"].get("deletionTimestamp"):
            return
        ends = (
            parse_time(condition["lastTransitionTime"])
            for condition in job["status"]["conditions"]
            if condition["type"] in FINAL and condition["status"] == "True"
        )
        due = max(ends) + timedelta(seconds=seconds)
        left = (due - self._registry.clock()).total_seconds()
        if left > 0:
            self._queue.add(key, left)
            return
        options = DeleteOptions(uid=job["metadata"]["uid"], propagation=Propagation.FOREGROUND)
        delete(self._registry, self._registry.resources[JOBS], *key, options)
