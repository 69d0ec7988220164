"""Status conditions after the Kubernetes API conventions.

`lastTransitionTime` moves only when `status` flips. The generation stands once, in
`status.observedGeneration`: all conditions of a status are about the same spec. Facts: https://github.com/kubernetes/community/blob/master/contributors/devel/sig-architecture/api-conventions.md
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from tare.api.reasons import ConditionType, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Conditions", "timestamp"]

_MESSAGE_LIMIT = 1024


def timestamp(epoch: float) -> str:
    """Format epoch seconds as the API server does: UTC, whole seconds."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Conditions:
    """The conditions of one pass, begun from the stored ones."""

    def __init__(self, stored: Iterable[Mapping[str, Any]], *, now: float) -> None:
        self._stored = {str(c["type"]): dict(c) for c in stored}
        self._known = dict(self._stored)
        self._now = timestamp(now)

    def set(
        self, kind: ConditionType, value: bool | None, reason: Reason, message: str = ""
    ) -> None:
        """State a condition; None is Unknown."""
        status = "Unknown" if value is None else str(value)
        before = self._stored.get(kind, {})
        flipped = before.get("status") != status
        self._known[kind] = {
            "type": str(kind),
            "status": status,
            "reason": str(reason),
            "message": message[:_MESSAGE_LIMIT],
            "lastTransitionTime": self._now if flipped else before["lastTransitionTime"],
        }

    def retire(self, kind: ConditionType, normal: bool) -> None:
        """Forget a condition that has its normal value: a finished run need not say it any more."""
        if self._known.get(kind, {}).get("status") == str(normal):
            del self._known[kind]

    def is_true(self, kind: ConditionType) -> bool:
        """Whether a condition is True now."""
        return self._known.get(kind, {}).get("status") == "True"

    def get(self, kind: ConditionType) -> Mapping[str, Any] | None:
        """One condition as it stands now."""
        return self._known.get(kind)

    def to_json(self) -> list[dict[str, Any]]:
        """All conditions in the order of `ConditionType`, complete, as a merge patch needs."""
        order = {str(kind): position for position, kind in enumerate(ConditionType)}
        return sorted(self._known.values(), key=lambda c: order.get(c["type"], len(order)))
