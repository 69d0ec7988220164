"""A run's results as files: for other programs, and to be read again by Tare.

The summary is JSON as it is stored, or CSV with one row for each number. CSV is long, not wide
(cell, metric, statistic, value): metrics come and go with the manifest, and a table whose columns
depend on it breaks its readers. Everything, with each trial's histograms, rows and evidence, is
gzipped JSON (`results.archive`), or one page for people (`results.report`).
"""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import orjson

from tare.measure.metrics import METRICS
from tare.results.archive import SUFFIX, pack
from tare.results.report.render import to_html

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from tare.decide.outcome import CellOutcome
    from tare.results.document import RunResults, SummaryDocument

__all__ = ["CSV_COLUMNS", "FORMATS", "format_of", "to_csv", "to_json"]

CSV_COLUMNS = (
    "namespace",
    "run",
    "cell",
    "cell_name",
    "state",
    "metric",
    "statistic",
    "unit",
    "value",
    "half_width",
    "trials",
)


def to_json(summary: SummaryDocument) -> str:
    """Write the summary as indented JSON."""
    return orjson.dumps(summary, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS).decode()


def to_csv(summary: SummaryDocument) -> str:
    """Write every number of every cell, counts among them; a cell without numbers has one row."""
    output = io.StringIO()
    writer = csv.DictWriter(output, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    run = {"namespace": summary.run.namespace, "run": summary.run.name}
    for cell in summary.cells:
        about = {**run, "cell": cell.index, "cell_name": cell.name, "state": cell.state.value}
        writer.writerows({**about, **numbers} for numbers in _numbers(cell))
    return output.getvalue()


def _numbers(cell: CellOutcome) -> Iterator[dict[str, object]]:
    if cell.summary is None:
        yield {}
        return
    for name, count in cell.summary.counts.items():
        yield {"metric": name, "statistic": "count", "unit": "1", "value": count,
               "trials": cell.summary.trials}  # fmt: skip
    for metric, statistics in cell.summary.metrics.items():
        for statistic, found in statistics.items():
            yield {
                "metric": metric,
                "statistic": statistic,
                "unit": METRICS[metric].unit.value,
                "value": found.mean,
                "half_width": found.half_width,
                "trials": found.trials,
            }


FORMATS: Mapping[str, Callable[[RunResults], bytes]] = {
    ".json": lambda results: to_json(results.summary).encode(),
    ".csv": lambda results: to_csv(results.summary).encode(),
    SUFFIX: pack,
    ".html": lambda results: to_html(results).encode(),
}
"""End of a file's name to what writes it."""


def format_of(name: str) -> Callable[[RunResults], bytes] | None:
    """Return what writes a file of this name; None when nothing does."""
    return next((write for end, write in FORMATS.items() if name.endswith(end)), None)
