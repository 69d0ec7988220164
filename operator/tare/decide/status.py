"""Rendering `status`: phase, progress, rows and conditions from what a pass found.

Everything here is derived anew in each pass but `startTime`, `finishTime` and the conditions'
transition times. Nothing is read back to decide, except `current`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api import names
from tare.api.reasons import CellState, ConditionType, Reason, RunPhase
from tare.decide.attempt import ProfilerState
from tare.decide.conditions import timestamp
from tare.decide.facts import OpKind
from tare.decide.outcome import CellOutcome, goals_of, judge_outcomes, weakest_cache
from tare.decide.rows import row, select_rows
from tare.measure.hooks import PreflightReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.decide.draft import Draft
    from tare.decide.ending import End
    from tare.measure.goals import RunVerdict
    from tare.measure.hooks import Replica

__all__ = ["render"]

_MAX_REPLICAS = 64
_WARM = (Reason.RESET_INCOMPLETE, Reason.CONTAMINATED, Reason.WARM_CACHE)
"""More was cached than planned; everything else that is not as planned is only not known."""
_VERDICT = {True: "Met", False: "Missed", None: "Unknown"}
_REGRESSION = {"True": "NotFound", "False": "Found", "Unknown": "Unknown"}
"""By the status of the condition that denies it."""


def render(draft: Draft, end: End | None, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Build the whole next `status`."""
    finished = draft.conditions.is_true(ConditionType.FINISHED)
    outcomes = _outcomes(draft, finished=finished)
    verdict = judge_outcomes(goals_of(draft.run.spec), outcomes)
    _judge_conditions(draft, outcomes, verdict)
    phase = _phase(draft, end, finished=finished)
    began = draft.attempt is not None or draft.facts.records or draft.run.start_time is not None
    status: dict[str, Any] = {
        "phase": str(phase),
        "observedGeneration": draft.run.generation,
        "operator": stored.get("operator"),
        "startTime": stored.get("startTime") or (timestamp(draft.facts.now) if began else None),
        "finishTime": stored.get("finishTime")
        or (timestamp(draft.facts.now) if finished else None),
        "conditions": draft.conditions.to_json(),
        "progress": _progress(draft, outcomes),
        "cells": [row(o) for o in select_rows(outcomes, verdict.best, draft.attempt)],
        "current": draft.attempt.to_json() if draft.attempt and not finished else None,
        "summary": _summary(draft, outcomes, verdict),
        "results": _results(draft),
        "target": _target(draft, stored.get("target")),
    }
    reason = _reason(draft, end)
    if reason:
        status["reason"] = str(reason)
    return {key: value for key, value in status.items() if value is not None}


def _outcomes(draft: Draft, *, finished: bool) -> list[CellOutcome]:
    """All cells; those without an end are pending, running, or skipped once the run is over."""
    current = draft.attempt.key.cell if draft.attempt else None
    found = []
    for cell in draft.run.cells:
        known = draft.facts.outcomes.get(cell.index)
        pending = known is None or known.state is CellState.PENDING
        if not pending and known is not None:
            found.append(known)
            continue
        state = CellState.SKIPPED if finished else CellState.PENDING
        if cell.index == current and not finished:
            state = CellState.RUNNING
        found.append(
            CellOutcome(
                index=cell.index,
                name=cell.name,
                overrides=cell.overrides,
                state=state,
                trials_done=known.trials_done if known else 0,
            )
        )
    return found


def _phase(draft: Draft, end: End | None, *, finished: bool) -> RunPhase:
    if end is not None and (finished or end.resumable):
        return end.phase
    if draft.attempt is None and draft.facts.blocker:
        return RunPhase.WAITING
    if draft.attempt is None and not draft.facts.records:
        return RunPhase.PENDING
    preparing = draft.attempt is None or draft.attempt.reset is None
    return RunPhase.PREPARING if preparing and not draft.facts.records else RunPhase.RUNNING


def _reason(draft: Draft, end: End | None) -> Reason | None:
    if end is not None:
        return end.reason
    verdict = draft.attempt.verdict if draft.attempt else None
    return verdict.reason if verdict and verdict.state is not CellState.MEASURED else None


def _progress(draft: Draft, outcomes: Sequence[CellOutcome]) -> dict[str, Any]:
    done = [o for o in outcomes if o.state not in (CellState.PENDING, CellState.RUNNING)]
    failed = [o for o in done if o.state is not CellState.MEASURED]
    share = _share(draft)
    progress: dict[str, Any] = {
        "cells": f"{len(done)}/{len(outcomes)}",
        "cellsDone": len(done),
        "cellsTotal": len(outcomes),
        "percent": int(100 * share),
    }
    if failed:
        progress["cellsFailed"] = len(failed)
    if draft.attempt is not None:
        workers = draft.facts.workers.get(draft.attempt.key, {})
        progress["cell"] = draft.run.cells[draft.attempt.key.cell].name
        progress["trial"] = draft.attempt.key.trial
        progress["phase"] = draft.doing
        progress["requests"] = sum(worker.issued for worker in workers.values())
    if draft.run.start_time is not None and 0 < share < 1:
        elapsed = max(0.0, draft.facts.now - draft.run.start_time)
        progress["etaSeconds"] = int(elapsed / share * (1 - share))
    return progress


def _target(draft: Draft, stored: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """What ran behind the numbers: found by the preflight and at the last reset."""
    target = dict(stored or {})
    preflight = draft.look(OpKind.PREFLIGHT) if draft.attempt is not None else None
    report = preflight.result if preflight is not None else None
    if isinstance(report, PreflightReport) and report.ok:
        target["address"] = report.address
        if report.server_version:
            target["serverVersion"] = report.server_version
    if draft.replicas:
        target["replicas"] = [_replica(replica) for replica in draft.replicas[:_MAX_REPLICAS]]
    return target or None


def _replica(replica: Replica) -> dict[str, Any]:
    row: dict[str, Any] = {"name": replica.name}
    if replica.node:
        row["node"] = replica.node
    if replica.image:
        row["image"] = replica.image
    if replica.restarts:
        row["restarts"] = replica.restarts
    return row


def _share(draft: Draft) -> float:
    """Part of the schedule that is over: measured, or of a cell that is not measured further."""
    records = draft.facts.records
    lost = {record.cell for record in records.values() if record.state is not CellState.MEASURED}
    over = [place for place in draft.run.schedule if place in records or place[0] in lost]
    return len(over) / max(len(draft.run.schedule), 1)


def _summary(
    draft: Draft, outcomes: Sequence[CellOutcome], verdict: RunVerdict
) -> dict[str, Any] | None:
    summary: dict[str, Any] = {}
    if no_regression := draft.conditions.get(ConditionType.NO_REGRESSION):
        summary["regression"] = _REGRESSION[no_regression["status"]]
    if verdict.reason is not Reason.NO_GOALS:
        summary["goals"] = _VERDICT[verdict.met]
    if verdict.best is not None:
        summary["bestCell"] = outcomes[verdict.best].name
    return summary or None


def _results(draft: Draft) -> dict[str, Any] | None:
    if not draft.facts.records:
        return None
    results: dict[str, Any] = {
        "selector": f"{names.LABEL_RUN_UID}={draft.run.uid}",
        "stored": len(draft.facts.records),
    }
    if draft.facts.summary_name:
        results["summary"] = draft.facts.summary_name
    return results


def _judge_conditions(draft: Draft, outcomes: Sequence[CellOutcome], verdict: RunVerdict) -> None:
    """Conditions about the results so far."""
    if not draft.facts.records:
        return
    draft.condition(ConditionType.GOALS_MET, verdict.met, verdict.reason, verdict.message)
    stored = len(draft.facts.records)
    draft.condition(
        ConditionType.RESULTS_PUBLISHED, True, Reason.PUBLISHED, f"{stored} trials stored"
    )
    measured = [o for o in outcomes if o.summary is not None]
    if measured:
        _soundness(draft, measured)
        _cache(draft, measured)


def _soundness(draft: Draft, measured: Sequence[CellOutcome]) -> None:
    if text := _profiler_left_on(draft):
        reason = Reason.PROFILER_STOP_FAILED
        draft.condition(ConditionType.MEASUREMENT_SOUND, False, reason, text)
        return
    found: dict[Reason, str] = {}
    for outcome in measured:
        for concern in outcome.summary.concerns if outcome.summary else ():
            found.setdefault(concern.reason, f"cell {outcome.index}: {concern.message}")
    if found:
        # One of each kind: the first must not hide that there is another.
        reason, text = next(iter(found)), " ".join(found.values())
        draft.condition(ConditionType.MEASUREMENT_SOUND, False, reason, text)
        return
    draft.condition(ConditionType.MEASUREMENT_SOUND, True, Reason.NO_ISSUES)


def _profiler_left_on(draft: Draft) -> str:
    """Say where a profiler could not be stopped: now, or in a trial of any cell, lost or not."""
    mark = draft.attempt.profiler if draft.attempt else None
    if mark is not None and mark.state is ProfilerState.STOP_FAILED:
        return mark.message
    cells = [str(o.index) for o in draft.facts.outcomes.values() if o.profiler_failed]
    where = f"cell {', '.join(cells[:10])}"
    return f"{where}: a server's profiler could not be stopped" if cells else ""


def _cache(draft: Draft, measured: Sequence[CellOutcome]) -> None:
    """Say whether every trial found the cache that was planned: as bad as the worst cell."""
    reason = weakest_cache([outcome.cache for outcome in measured])
    if reason is None:
        return
    found = [outcome for outcome in measured if outcome.cache is reason]
    if reason is Reason.AS_PLANNED:
        text = "every trial found the cached prompt tokens that were planned"
        draft.condition(ConditionType.CACHE_AS_PLANNED, True, reason, text)
        return
    cells = ", ".join(str(outcome.index) for outcome in found[:10])
    value = False if reason in _WARM else None
    text = f"cell {cells}: {found[0].cache_message}"
    draft.condition(ConditionType.CACHE_AS_PLANNED, value, reason, text)
