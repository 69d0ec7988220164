"""What a run's Jobs and Pods say, reduced to what decisions need.

Pure readers of Kubernetes documents. A reason is taken from a pod while it still exists: a pod that
vanished without one was deleted by somebody (facts measured on a real cluster: a Job that cannot
start its pods has no condition at all, and `FailureTarget` precedes `Failed` by seconds).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.api.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["JobView", "PodView", "TrialKey", "job_view", "key_of", "pod_view"]

_PULL_REASONS = frozenset(
    {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"}
)
_MESSAGE_LIMIT = 400


@dataclass(frozen=True, slots=True, order=True)
class TrialKey:
    """One attempt at one trial of one cell; attempts count from 1."""

    cell: int
    trial: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A worker Job."""

    name: str
    uid: str
    key: TrialKey
    deleting: bool = False
    suspended: bool = False
    """Kueue, or somebody, holds the Job back."""
    started: float | None = None
    """Epoch seconds at which the Job controller began with it, anew after each suspension."""
    active: int = 0
    failed_indexes: tuple[int, ...] = ()
    failure: str | None = None
    """Reason and message of `FailureTarget` or `Failed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodView:
    """A worker pod."""

    name: str
    uid: str
    key: TrialKey
    index: int
    job: str = ""
    """UID of its Job: an earlier Job of the same name may have left pods behind."""
    deleting: bool = False
    ended: bool = False
    """Its container terminated or the pod reached Succeeded or Failed."""
    exit_code: int | None = None
    trouble: Reason | None = None
    """Why it does not start, or how it died, when the pod says so."""
    message: str = ""
    node: str = ""


def key_of(document: Mapping[str, Any]) -> TrialKey | None:
    """Read cell, trial and attempt from an object's labels; None for a foreign object."""
    labels = document["metadata"].get("labels") or {}
    try:
        return TrialKey(
            int(labels[names.LABEL_CELL]),
            int(labels[names.LABEL_TRIAL]),
            int(labels[names.LABEL_ATTEMPT]),
        )
    except (KeyError, ValueError):
        return None


def job_view(document: Mapping[str, Any]) -> JobView | None:
    """Reduce a Job document; None when it is none of ours."""
    key = key_of(document)
    if key is None:
        return None
    metadata, status = document["metadata"], document.get("status") or {}
    failure = None
    for condition in status.get("conditions") or []:
        if condition["type"] in ("FailureTarget", "Failed") and condition["status"] == "True":
            failure = f"{condition.get('reason', '')}: {condition.get('message', '')}"
    return JobView(
        name=metadata["name"],
        uid=metadata["uid"],
        key=key,
        deleting="deletionTimestamp" in metadata,
        suspended=bool(document.get("spec", {}).get("suspend")),
        started=_epoch(status.get("startTime")),
        active=status.get("active") or 0,
        failed_indexes=_indexes(status.get("failedIndexes") or ""),
        failure=failure,
    )


def pod_view(document: Mapping[str, Any]) -> PodView | None:
    """Reduce a Pod document; None when it is none of ours."""
    key = key_of(document)
    if key is None:
        return None
    metadata, status = document["metadata"], document.get("status") or {}
    labels = metadata.get("labels") or {}
    state = _worker_state(status)
    terminated = state.get("terminated")
    trouble, message = _trouble(status, state)
    return PodView(
        name=metadata["name"],
        uid=metadata["uid"],
        key=key,
        index=int(labels.get("batch.kubernetes.io/job-completion-index", 0)),
        job=_controller(metadata),
        deleting="deletionTimestamp" in metadata,
        ended=terminated is not None or status.get("phase") in ("Succeeded", "Failed"),
        exit_code=terminated.get("exitCode") if terminated else None,
        trouble=trouble,
        message=message[:_MESSAGE_LIMIT],
        node=(document.get("spec") or {}).get("nodeName") or "",
    )


def _controller(metadata: Mapping[str, Any]) -> str:
    owners = metadata.get("ownerReferences") or ()
    return next((owner["uid"] for owner in owners if owner.get("controller")), "")


def _epoch(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text).timestamp()


def _worker_state(status: Mapping[str, Any]) -> Mapping[str, Any]:
    """Find the state of our container: a mesh may have put others beside it."""
    containers = status.get("containerStatuses") or []
    for container in containers:
        if container.get("name") == names.CONTAINER_WORKER:
            return container.get("state") or {}
    return {}


def _trouble(status: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[Reason | None, str]:
    conditions = {c["type"]: c for c in status.get("conditions") or []}
    disruption = conditions.get("DisruptionTarget")
    if disruption and disruption.get("status") == "True":
        return Reason.WORKER_LOST, f"{disruption.get('reason')}: {disruption.get('message', '')}"
    terminated = state.get("terminated")
    if terminated:
        return _death(terminated)
    waiting = state.get("waiting") or {}
    if waiting.get("reason") in _PULL_REASONS:
        return Reason.IMAGE_PULL_FAILED, f"{waiting['reason']}: {waiting.get('message', '')}"
    if waiting.get("reason") == "CreateContainerConfigError":
        return Reason.SECRET_MISSING, waiting.get("message", "")
    scheduled = conditions.get("PodScheduled") or {}
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Reason.UNSCHEDULABLE, scheduled.get("message", "")
    return None, ""


def _death(terminated: Mapping[str, Any]) -> tuple[Reason | None, str]:
    code = terminated.get("exitCode")
    if terminated.get("reason") == "OOMKilled":
        return Reason.OOM_KILLED, f"killed for its memory limit (exit code {code})"
    if code:
        text = terminated.get("message") or terminated.get("reason") or ""
        return Reason.WORKER_LOST, f"exit code {code} {text}".strip()
    return None, ""


def _indexes(text: str) -> tuple[int, ...]:
    """Expand `1,3-5` as the Job controller writes it."""
    found: list[int] = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return tuple(found)
