"""The Jobs and pods of one run, as the watches told us, corrected by a LIST now and then.

A watch that had to start over never mentions objects that vanished meanwhile, so the driver lists
them afresh from time to time. A pod that vanished is remembered as ended: its worker is lost.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tare.api.reasons import Reason
from tare.decide.children import JobView, PodView, TrialKey, job_view, pod_view

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.kube.port import Document

__all__ = ["Children"]


class Children:
    """Views of a run's Jobs and pods."""

    def __init__(self) -> None:
        self._jobs: dict[str, JobView] = {}
        self._pods: dict[str, PodView] = {}

    @property
    def jobs(self) -> dict[TrialKey, JobView]:
        """Jobs by attempt."""
        return {job.key: job for job in self._jobs.values()}

    @property
    def pods(self) -> tuple[PodView, ...]:
        """Pods, those that vanished among them."""
        return tuple(self._pods.values())

    def see_job(self, document: Document, *, deleted: bool = False) -> bool:
        """Take in a Job from a watch event or an answer; True when that says anything new."""
        view = job_view(document)
        if view is None:
            return False
        if deleted:
            return self._jobs.pop(view.uid, None) is not None
        before = self._jobs.get(view.uid)
        if before is not None and before.deleting:
            # This event may be older than the answer to our delete, which nothing takes back.
            view = replace(view, deleting=True)
        self._jobs[view.uid] = view
        return view != before

    def see_pod(self, document: Document, *, deleted: bool = False) -> bool:
        """Take in a pod, one that was deleted as ended; True when that says anything new."""
        view = pod_view(document)
        if view is None:
            return False
        after = _vanished(view) if deleted else view
        before, self._pods[view.uid] = self._pods.get(view.uid), after
        return after != before

    def job_deleted(self, uid: str) -> None:
        """Note that a delete was accepted, before the watch says so."""
        job = self._jobs.get(uid)
        if job is not None:
            self._jobs[uid] = replace(job, deleting=True)

    def relist(
        self, jobs: Iterable[Document], pods: Iterable[Document], *, before: Iterable[PodView]
    ) -> None:
        """Replace what is known by a fresh LIST; only pods known `before` it can have vanished."""
        self._jobs = {job.uid: job for job in map(job_view, jobs) if job is not None}
        listed = {pod.uid: pod for pod in map(pod_view, pods) if pod is not None}
        old = {pod.uid for pod in before}
        unlisted = {uid: pod for uid, pod in self._pods.items() if uid not in listed}
        gone = {uid: _vanished(pod) if uid in old else pod for uid, pod in unlisted.items()}
        self._pods = {**gone, **listed}

    def forget_pods(self, keep: Iterable[TrialKey]) -> None:
        """Drop vanished pods of attempts that are over."""
        kept = set(keep)
        self._pods = {
            uid: pod for uid, pod in self._pods.items() if pod.key in kept or not pod.ended
        }


def _vanished(pod: PodView) -> PodView:
    if pod.ended:
        return replace(pod, deleting=True)
    trouble = pod.trouble or Reason.WORKER_LOST
    message = pod.message or "the pod was deleted"
    return replace(pod, ended=True, deleting=True, trouble=trouble, message=message)
