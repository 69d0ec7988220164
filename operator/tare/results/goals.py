"""Goals as rows: each with the cell that is furthest from it, and how many cells meet it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.measure.goals import Goal, GoalVerdict, Verdict
from tare.measure.metrics import METRICS, Kind, Unit
from tare.results.units import latency, share, with_interval

if TYPE_CHECKING:
    from tare.results.document import SummaryDocument

__all__ = ["GoalRow", "goal_rows", "goal_text", "goal_value", "measure_text"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalRow:
    """One goal over all cells."""

    goal: Goal
    text: str
    """The goal as people write it."""
    worst: str
    """The measured value that is furthest from it."""
    cell: str
    """Where that was."""
    met: int
    """Cells that meet it."""
    cells: int
    """All cells of the run."""
    verdict: Verdict
    """Unknown while a cell is not judged, unless another one fails."""


def goal_rows(summary: SummaryDocument) -> list[GoalRow]:
    """Hold every goal against the cells that were judged; none where no cell was."""
    judged = [cell for cell in summary.cells if cell.goals]
    all_judged = len(judged) == len(summary.cells)
    rows = []
    for verdicts in zip(*(cell.goals for cell in judged), strict=True):
        place = max(range(len(judged)), key=lambda index: _badness(verdicts[index]))
        worst = verdicts[place]
        undecided = worst.verdict is Verdict.PASS and not all_judged
        rows.append(
            GoalRow(
                goal=worst.goal,
                text=goal_text(worst.goal),
                worst=goal_value(worst.goal.metric, worst.measured),
                cell=judged[place].name or "all",
                met=sum(verdict.verdict is Verdict.PASS for verdict in verdicts),
                cells=len(summary.cells),
                verdict=Verdict.UNKNOWN if undecided else worst.verdict,
            )
        )
    return rows


def goal_text(goal: Goal) -> str:
    """Write a goal as people do: `time_to_first_token p99 ≤ 250 ms`."""
    bounds = (("≥", goal.min), ("≤", goal.max))
    limits = [f"{sign} {goal_value(goal.metric, b)}" for sign, b in bounds if b is not None]
    return f"{measure_text(goal.metric, goal.statistic)} {' and '.join(limits)}"


def measure_text(metric: str, statistic: str) -> str:
    """Write a metric as people do: a metric of one number has no statistic."""
    return f"{metric} {statistic}" if METRICS[metric].kind is Kind.DISTRIBUTION else metric


def goal_value(metric: str, value: float | None, half_width: float | None = None) -> str:
    """Write a value of a metric with its unit, and its interval where there is one."""
    match METRICS[metric].unit:
        case Unit.SECONDS:
            return latency(value, half_width)
        case Unit.RATIO:
            return share(value, half_width)
        case _:
            return with_interval(value, half_width)


def _badness(verdict: GoalVerdict) -> tuple[bool, float]:
    """Order of verdicts on one goal: unknown ones worst, then by the distance from the bound."""
    if verdict.measured is None:
        return True, 0.0
    return False, verdict.measured if verdict.goal.lower_is_better else -verdict.measured
