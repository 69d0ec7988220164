"""Status: small, bounded, and readable by older and newer operators."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from tare.api.reasons import CellState, RunPhase
from tare.api.status import (
    MESSAGE_LIMIT,
    ROW_LIMIT,
    BenchmarkRunStatus,
    CellRow,
    Current,
    Headlines,
    Progress,
)

ESTIMATE = "0.12345 ±0.0123"


def measured_row(index: int) -> CellRow:
    """A row as full as a measured cell's gets, with three trials and two axes."""
    return CellRow(
        index=index,
        name=f"rate={index},isl=512",
        state=CellState.MEASURED,
        trials_done=3,
        metrics=Headlines(
            time_to_first_token_p50=ESTIMATE,
            time_to_first_token_p99=ESTIMATE,
            request_latency_p99=ESTIMATE,
            request_throughput="12.345 ±0.12",
            output_token_throughput="1234.5 ±12.3",
            error_rate="0 ±0",
        ),
        goals="Met",
    )


def size_of(document: Any) -> int:
    return len(json.dumps(document, separators=(",", ":")))


def test_a_row_of_a_measured_cell_weighs_at_most_400_bytes() -> None:
    status = BenchmarkRunStatus(cells=(measured_row(99),))

    assert size_of(status.document()["cells"][0]) <= 400


def test_a_status_with_every_row_stays_below_64_kib() -> None:
    status = BenchmarkRunStatus(cells=tuple(measured_row(i) for i in range(ROW_LIMIT)))

    assert size_of(status.document()) < 64 * 1024


def test_a_status_holds_no_more_rows_than_its_limit() -> None:
    with pytest.raises(ValidationError, match="at most 100"):
        BenchmarkRunStatus(cells=tuple(measured_row(i) for i in range(ROW_LIMIT + 1)))


def test_a_message_is_bounded() -> None:
    with pytest.raises(ValidationError, match="at most 1024"):
        CellRow(index=0, name="a", state=CellState.FAILED, message="x" * (MESSAGE_LIMIT + 1))


def test_what_is_not_known_is_not_written() -> None:
    status = BenchmarkRunStatus(phase=RunPhase.PENDING, progress=Progress(cells_total=4))

    assert status.document() == {
        "phase": "Pending",
        "conditions": [],
        "cells": [],
        "progress": {"cellsDone": 0, "cellsTotal": 4, "cellsFailed": 0, "cells": "0/4"},
    }


def test_cells_done_and_in_all_stand_in_one_column() -> None:
    assert Progress(cells_done=3, cells_total=4).cells == "3/4"


def test_a_status_is_read_back_as_it_was_written() -> None:
    status = BenchmarkRunStatus(
        phase=RunPhase.RUNNING,
        cells=(measured_row(0),),
        current=Current(cell=0, trial=1, attempt=1, started_at=1.5),
        progress=Progress(cells_done=1, cells_total=2),
    )

    assert BenchmarkRunStatus.model_validate(status.document()) == status


def test_fields_of_a_newer_operator_are_passed_over() -> None:
    assert BenchmarkRunStatus.model_validate({"phase": "Running", "later": 1}).phase == "Running"
