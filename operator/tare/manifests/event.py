"""Events on a run: the story that `kubectl describe` tells.

The name is derived from run, reason and time, so that a write that is repeated after an unknown
outcome does not tell the same thing twice.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.decide.conditions import timestamp

if TYPE_CHECKING:
    from tare.decide.actions import Event
    from tare.manifests.metadata import Owner

__all__ = ["build_event"]

_MESSAGE_LIMIT = 1024


def build_event(owner: Owner, event: Event, *, now: float) -> dict[str, Any]:
    """Build a core/v1 Event about `owner`; its message is cut to what the API server takes."""
    stamp = timestamp(now)
    seed = f"{owner.uid}/{event.reason}/{event.message}/{stamp}"
    digest = hashlib.sha256(seed.encode()).hexdigest()[:16]
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{names.child_name(owner.name, limit=40)}.{digest}",
            "namespace": owner.namespace,
        },
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": names.KIND,
            "name": owner.name,
            "namespace": owner.namespace,
            "uid": owner.uid,
        },
        "type": "Warning" if event.warning else "Normal",
        "reason": event.reason,
        "message": event.message[:_MESSAGE_LIMIT],
        "source": {"component": names.MANAGED_BY},
        "reportingComponent": names.MANAGED_BY,
        "firstTimestamp": stamp,
        "lastTimestamp": stamp,
        "count": 1,
    }
