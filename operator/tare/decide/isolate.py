"""Before the first gate: preflight, quiet target, reset.

The preflight's probe request comes before the reset, so it never warms a measured cell. The reset
is sent only when nothing of this run can be in flight: a deleted Job's pods live for another one or
two seconds, and a server refuses a reset, or fills its cache again, while a request runs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.attempt import ResetMark, ResetState
from tare.decide.facts import OpKind, ResetResult
from tare.measure.hooks import HookReport, PreflightReport
from tare.measure.messages import WorkerState

if TYPE_CHECKING:
    from tare.decide.children import PodView, TrialKey
    from tare.decide.draft import Draft

__all__ = ["preflight", "quiesce", "reset"]

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


def quiesce(draft: Draft, following: TrialKey | None) -> bool:
    """Nothing of an earlier attempt can still send requests."""
    if _past_first_gate(draft):
        return True
    others = [p for p in draft.facts.pods if p.key not in (draft.current.key, following)]
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
    draft.update(replicas=draft.replicas)
    report = result.report
    if report is None:
        draft.update(reset=ResetMark(state=ResetState.OFF))
        return True
    if report.ok:
        state = ResetState.CONFIRMED if report.verified else ResetState.UNVERIFIED
        draft.update(reset=ResetMark(state=state, message=report.message))
        return True
    return _reset_failed(draft, report)


def _reset_failed(draft: Draft, report: HookReport) -> bool:
    settings = draft.cell.spec.endpoint.reset
    if settings is not None and settings.on_failure == "Continue":
        draft.update(reset=ResetMark(state=ResetState.UNVERIFIED, message=report.message))
        return True
    reason = report.reason or Reason.RESET_INCOMPLETE
    return draft.end_attempt(CellState.FAILED, reason, report.message)


def _past_first_gate(draft: Draft) -> bool:
    """The workers have been told to prepare for a phase: everything before that was done."""
    return draft.current.reset is not None


def _noisy(draft: Draft, pod: PodView) -> bool:
    if pod.ended:
        return False
    worker = draft.facts.workers.get(pod.key, {}).get(pod.index)
    if worker is None or worker.pod_uid != pod.uid:
        return True
    return worker.state not in _QUIET and not worker.has_result
