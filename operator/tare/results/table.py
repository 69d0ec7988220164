"""The result table as plain rows: one for each cell, counts beside every latency.

What is shown where (a terminal, CSV, a report) is up to the reader of these rows; which numbers
belong together is decided here, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.api.reasons import CellState, Reason
from tare.measure.cell import Aggregate
from tare.measure.goals import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.decide.outcome import CellOutcome
    from tare.measure.goals import GoalVerdict
    from tare.results.document import SummaryDocument

__all__ = ["ResultRow", "result_rows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultRow:
    """Numbers of one cell; None where there are none. Latencies in seconds."""

    index: int
    name: str
    state: CellState
    message: str
    """Why there are no numbers."""
    cache: Reason | None
    """Whether the trials found the cache that was planned; None when none was measured."""
    trials: int
    issued: int
    ok: int
    failed: int
    """Issued and not ok: failed, timed out, incomplete or cancelled, but not on purpose."""
    ttft_p50: Aggregate | None
    ttft_p99: Aggregate | None
    latency_p50: Aggregate | None
    latency_p99: Aggregate | None
    tokens_per_second: Aggregate | None
    requests_per_second: Aggregate | None
    goals: Verdict | None
    """Of all goals together; None without goals or numbers."""
    is_best: bool


def result_rows(summary: SummaryDocument) -> list[ResultRow]:
    """Lay out the cells of a run in their order."""
    return [_row(cell, is_best=cell.index == summary.verdict.best) for cell in summary.cells]


def _row(cell: CellOutcome, *, is_best: bool) -> ResultRow:
    measured = cell.summary
    counts = measured.counts if measured else {}
    issued, ok = counts.get("issued", 0), counts.get("ok", 0)

    def value(metric: str, statistic: str = "mean") -> Aggregate | None:
        return measured.aggregate(metric, statistic) if measured else None

    return ResultRow(
        index=cell.index,
        name=cell.name,
        state=cell.state,
        message=cell.message,
        cache=cell.cache,
        trials=measured.trials if measured else 0,
        issued=issued,
        ok=ok,
        failed=issued - ok - counts.get("planned_cancel", 0),
        ttft_p50=value("time_to_first_token", "p50"),
        ttft_p99=value("time_to_first_token", "p99"),
        latency_p50=value("request_latency", "p50"),
        latency_p99=value("request_latency", "p99"),
        tokens_per_second=value("output_token_throughput"),
        requests_per_second=value("request_throughput"),
        goals=_verdict(cell.goals),
        is_best=is_best,
    )


def _verdict(goals: Sequence[GoalVerdict]) -> Verdict | None:
    """The worst of several verdicts."""
    found = {goal.verdict for goal in goals}
    worst_first = (Verdict.FAIL, Verdict.UNKNOWN, Verdict.PASS)
    return next((verdict for verdict in worst_first if verdict in found), None)
