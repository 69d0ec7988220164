"""Ends of trials with believable numbers, for tests of what becomes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, Reason
from tare.decide.records import TrialRecord
from tare.manifests.metadata import Owner
from tare.measure.hooks import CallOutcome, HookCall, HookKind, Replica
from tare.measure.trial import ClientHealth, TrialSummary
from tare.results.document import TrialDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["OWNER", "trial_document", "trial_summary"]

OWNER = Owner(name="qwen", namespace="bench", uid="6ba7b810-9dad-11d1-80b4-00c04fd430c8")


def trial_summary(scale: float = 1.0, *, failed: int = 2) -> TrialSummary:
    """A hundred requests; latencies grow with `scale`."""
    metrics: Mapping[str, Mapping[str, float]] = {
        "time_to_first_token": {"mean": 0.1 * scale, "p50": 0.09 * scale, "p99": 0.2 * scale},
        "request_latency": {"mean": 1.1 * scale, "p50": 1.0 * scale, "p99": 2.0 * scale},
        "request_throughput": {"mean": 12.5},
        "output_token_throughput": {"mean": 1600.0},
        "error_rate": {"mean": failed / 100},
    }
    return TrialSummary(
        phases=(),
        counts={"issued": 100, "ok": 100 - failed, "failed": failed},
        metrics=metrics,
        client=ClientHealth(workers=1, event_loop_lag_p99=0.0004, cpu_seconds=1.5),
    )


def trial_document(
    cell: int = 0, trial: int = 0, attempt: int = 1, *, owner: Owner = OWNER, **record: Any
) -> TrialDocument:
    """A measured trial; `record` overrides fields of its `TrialRecord`."""
    fields: dict[str, Any] = {
        "state": CellState.MEASURED,
        "reason": Reason.AS_ASKED,
        "message": "",
        "summary": trial_summary(),
        "reset": "Confirmed",
        **record,
    }
    return TrialDocument(
        run=owner,
        cell_name="rate=4",
        overrides={"phases.profiling.rate": 4},
        record=TrialRecord(cell=cell, trial=trial, attempt=attempt, **fields),
        hooks=(
            HookCall(
                hook=HookKind.RESET,
                replica="qwen-0",
                origin="http://127.0.0.2:8000",
                attempt=1,
                status=200,
                seconds=0.004,
                outcome=CallOutcome.CONFIRMED,
            ),
        ),
        replicas=(Replica(uid="u0", name="qwen-0", origin="http://127.0.0.2:8000"),),
        start_skew={"profiling": 0.0012},
    )
