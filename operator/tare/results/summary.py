"""The summary of a run from the outcomes of its cells; pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.decide.outcome import judge_outcomes, outcome_of
from tare.results.document import SummaryDocument

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.decide.outcome import CellOutcome
    from tare.decide.records import Cell
    from tare.manifests.metadata import Owner
    from tare.measure.goals import Goal

__all__ = ["summarize_run"]


def summarize_run(
    run: Owner,
    *,
    model: str,
    cells: Sequence[Cell],
    outcomes: Mapping[int, CellOutcome],
    goals: Sequence[Goal],
) -> SummaryDocument:
    """Summarize a run.

    Args:
        run: whose results these are.
        model: what was asked for.
        cells: all of them, in order.
        outcomes: by index, of the cells that have stored trials; the others are pending.
        goals: in the order of the manifest; the first one decides which cell is best.
    """
    rows = tuple(outcomes.get(cell.index) or outcome_of(cell, (), goals) for cell in cells)
    return SummaryDocument(run=run, model=model, cells=rows, verdict=judge_outcomes(goals, rows))
