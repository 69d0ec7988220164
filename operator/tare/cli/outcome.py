"""The end of a run on a terminal: the tables, the verdict, where everything lies, the exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from tare.api.reasons import ConditionType
from tare.cli.compare_tables import show_comparison
from tare.cli.exits import Exit, exit_of
from tare.cli.export import ExportError, write_results
from tare.cli.tables import show_results
from tare.results.archive import gather
from tare.results.table import result_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rich.console import Console

    from tare.kube.port import Cluster, Document

__all__ = ["show_outcome"]

_SHOWN = (
    ConditionType.ACCEPTED,
    ConditionType.CACHE_AS_PLANNED,
    ConditionType.MEASUREMENT_SOUND,
    ConditionType.GOALS_MET,
    ConditionType.NO_REGRESSION,
)
"""Conditions that a reader of the numbers must know, when they are not True."""


async def show_outcome(
    console: Console, cluster: Cluster, run: Document, *, export: Sequence[Path] = ()
) -> Exit:
    """Print what a finished run came to, and write its results into the files of `export`.

    The exit code is that of a failed run when one of them cannot be written: whoever asked for it
    goes on to read it.
    """
    status = run.get("status") or {}
    results = await gather(cluster, run)
    told: set[str] = set()
    compared = results.summary.comparison if results is not None else None
    if results is not None:
        summary = results.summary
        show_results(console, summary, result_rows(summary))
        told = {c.reason for cell in summary.cells if cell.summary for c in cell.summary.concerns}
    if compared is not None:
        show_comparison(console, compared)
    code = exit_of(status)
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    ending = conditions.get(ConditionType.FINISHED, {}).get("message", "")
    style = "bold green" if code == Exit.OK else "bold red"
    console.print(Text(f"{status.get('phase')}", style=style).append(f"  {ending}", style=""))
    for kind in _SHOWN:
        if kind is ConditionType.NO_REGRESSION and compared is not None:
            continue
        condition = conditions.get(kind, {})
        doubtful = condition.get("status") in ("False", "Unknown") and condition.get("message")
        if doubtful and condition.get("reason") not in told:
            console.print(Text(f"{kind}={condition['status']}: {condition['message']}"))
    try:
        if results is not None:
            write_results(results, export)
    except ExportError as error:
        console.print(Text(str(error), style="bold red"))
        return Exit.FAILED
    return code
