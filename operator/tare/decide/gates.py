"""Phases: every worker prepares, all start together, all drain; the profiler around profiling.

A seamless phase is left when every worker has sent it. Its answers come in while the next phase
runs, and a profile of it ends when they have.

The state of a phase is read from the workers themselves, so a restarted operator goes on where they
are. A gate that only a part of them passed before the operator died is the one case that cannot be
mended: their starts lie apart, and the attempt is repeated.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tare.api.names import FINALIZER_PROFILER
from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.actions import AddProfilerFinalizer
from tare.decide.attempt import ProfilerMark, ProfilerState
from tare.decide.facts import OpKind, WorkerView
from tare.decide.isolate import reset_before_profiling, same_replicas
from tare.decide.servers import seen_after
from tare.measure.counts import Count
from tare.measure.hooks import HookReport, Replicas
from tare.measure.messages import CommandKind, WorkerState
from tare.plan.stretches import last_profiled

if TYPE_CHECKING:
    from tare.decide.draft import Draft
    from tare.measure.trial import TrialSummary

__all__ = ["check_interrupted_start", "collect", "run_phases", "stop_profiler"]

_STEPS = {WorkerState.READY: 0, WorkerState.RUNNING: 1, WorkerState.DRAINED: 2}


def check_interrupted_start(draft: Draft) -> bool:
    """Repeat the attempt if an earlier process died between a start's intent and its outcome.

    Only the first pass after a restart can tell; the workers have not registered again by then.
    """
    mark = draft.current.profiler
    if draft.facts.restarted and mark is not None and mark.state is ProfilerState.STARTING:
        text = "the operator restarted while the server's profiler was being started"
        return draft.repeat(text)
    return True


def run_phases(draft: Draft) -> bool:
    """Lead the workers through all phases."""
    phases = draft.cell.spec.phases
    _keep_start_skew(draft)
    return all(_run_phase(draft, number) for number in range(len(phases))) and _end_profile(draft)


def _keep_start_skew(draft: Draft) -> None:
    """Write down how far apart the workers started: only the process that opened a gate knows."""
    kept = dict(draft.current.start_skew)
    for (key, number), seconds in draft.facts.skews.items():
        if key == draft.current.key:
            kept.setdefault(draft.cell.spec.phases[number].name, seconds)
    draft.update(start_skew=kept)


def collect(draft: Draft) -> bool:
    """Have every worker's result and the same replicas as before the reset; then the verdict."""
    draft.command(CommandKind.FINISH)
    replicas = draft.op(OpKind.CHECK_REPLICAS, Replicas)
    if not all(worker.has_result for worker in draft.workers.values()) or replicas is None:
        return draft.wait("the workers' results")
    if not same_replicas(draft, replicas):
        return False
    summary = draft.facts.summaries.get(draft.current.key)
    if summary is None:
        return draft.wait("the merged result")
    if not summary.complete:
        return draft.fault(Reason.WORKER_LOST, "a worker handed in a partial result")
    draft.update(servers=seen_after(draft.current, replicas))
    if not summary.counts.get(Count.OK):
        return draft.end_attempt(CellState.FAILED, Reason.TOO_MANY_ERRORS, _failures(summary))
    return draft.end_attempt(CellState.MEASURED, Reason.AS_ASKED, "")


def stop_profiler(draft: Draft) -> bool:
    """Stop the profiler on every replica on which a start was tried; True when none may run.

    A start that is on its way is awaited first: a server may take it after the stop.
    """
    mark = draft.current.profiler
    if mark is None or not mark.state.may_run:
        return True
    start = draft.look(OpKind.PROFILER_START, phase=mark.phase)
    if start is not None and not start.done:
        return draft.wait("the server's profiler to start, so that it can be stopped")
    report = draft.op(OpKind.PROFILER_STOP, HookReport, phase=mark.phase)
    if report is None:
        return draft.wait("the server's profiler to stop")
    state = ProfilerState.STOPPED if report.ok else ProfilerState.STOP_FAILED
    draft.update(profiler=replace(mark, state=state, message=report.message, started=None))
    reason = Reason.PROFILER_OFF if report.ok else Reason.PROFILER_STOP_FAILED
    draft.condition(ConditionType.PROFILING, False if report.ok else None, reason, report.message)
    if not report.ok:
        draft.condition(ConditionType.MEASUREMENT_SOUND, False, reason, report.message)
    return True


def _failures(summary: TrialSummary) -> str:
    """Say how the requests failed, in the server's own words where it had any."""
    phases = [phase for phase in summary.phases if phase.kind == "profiling"]
    kinds = sorted({kind for phase in phases for kind in phase.errors})
    counted = ", ".join(f"{sum(p.errors.get(kind, 0) for p in phases)} {kind}" for kind in kinds)
    samples = (phase.error_samples.get(kind) for kind in kinds for phase in phases)
    words = next((sample for sample in samples if sample), "")
    issued = summary.counts.get(Count.ISSUED, 0)
    text = f"none of {issued} requests succeeded"
    return text + (f" ({counted})" if counted else "") + (f": {words}" if words else "")


def _run_phase(draft: Draft, phase: int) -> bool:
    """Lead the workers through one phase; True when it is drained, or sent if it is seamless."""
    ranks = [_rank(worker) for worker in draft.workers.values()]
    ready, running, drained = (3 * phase + step for step in (0, 1, 2))
    if min(ranks) >= drained:
        return True
    profile_ended = _end_profile(draft)
    if _split(draft, phase, ranks):
        text = "the operator restarted while the gate opened: the workers' starts lie apart"
        return draft.repeat(text)
    if min(ranks) < running and not (profile_ended and _before_gate(draft, phase)):
        return False
    do = CommandKind.PREPARE if min(ranks) < ready else CommandKind.START
    draft.command(do, phase)
    return draft.wait(draft.cell.spec.phases[phase].name)


def _before_gate(draft: Draft, phase: int) -> bool:
    if not reset_before_profiling(draft, phase):
        return False
    if draft.phase_kind(phase) != "profiling" or draft.cell.spec.endpoint.profiler is None:
        return True
    return _start_profiler(draft, phase)


def _end_profile(draft: Draft) -> bool:
    """Stop the profiler when all it covers has drained; False while it is being stopped.

    After `maxSeconds` it is stopped while the load runs on; look again when it is time.
    """
    mark = draft.current.profiler
    if mark is None or not mark.state.may_run:
        return True
    if _all_drained(draft, mark.last):
        return stop_profiler(draft)
    profiler = draft.cell.spec.endpoint.profiler
    limit = profiler.max_seconds if profiler is not None else None
    if limit is None or mark.started is None:
        return True
    left = mark.started + limit - draft.facts.now
    if left <= 0:
        return stop_profiler(draft)
    draft.again_in = left
    return True


def _all_drained(draft: Draft, phase: int) -> bool:
    """Every request of a phase, and of those before it, has ended."""
    workers = draft.workers.values()
    return all(worker.has_result or worker.drained >= phase for worker in workers)


def _start_profiler(draft: Draft, phase: int) -> bool:
    """Have the profiler on; the intent is in the stored status before the first POST.

    One that is on for a phase whose answers are still awaited stays on for this phase too.
    """
    mark = draft.current.profiler
    if mark is not None and phase <= mark.last and mark.state is not ProfilerState.STARTING:
        return True
    if mark is not None and phase > mark.last and mark.state is ProfilerState.RUNNING:
        draft.update(profiler=replace(mark, last=last_profiled(draft.cell.spec.phases, phase)))
        return True
    if mark is None or phase > mark.last:
        return _announce_profiler(draft, phase)
    report = draft.op(OpKind.PROFILER_START, HookReport, phase=phase)
    if report is None:
        return draft.wait("the server's profiler to start")
    if not report.ok:
        if report.reason is Reason.REPLICAS_CHANGED:
            return draft.fault(report.reason, report.message)
        reason = report.reason or Reason.PROFILER_START_FAILED
        return draft.end_attempt(CellState.FAILED, reason, report.message)
    mark = replace(
        mark, state=ProfilerState.RUNNING, message=report.message, started=draft.facts.now
    )
    draft.update(profiler=mark)
    draft.condition(ConditionType.PROFILING, True, Reason.PROFILER_ON, report.message)
    return True


def _announce_profiler(draft: Draft, phase: int) -> bool:
    """Record the intent, and have our finalizer on the object, before the first POST."""
    if FINALIZER_PROFILER not in draft.run.finalizers:
        draft.act(AddProfilerFinalizer())
        return draft.wait("the finalizer that guards the profiler")
    last = last_profiled(draft.cell.spec.phases, phase)
    draft.update(profiler=ProfilerMark(state=ProfilerState.STARTING, phase=phase, last=last))
    draft.condition(ConditionType.PROFILING, True, Reason.PROFILER_ON, "starting")
    return draft.wait("the server's profiler to start")


def _split(draft: Draft, phase: int, ranks: list[int]) -> bool:
    """Some workers passed this gate, others wait at it, and this process did not open it."""
    started = 3 * phase + 1
    return (
        min(ranks) < started <= max(ranks) and (draft.current.key, phase) not in draft.facts.opened
    )


def _rank(worker: WorkerView) -> int:
    """Order of a worker's states over all phases; one that has sent a phase is at the next gate."""
    if worker.has_result:
        return 1 << 30
    if worker.state is WorkerState.SENT:
        return 3 * (worker.phase + 1)
    step = _STEPS.get(worker.state)
    return -1 if step is None else 3 * worker.phase + step
