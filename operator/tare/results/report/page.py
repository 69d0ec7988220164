"""The report of a run, from its results: what is said, and in which order; no HTML.

The verdict comes first, then the numbers, then what they rest on. Counts stand beside every
latency, and what makes a number doubtful stands before it.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import yaml

from tare import __version__
from tare.api.reasons import CellState, ConditionType, Reason
from tare.measure.cell import INTERVAL_FROM
from tare.measure.goals import Verdict
from tare.measure.metrics import METRICS
from tare.results.goals import goal_rows, goal_value
from tare.results.report.blocks import Badge, Page, Table, Tone
from tare.results.report.cell import cell_part, state_badge
from tare.results.report.comparison import comparison_block
from tare.results.report.sweep import sweep_figures
from tare.results.specs import without_values
from tare.results.table import ResultRow, result_rows
from tare.results.units import clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.decide.outcome import CellOutcome
    from tare.measure.cell import Aggregate
    from tare.results.document import RunResults, SummaryDocument

__all__ = ["page_of"]

_MOST_PARTS: Final = 60
"""Cells with a part of their own: each takes some 20 KiB."""
_SHOWN_CONDITIONS: Final = (
    ConditionType.GOALS_MET,
    ConditionType.CACHE_AS_PLANNED,
    ConditionType.MEASUREMENT_SOUND,
    ConditionType.NO_REGRESSION,
)
_NEUTRAL: Final = (Reason.NO_GOALS,)
_TONES: Final[Mapping[str, Tone]] = {"True": "good", "False": "bad", "Unknown": "unsure"}
_VERDICTS: Final[Mapping[Verdict, Tone]] = {
    Verdict.PASS: "good",
    Verdict.FAIL: "bad",
    Verdict.UNKNOWN: "unsure",
}
_COLUMNS: Final = (
    ("TTFT p50", "ttft_p50", "time_to_first_token"),
    ("TTFT p99", "ttft_p99", "time_to_first_token"),
    ("latency p50", "latency_p50", "request_latency"),
    ("latency p99", "latency_p99", "request_latency"),
    ("tokens/s", "tokens_per_second", "output_token_throughput"),
    ("req/s", "requests_per_second", "request_throughput"),
)
"""Heading, field of `ResultRow`, metric."""
_DEFINED: Final = (
    "time_to_first_token",
    "request_latency",
    "time_per_output_token",
    "inter_chunk_latency",
    "output_token_throughput",
    "request_throughput",
    "goodput",
    "error_rate",
)


def page_of(results: RunResults) -> Page:
    """Lay out the report of a run; the same results give the same page."""
    run, summary = results.run, results.summary
    status, spec = run.get("status") or {}, run.get("spec") or {}
    rows = result_rows(summary)
    detailed = _worth_a_part(summary)
    trials = {
        cell.index: [t for t in results.trials if t.record.cell == cell.index] for cell in detailed
    }
    return Page(
        title=f"{summary.run.namespace}/{summary.run.name}",
        model=summary.model,
        facts=_facts(status, spec, summary),
        badges=_badges(status, summary),
        verdict=summary.verdict.message,
        goals=_goals(summary),
        comparison=comparison_block(summary.comparison) if summary.comparison else None,
        results=_results(rows),
        concerns=_concerns(summary),
        figures=sweep_figures(summary.cells),
        cells=[cell_part(cell, trials[cell.index]) for cell in detailed],
        left_out=len(summary.cells) - len(detailed),
        notes=_notes(results),
        metrics=[(name, METRICS[name].description) for name in _DEFINED],
        manifest=_manifest(run),
        version=__version__,
    )


def _badges(status: Mapping[str, Any], summary: SummaryDocument) -> list[Badge]:
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    phase = str(status.get("phase") or "Pending")
    ending = conditions.get(ConditionType.FINISHED, {}).get("message", "")
    tone: Tone = "good" if phase == "Succeeded" else "bad" if ending else "unsure"
    badges = [Badge(name="Run", word=phase, tone=tone, message=ending)]
    for kind in _SHOWN_CONDITIONS:
        condition = conditions.get(kind)
        if condition is None or condition.get("reason") in _NEUTRAL:
            continue
        badges.append(
            Badge(
                name=str(kind),
                word=str(condition.get("reason", "")),
                tone=_TONES.get(condition.get("status", ""), "unsure"),
                message=_met(summary)
                if kind is ConditionType.GOALS_MET
                else str(condition.get("message", "")),
            )
        )
    return badges


def _met(summary: SummaryDocument) -> str:
    """How many cells meet all goals; which ones miss what stands beside the goals."""
    met = [c for c in summary.cells if c.goals and {g.verdict for g in c.goals} == {Verdict.PASS}]
    return f"{len(met)} of {len(summary.cells)} cells meet every goal"


def _facts(
    status: Mapping[str, Any], spec: Mapping[str, Any], summary: SummaryDocument
) -> list[tuple[str, str]]:
    target = status.get("target") or {}
    endpoint = spec.get("endpoint") or {}
    server = " ".join(filter(None, [endpoint.get("server"), target.get("serverVersion")]))
    trials = (spec.get("trials") or {}).get("count", 1)
    facts = [
        ("Model", summary.model),
        ("Server", server),
        ("Target", str(target.get("address") or "")),
        *((f"Replica {r['name']}", _replica(r)) for r in target.get("replicas") or ()),
        ("Started", str(status.get("startTime") or "")),
        ("Took", _took(status)),
        ("Cells", f"{len(summary.cells)}, {trials} trial{'s' if trials > 1 else ''} each"),
    ]
    return [(name, value) for name, value in facts if value]


def _replica(replica: Mapping[str, Any]) -> str:
    restarts = replica.get("restarts")
    parts = [replica.get("image"), replica.get("node") and f"on {replica['node']}"]
    return " ".join(filter(None, [*parts, restarts and f"({restarts} restarts)"])) or "by address"


def _took(status: Mapping[str, Any]) -> str:
    try:
        began, ended = (datetime.fromisoformat(status[key]) for key in ("startTime", "finishTime"))
    except (KeyError, TypeError, ValueError):
        return ""
    return clock((ended - began).total_seconds())


def _goals(summary: SummaryDocument) -> Table | None:
    rows = goal_rows(summary)
    if not rows:
        return None
    return Table(
        headings=("goal", "worst", "in cell", "cells that meet it", "verdict"),
        rows=[(r.text, r.worst, r.cell, f"{r.met}/{r.cells}", str(r.verdict)) for r in rows],
        tones=[_VERDICTS[row.verdict] for row in rows],
    )


def _results(rows: Sequence[ResultRow]) -> Table:
    best = next((place for place, row in enumerate(rows) if row.is_best and len(rows) > 1), None)
    notes = ["Latencies are those of ok requests."]
    fields = [field for _, field, _ in _COLUMNS]
    found = [getattr(row, field) for row in rows for field in fields]
    if any(number is not None and number.half_width is not None for number in found):
        notes.append("± is the 95 % confidence interval over the trials (Student's t).")
    else:
        notes.append(f"An interval takes {INTERVAL_FROM} trials.")
    if best is not None:
        notes.append(f"Best cell: {rows[best].name}.")
    return Table(
        headings=("cell", "ok / issued", *(c[0] for c in _COLUMNS), "cache", "goals"),
        rows=[_result(row) for row in rows],
        tones=[_VERDICTS[row.goals] if row.goals else "plain" for row in rows],
        note=" ".join(notes),
        marked=best,
    )


def _result(row: ResultRow) -> Sequence[str]:
    name = row.name or "all"
    if row.state is not CellState.MEASURED:
        return (name, str(row.state), *[""] * (len(_COLUMNS) + 1), "-")
    numbers = [_number(metric, getattr(row, field)) for _, field, metric in _COLUMNS]
    counts = f"{row.ok:,}/{row.issued:,}"
    return (name, counts, *numbers, row.cache or "-", str(row.goals or "-"))


def _number(metric: str, found: Aggregate | None) -> str:
    return goal_value(metric, found.mean, found.half_width) if found else "-"


def _concerns(summary: SummaryDocument) -> list[str]:
    """What a reader of the table must know: failed cells, doubts about the numbers, the cache."""
    said = []
    for cell in summary.cells:
        name = cell.name or "all"
        if cell.message:
            said.append(f"{name}: {cell.message}")
        if cell.summary:
            said += [f"{name}: {concern.message}" for concern in cell.summary.concerns]
    return said


def _worth_a_part(summary: SummaryDocument) -> list[CellOutcome]:
    """All cells, or those that failed, the best one and the first others."""
    if len(summary.cells) <= _MOST_PARTS:
        return list(summary.cells)

    def rank(cell: CellOutcome) -> tuple[bool, bool, int]:
        tone = state_badge(cell).tone
        return tone != "bad", cell.index != summary.verdict.best, cell.index

    kept = sorted(summary.cells, key=rank)[:_MOST_PARTS]
    return sorted(kept, key=lambda cell: cell.index)


def _notes(results: RunResults) -> list[str]:
    """What the verdicts on the cache take for granted; each once."""
    caches = [trial.record.cache for trial in results.trials]
    return list(dict.fromkeys(a for cache in caches if cache for a in cache.assumptions))


def _manifest(run: Mapping[str, Any]) -> str:
    """The manifest as it can be applied again, without the values of headers and environment."""
    metadata = run.get("metadata") or {}
    kept = {name: metadata[name] for name in ("name", "namespace", "labels") if name in metadata}
    document = {
        "apiVersion": run.get("apiVersion", ""),
        "kind": run.get("kind", ""),
        "metadata": kept,
        "spec": without_values(run.get("spec") or {}),
    }
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=100)
    return text
