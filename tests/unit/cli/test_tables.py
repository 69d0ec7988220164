from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from support.summaries import GOALS, cells, failed, measured, summary
from tare.cli.tables import show_results
from tare.measure.goals import Goal
from tare.results.goals import goal_text
from tare.results.table import result_rows

if TYPE_CHECKING:
    from tare.results.document import SummaryDocument


def shown(document: SummaryDocument, width: int = 120) -> str:
    console = Console(file=io.StringIO(), width=width)
    with console.capture() as capture:
        show_results(console, document, result_rows(document))
    return capture.get()


def sweep() -> SummaryDocument:
    """Three measured cells of three trials, and one that failed."""
    records = [
        measured(cell, trial, scale=1 + cell + trial / 10)
        for cell in range(3)
        for trial in range(3)
    ]
    return summary(*records, failed(3), cells_of=cells(4, trials=3))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_the_tables_fit_into_the_terminal(width: int) -> None:
    named = [replace(cell, name=f"{cell.name} and a name that is long") for cell in cells(4)]
    document = summary(*[measured(cell) for cell in range(4)], cells_of=named)
    for text in (shown(sweep(), width), shown(document, width)):
        assert max(map(len, text.splitlines())) <= width
        assert "…" not in text, "a number is cut off"


def test_a_row_has_counts_latencies_with_intervals_throughput_and_the_verdict() -> None:
    row = next(line for line in shown(sweep()).splitlines() if line.strip().startswith("rate=4"))
    assert row.split() == [
        *("rate=4", "*", "3", "294/300"),
        *("99", "±22", "220", "±50", "1,100", "±248", "2,200", "±497"),
        *("1,600", "±0", "12.5", "±0", "-", "Pass"),
    ]


def test_at_80_columns_counts_tail_and_verdict_stay() -> None:
    text = shown(sweep(), 80)
    for part in ("issued", "294/300", "TTFT p99", "220 ±50", "Pass", "Fail"):
        assert part in text
    assert "TTFT p50" not in text


def test_a_single_trial_shows_no_interval() -> None:
    text = shown(summary(measured(0), cells_of=cells(1)))
    assert "±" not in text
    assert "best cell" not in text


def test_a_failed_cell_says_why_below_the_table() -> None:
    assert "rate=16: qwen-1 answered 404: VLLM_SERVER_DEV_MODE=1 is not set" in shown(sweep())


def test_every_goal_is_shown_with_the_cell_that_is_furthest_from_it() -> None:
    lines = [line.split() for line in shown(sweep()).splitlines()]
    [latency_goal] = [line for line in lines if line[:2] == ["time_to_first_token", "p99"]]
    assert latency_goal[2:] == ["≤", "250", "ms", "620", "ms", "rate=12", "1/4", "Fail"]


def test_a_goal_is_not_passed_while_a_cell_is_not_measured() -> None:
    document = summary(measured(0), failed(1), cells_of=cells(2))
    [line] = [line for line in shown(document).splitlines() if "request_throughput ≥ 3" in line]
    assert line.split()[-2:] == ["1/2", "Unknown"]


def test_a_run_without_goals_has_no_table_of_goals() -> None:
    assert "Verdict" not in shown(summary(measured(0), cells_of=cells(1), goals=()))


@pytest.mark.parametrize(
    ("goal", "text"),
    [
        (GOALS[0], "time_to_first_token p99 ≤ 250 ms"),
        (GOALS[1], "request_throughput ≥ 3"),
        (Goal(metric="error_rate", max=0.01), "error_rate ≤ 1 %"),
    ],
)
def test_a_goal_reads_as_people_write_it(goal: Goal, text: str) -> None:
    assert goal_text(goal) == text
