"""Before the first gate: preflight, quiet target, reset; and the reset before profiling.

The preflight's probe request comes before the reset, so it never warms a measured cell. The reset
is sent only when nothing of this run can be in flight: a deleted Job's pods live for another one or
two seconds, and a server refuses a reset, or fills its cache again, while a request runs. A second
one comes when the warm-up has drained and the workers wait for the gate of profiling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.attempt import ResetMark, ResetState, weakest
from tare.decide.facts import OpKind, ResetResult
from tare.decide.servers import seen_before, without_reset
from tare.measure.hooks import HookReport, PreflightReport, Replicas
from tare.measure.messages import WorkerState
from tare.plan.stretches import begins_profiling

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.decide.children import PodView, TrialKey
    from tare.decide.draft import Draft

__all__ = ["preflight", "quiesce", "reset", "reset_before_profiling", "same_replicas"]

_QUIET = (WorkerState.WAITING, WorkerState.STOPPED)


def preflight(draft: Draft) -> bool:
    """The target is ready, serves the model and accepts a request like the load's.

    It comes before the Job, which holds the target's address, and spares the pods a wait.
    """
    if _past_first_gate(draft):
        return True
    report = draft.op(OpKind.PREFLIGHT, PreflightReport)
    if report is None:
        if not draft.conditions.is_true(ConditionType.TARGET_READY):
            view = draft.look(OpKind.PREFLIGHT)
            awaited = (view and view.awaited) or "preflight"
            draft.condition(ConditionType.TARGET_READY, None, Reason.WAITING, awaited)
        return draft.wait("the target to be ready")
    if report.ok:
        draft.condition(ConditionType.TARGET_READY, True, Reason.TARGET_READY, report.message)
        return True
    reason = report.reason or Reason.TARGET_NOT_READY
    draft.condition(ConditionType.TARGET_READY, False, reason, report.message)
    return draft.setup_failed(reason, report.message)


def quiesce(draft: Draft, following: Sequence[TrialKey]) -> bool:
    """Nothing of an earlier attempt can still send requests."""
    if _past_first_gate(draft):
        return True
    others = [p for p in draft.facts.pods if p.key not in (draft.current.key, *following)]
    noisy = [pod.name for pod in others if _noisy(draft, pod)]
    return draft.wait(f"{noisy[0]} to end") if noisy else True


def reset(draft: Draft) -> bool:
    """Find the replicas and empty the cache on each; `status` holds the outcome before the gate."""
    if draft.current.reset is not None:
        return True
    result = draft.op(OpKind.RESET, ResetResult)
    if result is None:
        return draft.wait("the reset of the KV cache")
    if not result.replicas.ready:
        text = "the target has no ready replica"
        return draft.setup_failed(Reason.TARGET_NOT_READY, text)
    draft.replicas = result.replicas.ready
    draft.update(
        replicas=draft.replicas,
        reset_servers=result.replicas.reset,
        profiler_servers=result.replicas.profiler,
        servers=seen_before(result.replicas),
    )
    report = result.report
    if report is None:
        draft.update(reset=ResetMark(state=ResetState.OFF))
        return True
    if _fails(draft, report):
        return False
    draft.update(reset=ResetMark(state=_state(report), message=report.message))
    return True


def reset_before_profiling(draft: Draft, phase: int) -> bool:
    """Empty the cache again where the run asks for it: once where profiling begins.

    Every worker has drained the phase before, so nothing is in flight. Where profiling is the first
    phase, the reset at the start of the cell is this one too, unless there was none.
    """
    settings = draft.cell.spec.endpoint.reset
    if settings is None or not settings.before_profiling or (phase == 0 and settings.at_start):
        return True
    if not begins_profiling([phase.kind for phase in draft.cell.spec.phases], phase):
        return True
    before = draft.current.before_profiling
    if before is not None and before.phase == phase:
        return True
    result = draft.op(OpKind.RESET, ResetResult, phase=phase)
    if result is None:
        return draft.wait("the reset of the KV cache before profiling")
    if not same_replicas(draft, result.replicas):
        return False
    report = result.report
    assert report is not None, "a reset that was asked for has a report"
    if _fails(draft, report):
        return False
    states = (_state(report), before.state) if before is not None else (_state(report),)
    mark = ResetMark(state=weakest(states), message=report.message, phase=phase)
    servers = without_reset(draft.current, result.begin, result.replicas.counts)
    draft.update(before_profiling=mark, servers=servers)
    return True


def same_replicas(draft: Draft, replicas: Replicas) -> bool:
    """Whether load and hooks still go to the servers that were found before the first gate."""
    if draft.current.identity == replicas.identity and not replicas.terminating:
        return True
    names = ", ".join(r.name for r in draft.current.replicas or ())
    now = ", ".join(r.name for r in replicas.ready) or "none"
    text = f"the target's replicas changed during the trial: before {names}; now {now}"
    return draft.fault(Reason.REPLICAS_CHANGED, text)


def _state(report: HookReport) -> ResetState:
    if report.reason is Reason.RESET_INCOMPLETE:
        return ResetState.INCOMPLETE
    if report.proven:
        return ResetState.PROVEN
    return ResetState.CONFIRMED if report.verified else ResetState.UNVERIFIED


def _fails(draft: Draft, report: HookReport) -> bool:
    """Whether a reset ends the attempt."""
    settings = draft.cell.spec.endpoint.reset
    if report.reason is Reason.REPLICAS_CHANGED:
        draft.fault(report.reason, report.message)
        return True
    if report.ok or (settings is not None and settings.on_failure == "Continue"):
        return False
    draft.end_attempt(CellState.FAILED, report.reason or Reason.RESET_REFUSED, report.message)
    return True


def _past_first_gate(draft: Draft) -> bool:
    """The workers have been told to prepare for a phase: everything before that was done."""
    return draft.current.reset is not None


def _is_done(draft: Draft, key: TrialKey) -> bool:
    """Every worker of the attempt has handed in its result; its pods take a second to go."""
    record = draft.facts.records.get((key.cell, key.trial))
    if record is None or record.attempt != key.attempt:
        return False
    return record.state is CellState.MEASURED


def _noisy(draft: Draft, pod: PodView) -> bool:
    if pod.ended or _is_done(draft, pod.key):
        return False
    worker = draft.facts.workers.get(pod.key, {}).get(pod.index)
    if worker is None or worker.pod_uid != pod.uid:
        return True
    return worker.state not in _QUIET and not worker.has_result
