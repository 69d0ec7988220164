"""Rows of `status.cells`: one for each cell, at most a hundred, each about 400 bytes.

The price of a status patch follows the size of the stored object, so a large sweep shows the rows
that people look for (failed, best, current, latest); all of them are in the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState
from tare.api.status import ROW_LIMIT
from tare.measure.cell import headlines
from tare.measure.goals import GoalVerdict, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.decide.attempt import Attempt
    from tare.decide.outcome import CellOutcome

__all__ = ["row", "select_rows"]

_MESSAGE_LIMIT = 200
_NAME_LIMIT = 80
_DIGITS = 6


def select_rows(
    outcomes: Sequence[CellOutcome], best: int | None, attempt: Attempt | None
) -> list[CellOutcome]:
    """Choose the rows to show, in the order of the sweep."""
    if len(outcomes) <= ROW_LIMIT:
        return list(outcomes)
    current = attempt.key.cell if attempt else None

    def rank(outcome: CellOutcome) -> tuple[bool, bool, bool, int]:
        wanted = outcome.index in (best, current)
        lost = outcome.state in (CellState.FAILED, CellState.INVALID)
        return wanted, lost, outcome.state is CellState.MEASURED, outcome.index

    chosen = sorted(outcomes, key=rank, reverse=True)[:ROW_LIMIT]
    return sorted(chosen, key=lambda outcome: outcome.index)


def row(outcome: CellOutcome) -> dict[str, Any]:
    """Write one row."""
    document: dict[str, Any] = {
        "index": outcome.index,
        "name": outcome.name[:_NAME_LIMIT],
        "state": str(outcome.state),
        "trialsDone": outcome.trials_done,
    }
    if outcome.reason is not None:
        document["reason"] = str(outcome.reason)
    if outcome.message:
        document["message"] = outcome.message[:_MESSAGE_LIMIT]
    if outcome.summary is not None:
        document["metrics"] = {
            _name(line.metric, line.statistic): [
                _round(value) for value in (line.mean, line.half_width) if value is not None
            ]
            for line in headlines(outcome.summary)
        }
    if outcome.goals:
        document["goals"] = _goals(outcome.goals)
    return document


def _name(metric: str, statistic: str) -> str:
    return metric if statistic == "mean" else f"{metric}_{statistic}"


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _goals(verdicts: Sequence[GoalVerdict]) -> str:
    found = {verdict.verdict for verdict in verdicts}
    if Verdict.FAIL in found:
        return "Missed"
    return "Unknown" if Verdict.UNKNOWN in found else "Met"
