"""The status of a Job, worked out from its spec and its pods; pure but for the time it is given."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.devcluster.apiserver.documents import Document, copy_of, format_time, parse_time
from tare.devcluster.controllers.indexes import format_indexes, parse_indexes

if TYPE_CHECKING:
    from datetime import datetime

    from tare.devcluster.controllers.job_pods import PodView

__all__ = ["FINAL", "JobStatus"]

FINAL: Final = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
"""The final conditions, each with the interim one that comes before it."""

Wanted = tuple[int | None, int]
"""A pod to create: its completion index, and how often that index failed before."""


class JobStatus:
    """One pass over a Job: read the old status, count, judge, write the new one."""

    def __init__(self, job: Document, now: datetime) -> None:
        self._spec = job["spec"]
        self._now = now
        self.document: Document = copy_of(job.get("status") or {})
        self.document.setdefault("uncountedTerminatedPods", {})
        self.news: list[Document] = []
        """Conditions that were set in this pass."""
        self._completed = parse_indexes(self.document.get("completedIndexes", ""))
        self._failed_indexes = parse_indexes(self.document.get("failedIndexes", ""))

    @property
    def indexed(self) -> bool:
        """Tell whether the Job has completion indexes."""
        return bool(self._spec["completionMode"] == "Indexed")

    @property
    def failed(self) -> int:
        """Return the number of failed pods."""
        return int(self.document.get("failed", 0))

    @property
    def succeeded(self) -> int:
        """Return the number of succeeded pods, or of completed indexes."""
        return int(self.document.get("succeeded", 0))

    @property
    def is_finished(self) -> bool:
        """Tell whether a final condition is set."""
        return any(self._has(kind) for kind in FINAL)

    @property
    def is_ending(self) -> bool:
        """Tell whether the outcome is known and only pods are waited for."""
        return any(self._has(kind) for kind in FINAL.values())

    def _has(self, kind: str) -> bool:
        return any(
            item["type"] == kind and item["status"] == "True"
            for item in self.document.get("conditions") or ()
        )

    def count(self, pods: list[PodView]) -> None:
        """Add the pods that ended, or are being deleted, and were not counted before."""
        for pod in pods:
            if not pod.uncounted or pod.active:
                continue
            if pod.phase == "Succeeded":
                self._count_success(pod)
            else:
                self._count_failure(pod)
        if self.indexed:
            self.document["completedIndexes"] = format_indexes(self._completed)
            self.document["succeeded"] = len(self._completed)
            if not self._completed:
                del self.document["completedIndexes"], self.document["succeeded"]
        if "backoffLimitPerIndex" in self._spec:
            self.document["failedIndexes"] = format_indexes(self._failed_indexes)

    def _count_success(self, pod: PodView) -> None:
        if pod.index is not None:
            self._completed.add(pod.index)
        else:
            self.document["succeeded"] = self.succeeded + 1

    def _count_failure(self, pod: PodView) -> None:
        self.document["failed"] = self.failed + 1
        limit = self._spec.get("backoffLimitPerIndex")
        if limit is not None and pod.index is not None and pod.failures >= limit:
            self._failed_indexes.add(pod.index)

    def judge(self, active: list[PodView]) -> None:
        """Set the interim condition once the outcome is known."""
        if self.is_ending:
            return
        if self.failed > self._spec["backoffLimit"]:
            self._set(
                "FailureTarget",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )
        elif (left := self.seconds_to_deadline()) is not None and left <= 0:
            self._set(
                "FailureTarget",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            )
        elif self._too_many_failed_indexes():
            self._set(
                "FailureTarget",
                "MaxFailedIndexesExceeded",
                "Job has exceeded the specified maximal number of failed indexes",
            )
        elif self._failed_indexes and self._is_each_index_over():
            self._set("FailureTarget", "FailedIndexes", "Job has failed indexes")
        elif self._is_complete(active):
            self._set(
                "SuccessCriteriaMet",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )

    def _too_many_failed_indexes(self) -> bool:
        allowed = self._spec.get("maxFailedIndexes")
        return allowed is not None and len(self._failed_indexes) > allowed

    def _is_each_index_over(self) -> bool:
        over = len(self._failed_indexes) + len(self._completed)
        return over >= int(self._spec["completions"])

    def _is_complete(self, active: list[PodView]) -> bool:
        completions = self._spec.get("completions")
        if completions is None:
            return self.succeeded > 0 and not active
        return self.succeeded >= completions and not active

    def seconds_to_deadline(self) -> float | None:
        """Return what is left of `activeDeadlineSeconds`; None when it does not run."""
        seconds = self._spec.get("activeDeadlineSeconds")
        start = self.document.get("startTime")
        if seconds is None or start is None or self._spec["suspend"]:
            return None
        return float(seconds - (self._now - parse_time(start)).total_seconds())

    def suspend(self) -> None:
        """Note that the Job is suspended."""
        if not self._has("Suspended"):
            self._set("Suspended", "JobSuspended", "Job suspended")
            self.document.pop("startTime", None)

    def resume(self) -> None:
        """Note that the Job runs, for the first time or again."""
        if self._has("Suspended"):
            self._set("Suspended", "JobResumed", "Job resumed", status="False")
        self.document.setdefault("startTime", format_time(self._now))

    def missing(self, pods: list[PodView]) -> list[Wanted]:
        """Return the pods to create now, lowest index first."""
        living = [pod for pod in pods if not pod.finished and not pod.terminating]
        room = self._spec["parallelism"] - len(living)
        if self.indexed:
            taken = {pod.index for pod in living} | self._completed | self._failed_indexes
            free = [index for index in range(self._spec["completions"]) if index not in taken]
            return [(index, _failures(pods, index)) for index in free[: max(room, 0)]]
        completions = self._spec.get("completions")
        if completions is None:
            room = 0 if self.succeeded else room
        else:
            room = min(room, completions - self.succeeded - len(living))
        return [(None, 0)] * max(room, 0)

    def observe(self, unfinished: list[PodView]) -> None:
        """Write the counters of pods that have not ended."""
        active = [pod for pod in unfinished if pod.active]
        self.document["active"] = len(active)
        if not active:
            del self.document["active"]
        self.document["ready"] = sum(pod.ready for pod in active)
        self.document["terminating"] = len(unfinished) - len(active)

    def finish(self) -> None:
        """Set the final condition once no pod is left that has not ended.

        Never in the pass that set the interim one: watchers see that first.
        """
        if self.news or self.document.get("active") or self.document.get("terminating"):
            return
        for final, interim in FINAL.items():
            for condition in list(self.document.get("conditions") or ()):
                if condition["type"] == interim and not self.is_finished:
                    self._set(final, condition["reason"], condition["message"])
                    if final == "Complete":
                        self.document["completionTime"] = format_time(self._now)

    def _set(self, kind: str, reason: str, message: str, *, status: str = "True") -> None:
        moment = format_time(self._now)
        condition = {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastProbeTime": moment,
            "lastTransitionTime": moment,
        }
        others = [item for item in self.document.get("conditions") or () if item["type"] != kind]
        self.document["conditions"] = [*others, condition]
        self.news.append(condition)


def _failures(pods: list[PodView], index: int) -> int:
    """Return how often an index failed, by its pods that are still there."""
    counts = [pod.failures + 1 for pod in pods if pod.index == index and not pod.active]
    return max(counts, default=0)
