"""Rows of `status.cells`: one for each cell, at most a hundred, each about 400 bytes.

The price of a status patch follows the size of the stored object, so a large sweep shows the rows
that people look for (failed, best, current, latest); all of them are in the results.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, Reason
from tare.api.status import ROW_LIMIT
from tare.measure.cell import Headline, headlines
from tare.measure.goals import GoalVerdict, Verdict
from tare.measure.wire import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.decide.attempt import Attempt
    from tare.decide.outcome import CellOutcome

__all__ = ["row", "select_rows", "value_of"]

_NAME_LIMIT = 80
_ROW_BYTES = 400
_LEAST_MESSAGE = 40
"""Bytes of a message that stay whatever else the row holds."""
_DIGITS, _WIDTH_DIGITS = 5, 3
"""Significant digits of a mean and of its interval's half-width."""


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
    """Write one row; its message gets what is left of 400 bytes."""
    document: dict[str, Any] = {
        "index": outcome.index,
        "name": outcome.name[:_NAME_LIMIT],
        "state": str(outcome.state),
    }
    if outcome.state is not CellState.MEASURED:
        document["trialsDone"] = outcome.trials_done
    if outcome.reason is not None:
        document["reason"] = str(outcome.reason)
    if outcome.summary is not None:
        document["metrics"] = {
            _name(line.metric, line.statistic): _estimate(line)
            for line in headlines(outcome.summary)
        }
    if outcome.summary is not None and outcome.cache not in (None, Reason.AS_PLANNED):
        document["cache"] = str(outcome.cache)
    if outcome.goals:
        document["goals"] = _goals(outcome.goals)
    if outcome.message:
        room = _ROW_BYTES - len(encode({**document, "message": ""}))
        document["message"] = _cut(outcome.message, max(room, _LEAST_MESSAGE))
    return document


def _cut(text: str, limit: int) -> str:
    """Cut a text to at most `limit` bytes of JSON: a server's words are full of quotes."""
    text = text[:limit]
    while len(encode(text)) - len('""') > limit:
        text = text[:-1]
    return text


def _name(metric: str, statistic: str) -> str:
    return metric if statistic == "mean" else f"{metric}_{statistic}"


def value_of(estimate: str) -> float:
    """Read the value of a number as `row` writes it."""
    return float(estimate.partition(" ")[0])


def _estimate(line: Headline) -> str:
    """The mean, and the half-width of its interval where there is one."""
    text = f"{line.mean:.{_DIGITS}g}"
    if line.half_width is None:
        return text
    return f"{text} ±{line.half_width:.{_WIDTH_DIGITS}g}"


def _goals(verdicts: Sequence[GoalVerdict]) -> str:
    found = {verdict.verdict for verdict in verdicts}
    if Verdict.FAIL in found:
        return "Missed"
    return "Unknown" if Verdict.UNKNOWN in found else "Met"
