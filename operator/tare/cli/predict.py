"""What `tare sim predict` prints: the tables of a measured run, and what only a simulator knows."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.text import Text

from tare.cli.exits import Exit
from tare.cli.forecast import forecast
from tare.cli.manifests import ManifestError, name_of
from tare.cli.run_file import load_run
from tare.cli.session import complain
from tare.cli.tables import (
    WIDE,
    plain_table,
    show_results,
    verdict_text,
)
from tare.decide.acceptance import Accepted, accept
from tare.manifests.metadata import Owner
from tare.net.allowlist import AllowList
from tare.results.export import to_json
from tare.results.goals import goal_text, goal_value
from tare.results.table import result_rows
from tare.results.units import latency, number, share
from tare.sim.models.load import ServerModelError
from tare.sim.predict.usage import average
from tare.workload.dataset import DatasetError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.table import Table

    from tare.cli.forecast import CellForecast, Forecast
    from tare.cli.run_file import RunFile
    from tare.decide.outcome import CellOutcome
    from tare.sim.predict.usage import PoolUsage

__all__ = ["predict"]

_UID: Final = "predicted"
"""Markers follow from it: every prediction of a file has the same ones."""
_SIDE_BY_SIDE: Final = 4
"""Cells that fit beside each other."""
_RANGES: Final = (
    ("TTFT p50", "time_to_first_token", "p50"),
    ("TTFT p99", "time_to_first_token", "p99"),
    ("Latency p99", "request_latency", "p99"),
)


def predict(
    file: str,
    *,
    server_model: str | None,
    replicas: int | None,
    seeds: int,
    as_json: bool,
) -> Exit:
    """Predict the run in a file and print it; returns the exit code of the command."""
    errors = Console(stderr=True)
    try:
        run_file = load_run(file)
        accepted = accept(run_file.run, allow_targets=AllowList.everything())
        assert isinstance(accepted, Accepted), "load_run has checked it"
        found = forecast(
            accepted,
            _owner(run_file),
            server_model=server_model,
            replicas=replicas,
            seeds=seeds,
            system_prompt=_system_prompt(file, run_file, accepted),
        )
    except (ManifestError, ServerModelError, DatasetError) as error:
        complain(errors, error)
        return Exit.INVALID
    if as_json:
        print(_document(found))  # noqa: T201 - a terminal's wrapping would break it
    else:
        _show(Console(), found)
    return _exit(found)


def _owner(run_file: RunFile) -> Owner:
    return Owner(name=name_of(run_file.run), namespace=run_file.namespace, uid=_UID)


def _system_prompt(file: str, run_file: RunFile, accepted: Accepted) -> str | None:
    """Read the text of `systemPromptFrom` from the ConfigMap beside the run.

    Raises:
        ManifestError: it is not there.
    """
    wanted = accepted.spec.dataset.system_prompt_source
    if wanted is None:
        return None
    for _, document in run_file.others:
        if document["kind"] == "ConfigMap" and document["metadata"].get("name") == wanted.name:
            text = (document.get("data") or {}).get(wanted.key)
            if isinstance(text, str):
                return text
    raise ManifestError(
        f"{file}: spec.dataset.prefixPrompts.systemPromptFrom: a prediction reads no cluster; put "
        f"the ConfigMap {wanted.name} with the key {wanted.key} into the file too"
    )


def _exit(found: Forecast) -> Exit:
    verdict = found.summary.verdict
    if verdict.met is False:
        return Exit.GOALS_MISSED
    undecided = verdict.met is None and any(cell.goals for cell in found.summary.cells)
    unstable = any(cell.unstable for cell in found.cells)
    return Exit.NOT_CONCLUSIVE if undecided or unstable else Exit.OK


def _document(found: Forecast) -> str:
    """Write the summary of a measured run with `prediction` beside it."""
    document = json.loads(to_json(found.summary))
    document["prediction"] = {
        "seeds": found.seeds,
        "cells": [_cell_document(cell) for cell in found.cells],
    }
    return json.dumps(document, indent=2)


def _cell_document(cell: CellForecast) -> dict[str, Any]:
    ranges = {
        f"{metric} {statistic}": cell.range_of(metric, statistic)
        for _, metric, statistic in _RANGES
    }
    return {
        "index": cell.index,
        "name": cell.name,
        "server_model": cell.server_model,
        "replicas": cell.replicas,
        "stable": not cell.unstable,
        "unstable_trials": cell.unstable,
        "reasons": list(cell.reasons),
        "ranges": {name: list(found) for name, found in ranges.items() if found},
        "trials": [asdict(usage) for usage in cell.pool],
    }


def _show(console: Console, found: Forecast) -> None:
    show_results(console, found.summary, result_rows(found.summary))
    cells = found.summary.cells
    if 1 < len(cells) <= _SIDE_BY_SIDE and all(cell.goals for cell in cells):
        console.print(_side_by_side(cells))
    console.print(_pool_table(found.cells, width=console.width))
    if found.seeds > 1:
        console.print(_range_table(found))
    for cell in found.cells:
        if cell.unstable:
            console.print(Text(_instability(cell, found.seeds), style="yellow"))


def _side_by_side(cells: Sequence[CellOutcome]) -> Table:
    """Lay out what each of a few cells has to show for each goal."""
    table = plain_table("Goals, side by side")
    table.add_column("Goal", overflow="fold")
    for cell in cells:
        table.add_column(cell.name, justify="right")
    for verdicts in zip(*(cell.goals for cell in cells), strict=True):
        values = [
            Text(f"{goal_value(v.goal.metric, v.measured)}  ").append_text(verdict_text(v.verdict))
            for v in verdicts
        ]
        table.add_row(goal_text(verdicts[0].goal), *values)
    return table


def _pool_table(cells: Sequence[CellForecast], *, width: int) -> Table:
    """Lay out memory and queues: averages over the trials, counts of all of them together."""
    wide = width >= WIDE
    models = {(cell.server_model, cell.replicas) for cell in cells}
    on = " on {1} × {0}".format(*models.pop()) if len(models) == 1 else ""
    table = plain_table(f"Predicted{on}: KV memory in tokens, fate of requests")
    table.add_column("Cell", overflow="fold")
    for heading, shown, _ in _POOL_COLUMNS:
        if wide or shown:
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("Load", no_wrap=True)
    for cell in cells:
        mean = average(cell.pool)
        values = [show(mean) for _, shown, show in _POOL_COLUMNS if wide or shown]
        verdict = Text("unstable", style="bold red") if cell.unstable else Text("stable")
        table.add_row(cell.name or "all", *values, verdict)
    return table


_PoolColumn = tuple[str, bool, "Callable[[PoolUsage], str]"]
_POOL_COLUMNS: Final[tuple[_PoolColumn, ...]] = (
    ("used", True, lambda mean: f"{mean.used_tokens:,.0f}"),
    ("cached", True, lambda mean: f"{mean.cached_tokens:,.0f}"),
    ("capacity", False, lambda mean: f"{mean.capacity_tokens:,}"),
    ("evicted\nblocks", True, lambda mean: f"{mean.evicted_blocks:,}"),
    ("pre-\nempted", True, lambda mean: f"{mean.preemptions:,}"),
    ("re-\njected", True, lambda mean: f"{mean.rejected:,}"),
    ("stuck", True, lambda mean: f"{mean.stuck:,}"),
    ("waiting", False, lambda mean: number(mean.waiting)),
    ("busy", False, lambda mean: share(mean.busy)),
)
"""Heading, whether it is shown at 80 columns, and its text."""


def _range_table(found: Forecast) -> Table:
    table = plain_table(f"Range over {found.seeds} seeds")
    table.add_column("Cell", overflow="fold")
    for heading, _, _ in _RANGES:
        table.add_column(heading, justify="right", no_wrap=True)
    for cell in found.cells:
        values = [cell.range_of(metric, statistic) for _, metric, statistic in _RANGES]
        texts = (f"{latency(v[0])} … {latency(v[1])}" if v else "-" for v in values)
        table.add_row(cell.name or "all", *texts)
    return table


def _instability(cell: CellForecast, seeds: int) -> str:
    advice = "" if seeds > 1 else "; --seeds 5 shows how far other seeds lie apart"
    return (
        f"{cell.name or 'all'}: the load is too much in {cell.unstable} of {len(cell.pool)} "
        f"trials: {' and '.join(cell.reasons)}{advice}"
    )
