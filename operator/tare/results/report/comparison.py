"""The part of a report about `spec.baseline`: each cell beside the same cell of the earlier run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.measure.comparison import Change
from tare.results.comparison import change_text
from tare.results.differences import absolute_text, question_text, relative_text
from tare.results.goals import goal_value
from tare.results.report.blocks import Comparison, Table
from tare.results.units import share

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tare.results.comparison import CellComparison, RunComparison
    from tare.results.report.blocks import Tone

__all__ = ["comparison_block"]

_TONES: Final[Mapping[Change, Tone]] = {
    Change.BETTER: "good",
    Change.WITHIN_TOLERANCE: "good",
    Change.NOT_WORSE: "good",
    Change.WORSE: "bad",
    Change.NOT_CONCLUSIVE: "unsure",
}


def comparison_block(found: RunComparison) -> Comparison:
    """Lay out the metric that decides, for every cell, and what to know of it."""
    side = found.baseline
    server = f"server {side.server_version}" if side.server_version else ""
    parts = (f"{side.namespace}/{side.name}", side.created, side.model, server)
    return Comparison(
        baseline=", ".join(part for part in parts if part),
        message=found.message,
        notes=list(_notes(found)),
        table=Table(
            title=question_text(found),
            headings=("cell", "baseline", "this run", "difference", "relative", "verdict"),
            rows=[_row(cell, found) for cell in found.cells],
            tones=[_TONES[cell.change] for cell in found.cells],
            note="± is the 95 % confidence interval.",
        ),
    )


def _row(cell: CellComparison, found: RunComparison) -> Sequence[str]:
    numbers = ["-"] * 4
    if cell.primary is not None:
        numbers = [
            goal_value(found.metric, cell.primary.baseline),
            goal_value(found.metric, cell.primary.candidate),
            absolute_text(cell.primary),
            relative_text(cell.primary) or "-",
        ]
    return (cell.name, *numbers, change_text(cell.change, share(found.tolerance)))


def _notes(found: RunComparison) -> Iterator[str]:
    yield from found.differences
    for cell in found.cells:
        for text in cell.refusals:
            yield f"{cell.name} is not compared. {text}"
        for text in cell.doubts:
            yield f"{cell.name}: {text}"
        if cell.primary is not None and cell.primary.doubt:
            yield f"{cell.name}: {cell.primary.doubt}."
    for role, names in (("baseline", found.only_baseline), ("this run", found.only_candidate)):
        if names:
            yield f"only in {'the ' if role == 'baseline' else ''}{role}: {'; '.join(names)}"
