"""Summaries of runs with believable numbers, for tests of tables and exports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from support.trials import OWNER, trial_summary
from tare.api.reasons import CellState, Reason
from tare.api.spec import BenchmarkRunSpec
from tare.decide.outcome import outcome_of
from tare.decide.records import Cell, TrialRecord
from tare.measure.goals import Goal
from tare.results.summary import summarize_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.results.document import SummaryDocument

__all__ = ["GOALS", "cells", "failed", "measured", "summary"]

GOALS = (
    Goal(metric="time_to_first_token", statistic="p99", max=0.25),
    Goal(metric="request_throughput", min=3.0),
)


def cells(number: int, *, trials: int = 1) -> tuple[Cell, ...]:
    """Cells at 4, 8, 12 … requests per second."""
    spec = BenchmarkRunSpec.model_validate_json(
        json.dumps(
            {
                "endpoint": {"service": {"name": "qwen", "port": 8000}, "model": "Qwen/Qwen3-8B"},
                "dataset": {"type": "synthetic", "prompts": {"isl": 512, "osl": 128}},
                "phases": [
                    {
                        "name": "profiling",
                        "kind": "profiling",
                        "type": "constant",
                        "rate": 4,
                        "requests": 100,
                    }
                ],
                "trials": {"count": trials},
            }
        )
    )
    return tuple(
        Cell(
            index=index,
            name=f"rate={4 * (index + 1)}",
            overrides={"phases.profiling.rate": 4 * (index + 1)},
            spec=spec,
        )
        for index in range(number)
    )


def measured(cell: int, trial: int = 0, *, scale: float = 1.0, **fields: Any) -> TrialRecord:
    """A trial that was measured; latencies grow with `scale`."""
    defaults: dict[str, Any] = {"reset": "Confirmed", "summary": trial_summary(scale)}
    return TrialRecord(
        cell=cell,
        trial=trial,
        attempt=1,
        state=CellState.MEASURED,
        reason=Reason.AS_ASKED,
        message="",
        **{**defaults, **fields},
    )


def failed(cell: int, trial: int = 0) -> TrialRecord:
    """A trial whose reset was refused."""
    return TrialRecord(
        cell=cell,
        trial=trial,
        attempt=1,
        state=CellState.FAILED,
        reason=Reason.RESET_REFUSED,
        message="qwen-1 answered 404: VLLM_SERVER_DEV_MODE=1 is not set",
    )


def summary(
    *records: TrialRecord, cells_of: Sequence[Cell], goals: Sequence[Goal] = GOALS
) -> SummaryDocument:
    """The summary of a run that ended with `records`."""
    outcomes = {
        cell.index: outcome_of(cell, found, goals)
        for cell in cells_of
        if (found := [record for record in records if record.cell == cell.index])
    }
    return summarize_run(
        OWNER, model="Qwen/Qwen3-8B", cells=cells_of, outcomes=outcomes, goals=goals
    )
