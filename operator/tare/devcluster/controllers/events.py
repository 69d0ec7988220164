"""Events that the controllers and the node post, for `kubectl describe` and for operators."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from tare.devcluster.apiserver.documents import Document, format_time
from tare.devcluster.apiserver.errors import ApiError

if TYPE_CHECKING:
    from tare.devcluster.apiserver.registry import Registry

__all__ = ["EVENTS", "EventRecorder"]

EVENTS = ("", "events")


class EventRecorder:
    """Posts core/v1 Events; the same message about the same object only counts up."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self._component = component
        self._known: dict[tuple[str, str, str], Document] = {}

    def normal(self, involved: Document, reason: str, message: str) -> None:
        """Post that something went as it should."""
        self._post(involved, "Normal", reason, message)

    def warning(self, involved: Document, reason: str, message: str) -> None:
        """Post that something went wrong."""
        self._post(involved, "Warning", reason, message)

    def _post(self, involved: Document, kind: str, reason: str, message: str) -> None:
        resource = self._registry.resources[EVENTS]
        key = (involved["metadata"]["uid"], reason, message)
        now = format_time(self._registry.clock())

        def count(event: Document) -> None:
            event["count"] += 1
            event["lastTimestamp"] = now

        if key in self._known and self._registry.modify(resource, self._known[key], count):
            return
        namespace = involved["metadata"].get("namespace", "default")
        event = self._event(involved, kind, reason, message, now)
        try:
            self._known[key] = self._registry.create(resource, namespace, event)
        except ApiError:
            return  # the namespace is on its way out; nobody will read this

    def _event(
        self, involved: Document, kind: str, reason: str, message: str, now: str
    ) -> Document:
        metadata = involved["metadata"]
        return {
            "metadata": {"name": f"{metadata['name']}.{secrets.token_hex(8)}"},
            "involvedObject": {
                "apiVersion": involved["apiVersion"],
                "kind": involved["kind"],
                "name": metadata["name"],
                "namespace": metadata.get("namespace", ""),
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
            },
            "type": kind,
            "reason": reason,
            "message": message,
            "count": 1,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "eventTime": None,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }
