"""Whole results of a run, with requests and histograms, for tests of reports and archives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from support.measured import MS, histogram, phase_result
from support.summaries import GOALS, cells, measured, summary
from support.trials import OWNER, trial_document, trial_summary
from tare.measure.rows import COLUMNS, Rows
from tare.results.document import RunResults

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.decide.records import TrialRecord
    from tare.measure.messages import PhaseResult

__all__ = ["loaded", "run_document", "run_results"]

_REQUESTS = 200
_PRIME = 73
"""Steps of this size reach every request once, in an order without a trend."""


def loaded(
    cell: int, trial: int = 0, *, scale: float = 1.0, steady: bool = False, **fields: Any
) -> TrialRecord:
    """A measured trial of 200 requests in ten seconds, each slower than the one before.

    A `steady` one has the same requests in another order.
    """
    numbers = trial_summary(scale)
    phase = _phase(scale, stride=_PRIME if steady else 1)
    record = measured(cell, trial, summary=replace(numbers, phases=(phase,)))
    return replace(record, **fields)


def run_document(**status: Any) -> dict[str, Any]:
    """A run that is over; keyword arguments override fields of its status."""
    return {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": OWNER.name, "namespace": OWNER.namespace, "uid": OWNER.uid},
        "spec": {
            "endpoint": {
                "service": {"name": "qwen", "port": 8000},
                "model": "Qwen/Qwen3-8B",
                "server": "vllm",
            },
            "trials": {"count": 1},
        },
        "status": {
            "phase": "Succeeded",
            "startTime": "2026-11-30T10:00:00Z",
            "finishTime": "2026-11-30T10:02:05Z",
            "conditions": [
                {"type": "Finished", "status": "True", "message": "2 of 2 cells measured"},
                {"type": "GoalsMet", "status": "False", "reason": "GoalsMissed", "message": "…"},
            ],
            **status,
        },
    }


def run_results(
    *records: TrialRecord, number: int = 2, trials: int = 1, run: dict[str, Any] | None = None
) -> RunResults:
    """The results of a run of `number` cells; two measured ones unless `records` say otherwise."""
    records = records or (loaded(0), loaded(1, scale=2.0))
    return RunResults(
        run=run or run_document(),
        summary=summary(*records, cells_of=cells(number, trials=trials), goals=GOALS),
        trials=tuple(_document(record) for record in records),
    )


def _document(record: TrialRecord) -> Any:
    return replace(trial_document(record.cell, record.trial), record=record)


def _phase(scale: float, stride: int) -> PhaseResult:
    places = [number * stride % _REQUESTS for number in range(_REQUESTS)]
    firsts = [round((50 + place) * scale) * MS for place in places]
    return phase_result(
        counts={"issued": _REQUESTS, "ok": _REQUESTS},
        errors={"http_500": 2},
        error_samples={"http_500": "out of <memory>"},
        histograms={
            "time_to_first_token": histogram(firsts),
            "request_latency": histogram([3 * first for first in firsts]),
        },
        rows=_rows(firsts),
    )


def _rows(firsts: Sequence[int]) -> dict[str, Any]:
    columns: dict[str, list[int]] = {name: [0] * len(firsts) for name in COLUMNS}
    columns["number"] = columns["entry"] = list(range(len(firsts)))
    columns["due"] = [50_000 * number for number in range(len(firsts))]
    columns["time_to_first_token"] = [first // 1000 for first in firsts]
    columns["latency"] = [3 * first // 1000 for first in firsts]
    rows = Rows()
    rows.add_all([columns[name] for name in COLUMNS])
    return rows.to_json()
