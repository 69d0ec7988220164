"""Hold measured cells against the goals of the run.

A cell meets the goals when each of them passes; a statistic is judged by its mean over trials. A
run meets them when every cell was measured and meets them all. One miss is enough for False,
whatever comes later; without goals, or while something is not measured, nothing is claimed.

A sweep looks for the best configuration, which often means that some cells must miss: those are
named, and `best` is the cell that is best by the *first* goal's metric among those that meet all
goals. So the order of the goals says what to optimise. Without goals it is request throughput.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from tare.api.reasons import Reason
from tare.measure.cell import CellSummary
from tare.measure.metrics import METRICS, SCALAR_STATISTIC, Better, Unit, statistics_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Goal",
    "GoalVerdict",
    "JudgedCell",
    "RunVerdict",
    "Verdict",
    "judge",
    "judge_run",
]

_NAMED: Final = 5
"""Misses that a message names; the rest is counted."""


class Verdict(StrEnum):
    """Outcome of one goal."""

    PASS = "Pass"  # noqa: S105 - not a password
    FAIL = "Fail"
    UNKNOWN = "Unknown"
    """Not every trial has the statistic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """A bound on one statistic: seconds, a fraction of 1, or a plain number."""

    metric: str
    statistic: str = SCALAR_STATISTIC
    min: float | None = None
    max: float | None = None

    @property
    def lower_is_better(self) -> bool:
        """Whether a smaller value is further on the right side."""
        if (self.min is None) != (self.max is None):
            return self.max is not None
        return METRICS[self.metric].better is not Better.HIGHER

    @property
    def text(self) -> str:
        """The goal as people write it: `time_to_first_token p99 <= 500 ms`."""
        bounds = ((">=", self.min), ("<=", self.max))
        limits = (f"{sign} {_text(self.metric, b)}" for sign, b in bounds if b is not None)
        return f"{self.metric}{_suffix(self)} {' and '.join(limits)}"


_WITHOUT_GOALS: Final = Goal(metric="request_throughput", min=0.0)
"""Ranks the cells of a run that has no goals; every cell meets it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalVerdict:
    """One goal and what was measured."""

    goal: Goal
    verdict: Verdict
    measured: float | None

    @property
    def text(self) -> str:
        """The goal and the measured value."""
        if self.measured is None:
            return f"{self.goal.text}: not measured"
        return f"{self.goal.text}: {_text(self.goal.metric, self.measured)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedCell:
    """A cell as far as it is measured; `summary` is None when it has no valid result (yet)."""

    index: int
    name: str
    summary: CellSummary | None

    @property
    def text(self) -> str:
        """The cell by number and name."""
        return f"Cell {self.index} ({self.name})"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """The `GoalsMet` condition, and the best cell."""

    met: bool | None
    """None is Unknown."""
    reason: Reason
    message: str
    best: int | None
    """Index of the best cell; None when no cell meets all goals."""


def judge(goals: Sequence[Goal], cell: CellSummary) -> tuple[GoalVerdict, ...]:
    """Judge one cell; a statistic that is missing in a trial cannot pass."""
    return tuple(_judge(goal, cell) for goal in goals)


def judge_run(goals: Sequence[Goal], cells: Sequence[JudgedCell]) -> RunVerdict:
    """Judge all cells of a run, the unmeasured ones included."""
    met, reason, message = _conclude(goals, cells)
    return RunVerdict(met=met, reason=reason, message=message, best=_best(goals, cells))


def _conclude(
    goals: Sequence[Goal], cells: Sequence[JudgedCell]
) -> tuple[bool | None, Reason, str]:
    if not goals:
        return None, Reason.NO_GOALS, "The run has no goals."
    judged = [(cell, judge(goals, cell.summary)) for cell in cells if cell.summary is not None]
    if misses := _named(judged, Verdict.FAIL):
        return False, Reason.GOALS_MISSED, _sentence(misses)
    unmeasured = [f"{cell.text}: not measured" for cell in cells if cell.summary is None]
    if missing := unmeasured + _named(judged, Verdict.UNKNOWN):
        return None, Reason.NOT_CONCLUSIVE, _sentence(missing)
    if not cells:
        return None, Reason.NOT_CONCLUSIVE, "No cell is measured."
    return True, Reason.ALL_MET, f"All {len(goals)} goals are met in all {len(cells)} cells."


def _judge(goal: Goal, cell: CellSummary) -> GoalVerdict:
    found = cell.aggregate(goal.metric, goal.statistic)
    if found is None or found.trials < cell.trials:
        return GoalVerdict(goal=goal, verdict=Verdict.UNKNOWN, measured=None)
    above = goal.min is None or found.mean >= goal.min
    below = goal.max is None or found.mean <= goal.max
    verdict = Verdict.PASS if above and below else Verdict.FAIL
    return GoalVerdict(goal=goal, verdict=verdict, measured=found.mean)


def _best(goals: Sequence[Goal], cells: Sequence[JudgedCell]) -> int | None:
    goals = goals or (_WITHOUT_GOALS,)
    ranked = ((_rank(goals, cell.summary), cell.index) for cell in cells if cell.summary)
    met = [(rank, index) for rank, index in ranked if rank is not None]
    return min(met)[1] if met else None


def _rank(goals: Sequence[Goal], cell: CellSummary) -> float | None:
    """Return a number that is smaller for a better cell; None when it misses a goal."""
    verdicts = judge(goals, cell)
    first = verdicts[0].measured
    if first is None or any(found.verdict is not Verdict.PASS for found in verdicts):
        return None
    return first if goals[0].lower_is_better else -first


def _named(
    judged: Sequence[tuple[JudgedCell, Sequence[GoalVerdict]]], verdict: Verdict
) -> list[str]:
    return [
        f"{cell.text}: {found.text}"
        for cell, verdicts in judged
        for found in verdicts
        if found.verdict is verdict
    ]


def _sentence(parts: Sequence[str]) -> str:
    more = len(parts) - _NAMED
    text = "; ".join(parts[:_NAMED])
    return f"{text}; and {more} more." if more > 0 else f"{text}."


def _suffix(goal: Goal) -> str:
    return f" {goal.statistic}" if len(statistics_of(goal.metric)) > 1 else ""


def _text(metric: str, value: float) -> str:
    unit = METRICS[metric].unit
    match unit:
        case Unit.SECONDS:
            return f"{value * 1000:.4g} ms"
        case Unit.RATIO:
            return f"{value:.3%}"
        case _:
            return f"{value:.6g}"
