"""`decide(run, facts)`: one pass over a run; pure, level-based, restart-safe.

It does not ask what happened but what is so: the stored status, the Jobs and pods that exist, what
the workers say, and which operations this process has finished. From that follow the next status,
the actions and the command to the workers. The same inputs give the same decision.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, ConditionType, Reason, RunPhase
from tare.decide.acceptance import warnings_of
from tare.decide.actions import Decision
from tare.decide.ahead import following, have_pods_ahead
from tare.decide.attempt import Attempt
from tare.decide.baseline import announce
from tare.decide.children import TrialKey
from tare.decide.closing import close
from tare.decide.conditions import Conditions
from tare.decide.draft import Draft
from tare.decide.ending import End, end_of, finish, remaining, stop_reason, sweep_jobs
from tare.decide.events import events
from tare.decide.gates import check_interrupted_start, collect, run_phases
from tare.decide.isolate import preflight, quiesce, reset
from tare.decide.servers import doubt_counters
from tare.decide.status import render
from tare.decide.workers import register, spawn, watch_workers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.decide.facts import Facts, Run

__all__ = ["decide"]


def decide(run: Run, facts: Facts, stored: Mapping[str, Any]) -> Decision:
    """Decide what to do next about `run`.

    Args:
        run: what was accepted, and the attempt under way as stored.
        facts: what is so now.
        stored: the stored `status` document, whose conditions are carried on.
    """
    conditions = Conditions(stored.get("conditions") or (), now=facts.now)
    draft = Draft(run, facts, conditions)
    end = _pass(draft)
    status = render(draft, end, stored)
    return Decision(
        status=status,
        actions=tuple(draft.actions),
        commands=draft.commands,
        expected=_expected(draft),
        again_in=draft.again_in,
        events=events(stored, status),
        finished=end is not None and not end.resumable and _said(draft),
        owns_target=end is None or (not end.resumable and not _said(draft)),
    )


def _pass(draft: Draft) -> End | None:
    """One pass; the end of the run when it has come to one."""
    draft.condition(ConditionType.ACCEPTED, True, Reason.ACCEPTED, _accepted(draft))
    announce(draft)
    if draft.run.spec_changed:
        text = "spec was changed after the start; the run goes on with what it started with"
        draft.condition(ConditionType.SPEC_CHANGE_IGNORED, True, Reason.SPEC_CHANGED, text)
    end = stop_reason(draft)
    _suspension(draft, end)
    if not _settle(draft, end):
        return None
    end = end or _next(draft)
    if end is None:
        return None
    if end.resumable:
        sweep_jobs(draft, keep=())
    else:
        finish(draft, end)
    return end


def _settle(draft: Draft, end: End | None) -> bool:
    """Go on with the attempt under way, or end it; True when no attempt holds the run up."""
    if draft.attempt is None:
        return True
    if end is not None:
        if _untouched(draft):
            draft.attempt = draft.attempt if end.resumable else None
            return True
        _abort(draft, end)
    return _attempt(draft, keep=not (end and end.deleted))


def _untouched(draft: Draft) -> bool:
    """Nothing of the attempt exists outside the status."""
    key = draft.current.key
    known = draft.facts.workers.get(key)
    started = key in draft.facts.jobs or known or draft.current.verdict
    return not started and not draft.current.may_profile


def _attempt(draft: Draft, *, keep: bool) -> bool:
    """Go on with the attempt under way; True when it is closed."""
    if draft.current.verdict is None:
        _measure(draft)
    verdict = draft.current.verdict
    return verdict is not None and close(draft, verdict, keep=keep)


def _measure(draft: Draft) -> bool:
    """The life of a trial, in its order; False where it waits or got its verdict."""
    after = following(draft)
    doubt_counters(draft)
    sweep_jobs(draft, keep=(draft.current.key, *after))
    return (
        check_interrupted_start(draft)
        and preflight(draft)
        and spawn(draft)
        and watch_workers(draft)
        and register(draft)
        and have_pods_ahead(draft, after)
        and quiesce(draft, after)
        and reset(draft)
        and run_phases(draft)
        and collect(draft)
    )


def _expected(draft: Draft) -> frozenset[TrialKey]:
    """The attempt under way, the next ones unless pods are held back, and all with a command.

    While the run is suspended the Jobs of the next ones are deleted too: their workers must be
    forgotten, or they would hold the places of those that come when it goes on.
    """
    keys = set(draft.commands)
    if draft.attempt is not None:
        keys.add(draft.attempt.key)
        if draft.facts.prestart and not draft.run.suspend:
            keys.update(following(draft))
    return frozenset(keys)


def _next(draft: Draft) -> End | None:
    """Begin the next trial; the run's end when there is none."""
    trials = remaining(draft)
    if not trials:
        return end_of(draft)
    if draft.attempt is None and not _blocked(draft):
        cell, trial = trials[0]
        key, now = TrialKey(cell, trial, 1), draft.facts.now
        # Pods that wait already need not be asked for: one status write less before the gate.
        spawned = now if key in draft.facts.jobs and not draft.facts.jobs[key].deleting else None
        draft.attempt = Attempt(key=key, started=now, spawned=spawned)
        _measure(draft)
    return None


def _blocked(draft: Draft) -> bool:
    """Another run owns the target; this one's deadlines start when it gets it."""
    if draft.facts.blocker:
        text = f"waits for {draft.facts.blocker}, which measures the same target"
        draft.condition(ConditionType.TARGET_READY, False, Reason.TARGET_BUSY, text)
    return bool(draft.facts.blocker)


def _abort(draft: Draft, end: End) -> None:
    """Give the attempt under way its verdict because the run must stop."""
    verdict = draft.current.verdict
    if verdict is not None and (not verdict.again or end.resumable):
        return
    if end.resumable:
        draft.repeat(end.message)
    else:
        draft.end_attempt(CellState.INVALID, end.reason, end.message)


def _suspension(draft: Draft, end: End | None) -> None:
    suspended = end is not None and end.phase is RunPhase.SUSPENDED
    if suspended and end is not None:
        draft.condition(ConditionType.SUSPENDED, True, Reason.SUSPENDED, end.message)
    elif draft.conditions.is_true(ConditionType.SUSPENDED):
        draft.condition(ConditionType.SUSPENDED, False, Reason.RESUMED, "")
        if draft.attempt is not None:
            draft.update(started=draft.facts.now, spawned=None)


def _accepted(draft: Draft) -> str:
    cells, trials = len(draft.run.cells), draft.run.spec.trials.count
    size = f"{_count(cells, 'cell')} × {_count(trials, 'trial')}"
    return "; ".join((size, *warnings_of(draft.run.cells)))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _said(draft: Draft) -> bool:
    return draft.conditions.is_true(ConditionType.FINISHED)
