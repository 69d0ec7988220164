"""The eviction of a pod, as `kubectl drain` asks for it: marked as a disruption, then deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.devcluster.apiserver.deletion import delete
from tare.devcluster.apiserver.documents import Document, format_time

if TYPE_CHECKING:
    from tare.devcluster.apiserver.registry import Registry
    from tare.devcluster.apiserver.resources import Resource

__all__ = ["evict"]


def evict(registry: Registry, pods: Resource, pod: Document) -> None:
    """Set the condition DisruptionTarget and delete the pod; no disruption budget is asked."""
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastProbeTime": None,
        "lastTransitionTime": format_time(registry.clock()),
    }

    def mark(document: Document) -> None:
        status = document.setdefault("status", {})
        status["conditions"] = [*(status.get("conditions") or ()), condition]

    registry.modify(pods, pod, mark, subresource="status")
    delete(registry, pods, pod["metadata"]["namespace"], pod["metadata"]["name"])
