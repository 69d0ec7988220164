"""The pods of a Job: how they are built from its template and what they say about themselves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tare.devcluster.apiserver.documents import Document, copy_of, random_suffix

__all__ = ["FAILURE_COUNT", "INDEX", "TRACKING", "PodView", "build_pod"]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""Finalizer: holds a pod until the Job has counted it."""

_INDEX_VARIABLE: Final = {
    "name": "JOB_COMPLETION_INDEX",
    "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": f"metadata.labels['{INDEX}']"}},
}


def build_pod(job: Document, index: int | None, failures: int) -> Document:
    """Build a pod of a Job; `index` is None for a Job that is not indexed."""
    owner = job["metadata"]
    template = copy_of(job["spec"]["template"])
    metadata = template.get("metadata") or {}
    base = owner["name"] if index is None else f"{owner['name']}-{index}"
    metadata |= {
        "name": f"{base}-{random_suffix()}",
        "generateName": f"{base}-",
        "finalizers": [TRACKING],
        "ownerReferences": [
            {
                "apiVersion": job["apiVersion"],
                "kind": job["kind"],
                "name": owner["name"],
                "uid": owner["uid"],
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    if index is not None:
        metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
        annotations = metadata.get("annotations") or {}
        metadata["annotations"] = {**annotations, INDEX: str(index)}
        if "backoffLimitPerIndex" in job["spec"]:
            metadata["annotations"][FAILURE_COUNT] = str(failures)
        template["spec"].setdefault("hostname", base)
        for container in template["spec"]["containers"]:
            container["env"] = [*(container.get("env") or ()), _INDEX_VARIABLE]
    return {"metadata": metadata, "spec": template["spec"]}


@dataclass(frozen=True, slots=True)
class PodView:
    """What the Job controller reads of one pod."""

    document: Document

    @property
    def index(self) -> int | None:
        """Return the completion index; None when the Job is not indexed."""
        value = (self.document["metadata"].get("annotations") or {}).get(INDEX)
        return None if value is None else int(value)

    @property
    def failures(self) -> int:
        """Return how often this index had failed before this pod."""
        annotations = self.document["metadata"].get("annotations") or {}
        return int(annotations.get(FAILURE_COUNT, 0))

    @property
    def phase(self) -> str:
        """Return the pod's phase."""
        return str(self.document["status"].get("phase", "Pending"))

    @property
    def terminating(self) -> bool:
        """Tell whether it is being deleted and not finished."""
        return bool(self.document["metadata"].get("deletionTimestamp")) and not self.finished

    @property
    def finished(self) -> bool:
        """Tell whether all containers have ended."""
        return self.phase in {"Succeeded", "Failed"}

    @property
    def active(self) -> bool:
        """Tell whether it may still succeed."""
        return not self.finished and not self.terminating

    @property
    def ready(self) -> bool:
        """Tell whether its Ready condition is True."""
        conditions = self.document["status"].get("conditions") or ()
        return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)

    @property
    def uncounted(self) -> bool:
        """Tell whether the Job still holds it by its finalizer."""
        return TRACKING in (self.document["metadata"].get("finalizers") or ())

    @property
    def ended_at(self) -> str:
        """Return when its last container ended; empty while one runs."""
        ends = [
            state["terminated"]["finishedAt"]
            for status in self.document["status"].get("containerStatuses") or ()
            if "terminated" in (state := status.get("state") or {})
        ]
        return max(ends, default="")
