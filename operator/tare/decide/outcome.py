"""What the stored trials of a cell say together: state, numbers, goals, cache.

A cell counts as measured when each of its trials was; its numbers are shown only then, since a cell
of which a part is missing would look better or worse than it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare.api.reasons import CellState, Reason
from tare.decide.attempt import ResetState, weakest
from tare.decide.stretches import begins_profiling
from tare.measure.cell import CellSummary, aggregate
from tare.measure.goals import Goal, GoalVerdict, JudgedCell, RunVerdict, judge, judge_run

if TYPE_CHECKING:
    from tare.api.spec import BenchmarkRunSpec
    from tare.decide.records import Cell, TrialRecord
    from tare.measure.messages import PhaseResult

__all__ = ["CellOutcome", "cache_state", "goals_of", "judge_outcomes", "outcome_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutcome:
    """One cell: its trials together, held against the goals."""

    index: int
    name: str
    overrides: Mapping[str, Any]
    state: CellState
    trials_done: int = 0
    reason: Reason | None = None
    """Why it was not measured."""
    message: str = ""
    reset: str = ResetState.OFF
    """What the servers said of the reset: the weakest of its trials."""
    cache: Reason | None = None
    """`AsAsked`, `WarmCache`, `ResetIncomplete` or `Unverified`; None without a reset."""
    reset_message: str = ""
    """Why a reset is doubted, in the trial where it is doubted most."""
    summary: CellSummary | None = None
    goals: tuple[GoalVerdict, ...] = ()
    profiler_failed: bool = False
    """A server's profiler could not be stopped in one of its trials."""


def goals_of(spec: BenchmarkRunSpec) -> tuple[Goal, ...]:
    """Turn the goals of a spec into bounds."""
    return tuple(
        Goal(
            metric=goal.metric,
            statistic=goal.statistic_or_mean,
            min=goal.lower,
            max=goal.upper,
        )
        for goal in spec.goals
    )


def outcome_of(cell: Cell, records: Sequence[TrialRecord], goals: Sequence[Goal]) -> CellOutcome:
    """Put the stored trials of one cell together."""
    lost = next((record for record in records if record.state is not CellState.MEASURED), None)
    trials = [r.summary for r in records if r.summary is not None and r is not lost]
    whole = lost is None and len(trials) == cell.spec.trials.count
    summary = aggregate(trials) if whole else None
    states = [cache_state(record) for record in records]
    return CellOutcome(
        index=cell.index,
        name=cell.name,
        overrides=cell.overrides,
        state=lost.state if lost else CellState.MEASURED if whole else CellState.PENDING,
        trials_done=len(trials),
        reason=lost.reason if lost else None,
        message=lost.message if lost else "",
        reset=weakest(_reset_of(record) for record in records),
        reset_message=_doubt_of(records),
        cache=_weakest_cache(states),
        summary=summary,
        goals=judge(goals, summary) if summary else (),
        profiler_failed=any(record.profiler_failed for record in records),
    )


def judge_outcomes(goals: Sequence[Goal], outcomes: Sequence[CellOutcome]) -> RunVerdict:
    """Judge a run by all its cells, the unmeasured ones included."""
    return judge_run(
        goals, [JudgedCell(index=o.index, name=o.name, summary=o.summary) for o in outcomes]
    )


def cache_state(record: TrialRecord) -> Reason | None:
    """Whether a trial had the empty cache that its resets promised.

    The first request after a reset tells: when that was confirmed and worked, it finds no cached
    token. It is the first of the trial, of profiling, or both, as `resetKvCache.at` asks. A server
    that does not report cached tokens leaves it unverified.
    """
    phases = record.summary.phases if record.summary is not None else ()
    kinds = [phase.kind for phase in phases]
    after = [(record.reset, phase) for phase in phases[:1]]
    after += [
        (record.reset_before_profiling, phase)
        for number, phase in enumerate(phases)
        if begins_profiling(kinds, number)
    ]
    return _weakest_cache(
        [_found(state, phase) for state, phase in after if state != ResetState.OFF]
    )


def _found(state: str, phase: PhaseResult) -> Reason:
    """What a reset's outcome and the first request after it say together."""
    first = phase.first_cached_tokens
    if state == ResetState.INCOMPLETE:
        return Reason.RESET_INCOMPLETE
    if first:
        return Reason.WARM_CACHE
    if state == ResetState.PROVEN or (state == ResetState.CONFIRMED and first == 0):
        return Reason.AS_ASKED
    return Reason.UNVERIFIED


def _reset_of(record: TrialRecord) -> ResetState:
    """The weakest of the resets that a trial had."""
    resets = (record.reset, record.reset_before_profiling)
    return weakest(state for state in resets if state != ResetState.OFF)


def _doubt_of(records: Sequence[TrialRecord]) -> str:
    """What is said of the weakest reset; trials with better ones have nothing to add."""
    worst = weakest(_reset_of(record) for record in records)
    return next((r.reset_message for r in records if _reset_of(r) is worst), "")


def _weakest_cache(states: Sequence[Reason | None]) -> Reason | None:
    order = (Reason.RESET_INCOMPLETE, Reason.WARM_CACHE, Reason.UNVERIFIED, Reason.AS_ASKED)
    return next((state for state in order if state in states), None)
