"""Exit codes of `tare`: what a script or a CI job learns without reading a line.

They say what the run came to, worst thing first: an invalid manifest is not a failed run, and
missed goals are a measurement that worked.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

from tare.api.reasons import ConditionType, Reason, RunPhase

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Exit", "exit_of"]


class Exit(IntEnum):
    """Documented in docs/reference/exit-codes.md."""

    OK = 0
    FAILED = 1
    """The run failed, was cancelled, or did not end in time."""
    INVALID = 2
    """The manifest or the command line was refused."""
    GOALS_MISSED = 3
    REGRESSION = 4
    NOT_CONCLUSIVE = 5
    """Goals or a comparison were asked for and the data do not decide."""
    INTERRUPTED = 130
    """Ctrl-C or SIGTERM, as shells count it."""


def exit_of(status: Mapping[str, Any]) -> Exit:
    """Reduce the status of a finished run to an exit code."""
    conditions = {c["type"]: c for c in status.get("conditions") or ()}

    def says(kind: ConditionType) -> str:
        return str(conditions.get(kind, {}).get("status", ""))

    def reason(kind: ConditionType) -> str:
        return str(conditions.get(kind, {}).get("reason", ""))

    if says(ConditionType.ACCEPTED) == "False":
        return Exit.INVALID
    if status.get("phase") != RunPhase.SUCCEEDED:
        return Exit.FAILED
    if says(ConditionType.NO_REGRESSION) == "False":
        return Exit.REGRESSION
    if says(ConditionType.GOALS_MET) == "False":
        return Exit.GOALS_MISSED
    undecided = [
        kind
        for kind in (ConditionType.GOALS_MET, ConditionType.NO_REGRESSION)
        if says(kind) == "Unknown" and reason(kind) != Reason.NO_GOALS
    ]
    return Exit.NOT_CONCLUSIVE if undecided else Exit.OK
