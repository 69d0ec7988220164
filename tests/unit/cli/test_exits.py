from __future__ import annotations

from typing import Any

import pytest

from tare.cli.exits import Exit, exit_of


def status(phase: str = "Succeeded", **conditions: str) -> dict[str, Any]:
    """A status with conditions given as `Type="Status/Reason"`."""
    rows = []
    for kind, text in conditions.items():
        value, _, reason = text.partition("/")
        rows.append({"type": kind, "status": value, "reason": reason})
    return {"phase": phase, "conditions": rows}


@pytest.mark.parametrize(
    ("stored", "code"),
    [
        (status(), Exit.OK),
        (status(GoalsMet="True/AllMet"), Exit.OK),
        (status(GoalsMet="Unknown/NoGoals"), Exit.OK),
        (status(GoalsMet="Unknown/NotConclusive"), Exit.NOT_CONCLUSIVE),
        (status(GoalsMet="False/GoalsMissed"), Exit.GOALS_MISSED),
        (status(GoalsMet="False/GoalsMissed", NoRegression="False/Worse"), Exit.REGRESSION),
        (status(NoRegression="Unknown/NotConclusive"), Exit.NOT_CONCLUSIVE),
        (status("Failed", GoalsMet="False/GoalsMissed"), Exit.FAILED),
        (status("PartiallyFailed", GoalsMet="True/AllMet"), Exit.FAILED),
        (status("Cancelled"), Exit.FAILED),
        (status("Failed", Accepted="False/InvalidSpec"), Exit.INVALID),
        ({}, Exit.FAILED),
    ],
)
def test_the_exit_code_says_the_worst_thing(stored: dict[str, Any], code: Exit) -> None:
    assert exit_of(stored) is code
