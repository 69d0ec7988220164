"""A run whose spec is refused: the terminal status, before anything was created."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import ConditionType, Reason, RunPhase
from tare.decide.actions import Decision
from tare.decide.conditions import Conditions, timestamp
from tare.decide.events import events

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.api.problems import Problem

__all__ = ["refuse"]

_SHOWN = 5


def refuse(
    problems: Sequence[Problem], stored: Mapping[str, Any], *, now: float, generation: int
) -> Decision:
    """Say what is wrong with the spec; the first problems in full, the rest counted."""
    message = " ".join(str(problem) for problem in problems[:_SHOWN])
    if len(problems) > _SHOWN:
        message += f" And {len(problems) - _SHOWN} more; `tare validate` prints all."
    conditions = Conditions(stored.get("conditions") or (), now=now)
    reason = Reason.INVALID_SPEC
    conditions.set(ConditionType.ACCEPTED, False, reason, message)
    conditions.set(ConditionType.COMPLETE, False, reason, message)
    conditions.set(ConditionType.FAILED, True, reason, message)
    conditions.set(ConditionType.FINISHED, True, reason, message)
    status = {
        "phase": str(RunPhase.FAILED),
        "reason": str(reason),
        "observedGeneration": generation,
        "operator": stored.get("operator"),
        "finishTime": timestamp(now),
        "conditions": conditions.to_json(),
    }
    return Decision(status=status, events=events(stored, status), finished=True)
