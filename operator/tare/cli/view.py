"""What a person watching a run wants to know, read from its status and its live metrics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from prometheus_client.parser import text_string_to_metric_families

from tare.api.reasons import ConditionType, RunPhase

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["RunView", "view_of", "with_live"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """One moment of a run."""

    phase: str = RunPhase.PENDING
    message: str = ""
    """Of the condition that ended the run, or keeps it from starting."""
    finished: bool = False
    cells_done: int = 0
    cells_total: int = 0
    cells_failed: int = 0
    cell: str = ""
    trial: int = 0
    doing: str = ""
    """The phase of load under way, or what is waited for."""
    fraction: float | None = None
    eta_seconds: float | None = None
    issued: int = 0
    ok: int = 0
    failed: int = 0
    in_flight: int = 0
    ttft_p50: float | None = None
    ttft_p99: float | None = None


def view_of(status: Mapping[str, Any]) -> RunView:
    """Reduce the stored status of a run; an empty one is a run that nobody has seen yet."""
    progress = status.get("progress") or {}
    conditions = {c["type"]: c for c in status.get("conditions") or ()}
    finished = conditions.get(ConditionType.FINISHED, {})
    percent = progress.get("percent")
    return RunView(
        phase=status.get("phase") or RunPhase.PENDING,
        message=_message(conditions),
        finished=finished.get("status") == "True",
        cells_done=progress.get("cellsDone", 0),
        cells_total=progress.get("cellsTotal", 0),
        cells_failed=progress.get("cellsFailed", 0),
        cell=progress.get("cell", ""),
        trial=progress.get("trial", 0),
        doing=progress.get("phase", ""),
        fraction=None if percent is None else percent / 100,
        eta_seconds=progress.get("etaSeconds"),
    )


def with_live(view: RunView, exposition: str, *, namespace: str, run: str) -> RunView:
    """Add the live numbers of the run from the operator's metrics, where there are any.

    Those of a phase that is over stay exported until the next one begins; they are left out.
    """
    here = {"namespace": namespace, "run": run, "cell": view.cell, "phase": view.doing}.items()
    found = {
        (sample.name, sample.labels.get("state") or sample.labels.get("statistic")): sample.value
        for family in text_string_to_metric_families(exposition)
        for sample in family.samples
        if here <= sample.labels.items()
    }
    if ("tare_live_in_flight", None) not in found:
        return view
    return replace(
        view,
        issued=int(found.get(("tare_live_requests", "issued"), 0)),
        ok=int(found.get(("tare_live_requests", "ok"), 0)),
        failed=int(found.get(("tare_live_requests", "failed"), 0)),
        in_flight=int(found["tare_live_in_flight", None]),
        ttft_p50=found.get(("tare_live_time_to_first_token_seconds", "p50")),
        ttft_p99=found.get(("tare_live_time_to_first_token_seconds", "p99")),
    )


def _message(conditions: Mapping[str, Mapping[str, Any]]) -> str:
    """The sentence that says why the run ended, or why it does not go on."""
    if ConditionType.FINISHED in conditions:
        return str(conditions[ConditionType.FINISHED].get("message", ""))
    for kind in (ConditionType.ACCEPTED, ConditionType.TARGET_READY, ConditionType.WORKERS_READY):
        condition = conditions.get(kind, {})
        if condition.get("status") == "False":
            return str(condition.get("message", ""))
    return ""
