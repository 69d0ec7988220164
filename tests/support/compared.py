"""Trials and runs with single requests, for tests of comparisons."""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean
from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, Reason
from tare.decide.acceptance import Accepted, accept
from tare.decide.outcome import goals_of, outcome_of
from tare.decide.records import TrialRecord
from tare.manifests.metadata import Owner
from tare.measure.cache import CacheVerdict, CacheWord
from tare.measure.messages import PhaseResult
from tare.measure.rows import COLUMNS, MOST_ROWS, OUTCOMES, Rows
from tare.measure.side import Side
from tare.measure.trial import ClientHealth, TrialSummary
from tare.net.allowlist import AllowList
from tare.results.document import RunResults, TrialDocument
from tare.results.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.measure.concerns import Concern

__all__ = ["PROMPTS", "run", "side", "spec", "trial"]

PROMPTS = {"type": "synthetic", "entries": 1000, "seed": 7}


def trial(
    ttft: Sequence[float | None],
    *,
    output_tokens: int = 10,
    rows: int = MOST_ROWS,
    concerns: Sequence[Concern] = (),
    throughput: float = 10.0,
) -> TrialSummary:
    """Requests with these times to first token in ms, one each 0.1 s; None stands for a failure.

    A token takes 10 ms. At most `rows` of them are kept one by one.
    """
    ok = [ms for ms in ttft if ms is not None]
    seconds = sorted(ms / 1000 for ms in ok)
    latencies = [first + 0.01 * (output_tokens - 1) for first in seconds]
    counts = {"issued": len(ttft), "ok": len(ok), "failed": len(ttft) - len(ok)}
    metrics = {
        "output_tokens": {"mean": float(output_tokens)},
        "request_throughput": {"mean": throughput},
        "error_rate": {"mean": 1 - len(ok) / len(ttft)},
    }
    for name, values in (("time_to_first_token", seconds), ("request_latency", latencies)):
        middle, last = values[len(values) // 2], values[-1]
        metrics[name] = {"mean": fmean(values), "p50": middle, "p99": last}
    return TrialSummary(
        phases=(
            PhaseResult(
                name="profiling",
                kind="profiling",
                planned_seconds=None,
                seconds=len(ttft) / 10,
                drain_seconds=0.0,
                counts=counts,
                rows=_rows(ttft, output_tokens, rows) if rows else {},
            ),
        ),
        counts=counts,
        metrics=metrics,
        client=ClientHealth(workers=1),
        concerns=tuple(concerns),
    )


def side(*trials: TrialSummary, cache: Reason | None = Reason.AS_PLANNED, seed: int = 7) -> Side:
    """One side of a comparison."""
    return Side(trials=trials, cache=cache, prompts={**PROMPTS, "seed": seed})


def spec(**fields: Any) -> dict[str, Any]:
    """A run of one profiling phase; keyword arguments override fields."""
    return {
        "endpoint": {"service": {"name": "qwen", "port": 8000}, "model": "Qwen/Qwen3-8B"},
        "dataset": {"prompts": {"isl": 64, "osl": 10}, "seed": 7},
        "phases": [
            {
                "name": "profiling",
                "kind": "profiling",
                "type": "constant",
                "rate": 10,
                "requests": 100,
            }
        ],
        **fields,
    }


def run(
    *cells: Sequence[TrialSummary],
    name: str = "before",
    target: Mapping[str, Any] | None = None,
    cache: Reason = Reason.AS_PLANNED,
    **fields: Any,
) -> RunResults:
    """A finished run: of each cell its trials, none for one that failed."""
    owner = Owner(name=name, namespace="bench", uid=f"uid-{name}")
    trials = {"count": max(1, *(len(found) for found in cells))}
    document = {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": name, "namespace": "bench", "uid": owner.uid,
                     "creationTimestamp": "2026-11-30T10:00:00Z"},
        "spec": spec(trials=trials, **fields),
        "status": {"target": target or {}},
    }  # fmt: skip
    accepted = accept(document, allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted), accepted.problems
    goals = goals_of(accepted.spec)
    records = [
        record
        for cell, found in zip(accepted.cells, cells, strict=True)
        for record in _records(cell.index, found, cache)
    ]
    outcomes = {
        cell.index: outcome_of(cell, [r for r in records if r.cell == cell.index], goals)
        for cell in accepted.cells
    }
    model = accepted.spec.endpoint.model
    return RunResults(
        run=document,
        summary=summarize_run(
            owner, model=model, cells=accepted.cells, outcomes=outcomes, goals=goals
        ),
        trials=tuple(
            TrialDocument(
                run=owner,
                cell_name=accepted.cells[record.cell].name,
                overrides=accepted.cells[record.cell].overrides,
                record=record,
                dataset=PROMPTS,
            )
            for record in records
        ),
    )


def _records(cell: int, trials: Sequence[TrialSummary], cache: Reason) -> list[TrialRecord]:
    word = CacheWord.AS_PLANNED if cache is Reason.AS_PLANNED else CacheWord.UNVERIFIED
    first = TrialRecord(
        cell=cell,
        trial=0,
        attempt=1,
        state=CellState.FAILED,
        reason=Reason.RESET_REFUSED,
        message="the server answered 404",
    )
    if not trials:
        return [first]
    return [
        replace(
            first,
            trial=number,
            state=CellState.MEASURED,
            reason=Reason.AS_ASKED,
            message="",
            summary=summary,
            reset="Confirmed",
            cache=CacheVerdict(verdict=word, reason=cache, message=""),
        )
        for number, summary in enumerate(trials)
    ]


def _rows(ttft: Sequence[float | None], output_tokens: int, most: int) -> dict[str, Any]:
    columns: dict[str, list[int]] = {name: [0] * len(ttft) for name in COLUMNS}
    columns["number"] = columns["entry"] = list(range(len(ttft)))
    columns["due"] = [100_000 * number for number in range(len(ttft))]
    first = [-1 if ms is None else round(ms * 1000) for ms in ttft]
    columns["time_to_first_token"] = first
    columns["latency"] = [-1 if us < 0 else us + 10_000 * (output_tokens - 1) for us in first]
    columns["output_tokens"] = [output_tokens] * len(ttft)
    columns["outcome"] = [
        OUTCOMES.index("ok") if ms is not None else OUTCOMES.index("error") for ms in ttft
    ]
    rows = Rows(most)
    rows.add_all([columns[name] for name in COLUMNS])
    return rows.to_json()
