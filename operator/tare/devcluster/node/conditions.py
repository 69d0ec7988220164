"""Conditions of a pod: set one by its type, and let its time move only when it flips."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document

__all__ = ["set_condition"]


def set_condition(
    pod_status: Document,
    kind: str,
    *,
    status: str,
    now: str,
    reason: str = "",
    message: str = "",
) -> None:
    """Set a condition in a pod's status, in place."""
    conditions: list[Document] = pod_status.setdefault("conditions", [])
    known = next((item for item in conditions if item["type"] == kind), None)
    changed = known is None or known["status"] != status
    moment = now if known is None or changed else known["lastTransitionTime"]
    condition: Document = {
        "type": kind,
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": moment,
    }
    if reason:
        condition["reason"] = reason
    if message:
        condition["message"] = message
    if known is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(known)] = condition
