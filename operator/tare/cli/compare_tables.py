"""A comparison on a terminal: the primary metric of all cells, then each cell's other metrics.

A difference and its interval stand below each other, once in the metric's unit and once in per cent
of the baseline. At 80 columns the other metrics are shown without the baseline's value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from tare.cli.tables import WIDE, plain_table
from tare.measure.comparison import OTHERS, Change, Method
from tare.results.comparison import change_text
from tare.results.differences import absolute_text, question_text, relative_text
from tare.results.goals import goal_value, measure_text
from tare.results.units import number, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from tare.results.comparison import CellComparison, RunComparison, RunSide

__all__ = ["show_comparison"]

_STYLES: Final = {
    Change.BETTER: "green",
    Change.WITHIN_TOLERANCE: "green",
    Change.NOT_WORSE: "green",
    Change.WORSE: "bold red",
    Change.NOT_CONCLUSIVE: "yellow",
}
_METHODS: Final = {
    Method.PAIRED_TRIALS: "paired by request, the interval is Welch's over the trials' means",
    Method.PAIRED_REQUESTS: "paired by request, the interval is that of batch means",
    Method.TRIALS: "by trial, the interval is Welch's",
}
_SMALLEST_P: Final = 0.001
_LONGEST: Final = max(len(measure.metric) for measure in OTHERS)


def show_comparison(console: Console, found: RunComparison) -> None:
    """Print both runs, what differs, every cell, and the sentence for the whole."""
    _line(console, f"Baseline   {_side(found.baseline)}")
    _line(console, f"Candidate  {_side(found.candidate)}")
    for text in found.differences:
        _line(console, f"  {text}", "dim")
    if found.cells:
        _line(console, question_text(found), "bold")
        console.print(_primary_table(found))
    for cell in found.cells:
        _explain(console, cell)
    for role, names in (("baseline", found.only_baseline), ("candidate", found.only_candidate)):
        if names:
            _line(console, f"Only in the {role}: {'; '.join(names)}", "yellow")
    for cell in found.cells:
        if cell.others:
            console.print(_others_table(cell, found.tolerance, wide=console.width >= WIDE))
    style = {True: "bold red", False: "bold green", None: "bold yellow"}[found.regression]
    _line(console, found.message, style)


def _primary_table(found: RunComparison) -> Table:
    table = plain_table("")
    table.add_column("Cell", overflow="fold")
    for heading in ("Baseline", "Candidate", "Difference", "Verdict"):
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in found.cells:
        numbers = ["-"] * 3
        if cell.primary is not None:
            numbers = [
                goal_value(found.metric, cell.primary.baseline),
                goal_value(found.metric, cell.primary.candidate),
                "\n".join(filter(None, (absolute_text(cell.primary), relative_text(cell.primary)))),
            ]
        table.add_row(cell.name, *numbers, _change(cell.change, found.tolerance))
    table.caption, table.caption_justify = "± 95 % confidence interval", "left"
    return table


def _others_table(cell: CellComparison, tolerance: float, *, wide: bool) -> Table:
    table = plain_table(f"{cell.name}: other metrics")
    table.add_column("Metric", overflow="fold", min_width=_LONGEST)
    for heading in (*["Baseline"] * wide, "Candidate", "Difference", "p", "Verdict"):
        table.add_column(heading, justify="right", no_wrap=True)
    for other in cell.others:
        table.add_row(
            measure_text(other.metric, other.statistic),
            *[goal_value(other.metric, other.baseline)] * wide,
            goal_value(other.metric, other.candidate),
            relative_text(other) or absolute_text(other),
            _p(other.p_adjusted),
            _change(other.change, tolerance),
        )
    table.caption = "p: by chance alone, corrected for the number of metrics (Holm)"
    table.caption_justify = "left"
    return table


def _explain(console: Console, cell: CellComparison) -> None:
    """Say where the numbers of a cell come from, or why there are none."""
    primary = cell.primary
    if primary is not None and primary.method is not None:
        _line(console, f"{cell.name}: {primary.basis}; {_METHODS[primary.method]}.")
    if primary is not None and primary.doubt:
        _line(console, f"{cell.name}: {primary.doubt}.", "yellow")
    for text in cell.refusals:
        _line(console, f"{cell.name} is not compared. {text}", "red")
    for text in cell.doubts:
        _line(console, f"{cell.name}: {text}", "yellow")


def _side(side: RunSide) -> str:
    server = f"server {side.server_version}" if side.server_version else ""
    parts = (f"{side.namespace}/{side.name}", side.created, side.model, server)
    return "  ".join(part for part in parts if part)


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return f"<{_SMALLEST_P}" if value < _SMALLEST_P else number(value, digits=2)


def _change(change: Change, tolerance: float) -> Text:
    return Text(change_text(change, share(tolerance)), style=_STYLES[change])


def _line(console: Console, text: str, style: str = "") -> None:
    console.print(Text(text, style=style), soft_wrap=True)
