"""The verdict against `spec.baseline`: made once, when everything that was measured is stored.

A run that was cancelled or failed is not compared: what is missing of it was perhaps the worst.
One of which some cells failed is, since those that were measured are whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.reasons import ConditionType, Reason, RunPhase
from tare.decide.actions import StartOp
from tare.decide.facts import BaselineVerdict, Op, OpKind

if TYPE_CHECKING:
    from tare.decide.draft import Draft
    from tare.decide.ending import End

__all__ = ["announce", "is_compared"]

_COMPARED = (RunPhase.SUCCEEDED, RunPhase.PARTIALLY_FAILED)


def announce(draft: Draft) -> None:
    """Say from the start that the run will be compared, and with which."""
    baseline = draft.run.spec.baseline
    if baseline is not None:
        text = f"compared with {baseline.run} when every cell is measured"
        draft.condition(ConditionType.NO_REGRESSION, None, Reason.RUNNING, text)


def is_compared(draft: Draft, end: End) -> bool:
    """Say whether the run is worse than its baseline; False while that is being found out."""
    baseline = draft.run.spec.baseline
    if baseline is None:
        return True
    if end.phase not in _COMPARED:
        text = f"not compared with {baseline.run}: {end.message}"
        draft.condition(ConditionType.NO_REGRESSION, None, end.reason, text)
        return True
    op = Op(OpKind.COMPARE)
    view = draft.facts.ops.get(op)
    if view is None:
        draft.act(StartOp(op))
    if view is None or not view.done:
        return False
    found = view.result
    assert isinstance(found, BaselineVerdict)
    no_regression = None if found.regression is None else not found.regression
    draft.condition(ConditionType.NO_REGRESSION, no_regression, found.reason, found.message)
    return True
