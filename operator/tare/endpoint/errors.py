"""Why the model service cannot be used, as one error that carries its condition's reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tare.api.reasons import Reason

__all__ = ["TargetError"]


class TargetError(Exception):
    """The target cannot be used now, or (`final`) as it is described; `str()` is one sentence."""

    def __init__(self, reason: Reason, message: str, *, final: bool) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.final = final
        """Waiting does not mend it: somebody must change the run or the cluster."""
