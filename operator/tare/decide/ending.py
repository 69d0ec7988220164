"""Ends of a run: finished, cancelled, suspended, out of time, deleted.

Each is derived anew in every pass, so it does not matter when it was asked for. The terminal status
is the last write of a run: Kopf stops the run's daemon as soon as it sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.api.names import FINALIZER_PROFILER
from tare.api.reasons import CellState, ConditionType, Reason, RunPhase
from tare.decide.actions import DeleteJob, RemoveProfilerFinalizer, StartOp
from tare.decide.baseline import is_compared
from tare.decide.facts import Op, OpKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tare.decide.children import TrialKey
    from tare.decide.draft import Draft
    from tare.decide.records import TrialRecord

__all__ = ["End", "end_of", "finish", "remaining", "stop_reason", "sweep_jobs"]

_ON_THE_WAY = {
    ConditionType.TARGET_READY: True,
    ConditionType.WORKERS_READY: True,
    ConditionType.PROFILING: False,
}
"""Conditions of a run that goes on, with the value that says nothing about a finished one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """Why no further trial is started."""

    phase: RunPhase
    reason: Reason
    message: str
    resumable: bool = False
    """Suspended: the attempt under way is repeated later."""
    deleted: bool = False


def stop_reason(draft: Draft) -> End | None:
    """Why the run must stop now, attempt under way or not; None to go on."""
    run = draft.run
    if run.deleting:
        return End(
            phase=RunPhase.CANCELLED, reason=Reason.CANCELLED, message="deleted", deleted=True
        )
    if draft.attempt is None and _all_measured(draft):
        return None
    if run.cancel:
        text = "cancelled by spec.cancel; results so far are kept"
        return End(phase=RunPhase.CANCELLED, reason=Reason.CANCELLED, message=text)
    if fatal := next((r for r in draft.facts.records.values() if r.fatal), None):
        return End(phase=RunPhase.FAILED, reason=fatal.reason, message=fatal.message)
    limit, start = run.deadline_seconds, run.start_time
    if limit is not None and start is not None and draft.facts.now - start > limit:
        text = f"activeDeadlineSeconds {limit:g} is over"
        return End(phase=RunPhase.FAILED, reason=Reason.DEADLINE_EXCEEDED, message=text)
    if run.suspend:
        text = "suspended by spec.suspend"
        return End(phase=RunPhase.SUSPENDED, reason=Reason.SUSPENDED, message=text, resumable=True)
    if run.spec.on_cell_failure == "Stop" and (failed := _failed(draft.facts.records.values())):
        text = f"cell {failed.cell} failed and onCellFailure is Stop: {failed.message}"
        return End(phase=RunPhase.FAILED, reason=failed.reason, message=text)
    return None


def remaining(draft: Draft) -> list[tuple[int, int]]:
    """Trials that are still to be measured, in order; a failed cell is not tried again."""
    records = draft.facts.records
    lost = {record.cell for record in records.values() if record.state is not CellState.MEASURED}
    return [
        (cell, trial)
        for cell, trial in draft.run.schedule
        if (cell, trial) not in records and cell not in lost
    ]


def end_of(draft: Draft) -> End:
    """The end of a run in which nothing is left to measure."""
    records = draft.facts.records
    failed = [r for r in records.values() if r.state is not CellState.MEASURED]
    total = len(draft.run.cells)
    if not failed:
        text = f"{total} of {total} cells measured"
        return End(phase=RunPhase.SUCCEEDED, reason=Reason.ALL_CELLS_MEASURED, message=text)
    lost = {record.cell for record in failed}
    first = min(failed, key=lambda record: (record.cell, record.trial))
    text = f"{len(lost)} of {total} cells failed; cell {first.cell}: {first.message}"
    phase = RunPhase.FAILED if len(lost) == total else RunPhase.PARTIALLY_FAILED
    reason = first.reason if len(lost) == total else Reason.CELLS_FAILED
    return End(phase=phase, reason=reason, message=text)


def finish(draft: Draft, end: End) -> bool:
    """Store the summary, compare, drop our finalizer, set the final conditions; True at last."""
    if sweep_jobs(draft, keep=()):
        return draft.wait("the workers' Jobs to go")
    if not end.deleted and not _stored(draft):
        return draft.wait("the summary to be stored")
    if not is_compared(draft, end):
        return draft.wait("the comparison with the baseline")
    if FINALIZER_PROFILER in draft.run.finalizers:
        draft.act(RemoveProfilerFinalizer())
        return draft.wait("the finalizer to be removed")
    complete = end.phase is RunPhase.SUCCEEDED
    draft.condition(ConditionType.COMPLETE, complete, end.reason, end.message)
    failed = end.phase in (RunPhase.FAILED, RunPhase.PARTIALLY_FAILED)
    draft.condition(ConditionType.FAILED, failed, end.reason, end.message)
    draft.condition(ConditionType.FINISHED, True, end.reason, end.message)
    for kind, normal in _ON_THE_WAY.items():
        draft.conditions.retire(kind, normal)
    return True


def sweep_jobs(draft: Draft, keep: Sequence[TrialKey | None]) -> bool:
    """Delete Jobs that no attempt needs any more; True while there are any."""
    stale = [job for job in draft.facts.jobs.values() if job.key not in keep]
    asked = {action.uid for action in draft.actions if isinstance(action, DeleteJob)}
    for job in stale:
        if not job.deleting and job.uid not in asked:
            draft.act(DeleteJob(job.name, job.uid))
    return any(not job.deleting for job in stale)


def _all_measured(draft: Draft) -> bool:
    """Nothing is left that a late cancel or deadline could stop."""
    records = draft.facts.records
    measured = [r for r in records.values() if r.state is CellState.MEASURED]
    return len(measured) == len(draft.run.schedule)


def _stored(draft: Draft) -> bool:
    op = Op(OpKind.STORE_SUMMARY)
    view = draft.facts.ops.get(op)
    if view is None:
        draft.act(StartOp(op))
    return view is not None and view.done


def _failed(records: Iterable[TrialRecord]) -> TrialRecord | None:
    found = [r for r in records if r.state is not CellState.MEASURED]
    return min(found, key=lambda record: (record.cell, record.trial)) if found else None
