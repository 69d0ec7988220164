"""Results on a terminal: the numbers of each cell, and the goals.

At 80 columns the table keeps what a reader must not miss, that is counts, the tail of the time to
first token, throughput and the verdict; from 110 columns on it shows the rest too. Every latency
stands beside the number of requests it is about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from tare.api.reasons import CellState
from tare.measure.goals import Verdict
from tare.results.goals import goal_rows
from tare.results.units import with_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from tare.cli.servers import Counters
    from tare.measure.cell import Aggregate
    from tare.results.document import SummaryDocument
    from tare.results.table import ResultRow

__all__ = [
    "WIDE",
    "goal_table",
    "plain_table",
    "proof_table",
    "result_table",
    "show_results",
    "verdict_text",
]

WIDE = 110
"""Columns of a terminal from which on tables show everything."""
_STYLES = {Verdict.PASS: "green", Verdict.FAIL: "bold red", Verdict.UNKNOWN: "yellow"}


def show_results(console: Console, summary: SummaryDocument, rows: Sequence[ResultRow]) -> None:
    """Print the result table, why cells have no numbers, concerns, and the goals."""
    console.print(result_table(rows, width=console.width, title=_title(summary)))
    for row in rows:
        if row.message:
            console.print(Text(f"{_cell(row)}: {row.message}", style="red"))
    for cell in summary.cells:
        for concern in cell.summary.concerns if cell.summary else ():
            console.print(Text(f"{cell.name or 'all'}: {concern.message}", style="yellow"))
    if any(cell.goals for cell in summary.cells):
        console.print(goal_table(summary))


def result_table(rows: Sequence[ResultRow], *, width: int, title: str = "") -> Table:
    """Lay out one row for each cell in `width` columns."""
    wide = width >= WIDE
    table = plain_table(title)
    table.caption, table.caption_justify = _caption(rows), "left"
    table.add_column("Cell", overflow="fold")
    for heading, shown, _ in _COLUMNS:
        if wide or shown:
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Goals", justify="right", no_wrap=True)
    for row in rows:
        starred = row.is_best and len(rows) > 1
        name = Text(f"{_cell(row)}{' *' if starred else ''}", style="bold" if starred else "")
        values = [show(row) for _, shown, show in _COLUMNS if wide or shown]
        if row.state is not CellState.MEASURED:
            values = [str(row.state), *[""] * (len(values) - 1)]
        table.add_row(name, *values, verdict_text(row.goals))
    return table


def goal_table(summary: SummaryDocument) -> Table:
    """Lay out every goal with the cell that is furthest from it."""
    table = plain_table("Goals")
    table.add_column("Goal", overflow="fold")
    table.add_column("Worst", justify="right", no_wrap=True)
    table.add_column("in cell", overflow="fold")
    table.add_column("Cells\nmet", justify="right", no_wrap=True)
    table.add_column("Verdict", justify="right", no_wrap=True)
    for row in goal_rows(summary):
        met = f"{row.met}/{row.cells}"
        table.add_row(row.text, row.worst, row.cell, met, verdict_text(row.verdict))
    return table


def proof_table(servers: Sequence[Counters]) -> Table:
    """Lay out what simulated servers say happened to them."""
    table = plain_table("What the servers counted")
    table.add_column("Server")
    for heading in ("requests", "cache resets", "profiler starts", "stops", "still running"):
        table.add_column(heading, justify="right")
    for server in servers:
        table.add_row(
            server.pod,
            f"{server.requests:,}",
            str(server.resets),
            str(server.profiler_starts),
            str(server.profiler_stops),
            Text("yes", style="bold red") if server.profiler_running else Text("no"),
        )
    return table


def plain_table(title: str) -> Table:
    """Return an empty table in the style of all of them."""
    return Table(
        title=title or None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )


def _title(summary: SummaryDocument) -> str:
    return f"{summary.run.namespace}/{summary.run.name}: {summary.model}"


def _caption(rows: Sequence[ResultRow]) -> str | None:
    notes = []
    if len(rows) > 1 and any(row.is_best for row in rows):
        notes.append("* best cell")
    if any(row.ttft_p99 and row.ttft_p99.half_width is not None for row in rows):
        notes.append("± 95 % confidence interval over the trials")
    return ";  ".join(notes) or None


def _cell(row: ResultRow) -> str:
    return row.name or "all"


def verdict_text(verdict: Verdict | None) -> Text:
    """Write a verdict in its colour; `-` for None."""
    return Text(str(verdict), style=_STYLES[verdict]) if verdict else Text("-")


def _spread(found: Aggregate | None, scale: float = 1) -> str:
    return "-" if found is None else with_interval(found.mean, found.half_width, scale)


def _milliseconds(found: Aggregate | None) -> str:
    return _spread(found, 1000)


_Column = tuple[str, bool, "Callable[[ResultRow], str]"]
_COLUMNS: tuple[_Column, ...] = (
    ("Trials", False, lambda row: str(row.trials)),
    ("ok /\nissued", True, lambda row: f"{row.ok:,}/{row.issued:,}"),
    ("TTFT p50\nms", False, lambda row: _milliseconds(row.ttft_p50)),
    ("TTFT p99\nms", True, lambda row: _milliseconds(row.ttft_p99)),
    ("Latency p50\nms", False, lambda row: _milliseconds(row.latency_p50)),
    ("Latency p99\nms", True, lambda row: _milliseconds(row.latency_p99)),
    ("tokens/s", True, lambda row: _spread(row.tokens_per_second)),
    ("req/s", True, lambda row: _spread(row.requests_per_second)),
    ("Cache", False, lambda row: row.cache or "-"),
)
"""Heading, whether it is shown at 80 columns, and its text."""
