"""What the stored trials of a cell say together: state, numbers, goals, cache.

A cell counts as measured when each of its trials was; its numbers are shown only then, since a cell
of which a part is missing would look better or worse than it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tare.api.reasons import CellState, Reason
from tare.decide.attempt import ResetState, weakest
from tare.measure.cache import CacheWord
from tare.measure.cell import CellSummary, aggregate
from tare.measure.cost import Cost
from tare.measure.goals import Goal, GoalVerdict, JudgedCell, RunVerdict, judge, judge_run

if TYPE_CHECKING:
    from tare.api.spec import BenchmarkRunSpec
    from tare.decide.records import Cell, TrialRecord

__all__ = [
    "CellOutcome",
    "cache_state",
    "goals_of",
    "judge_outcomes",
    "outcome_of",
    "weakest_cache",
]

_WORST_FIRST: Final = (
    Reason.RESET_INCOMPLETE,
    Reason.CONTAMINATED,
    Reason.WARM_CACHE,
    Reason.SERVER_RESTARTED,
    Reason.COLDER_THAN_PLANNED,
    Reason.UNVERIFIED,
    Reason.NOT_REPORTED,
    Reason.NOT_DECIDABLE,
    Reason.AS_PLANNED,
)
_SILENT: Final = "the server did not confirm that the cache was empty"


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
    """`AsPlanned`, or what is wrong with, or not known of, the cache of its worst trial."""
    cache_message: str = ""
    """The same for people, with the numbers and the trials."""
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


def cost_of(spec: BenchmarkRunSpec) -> Cost | None:
    """Turn the prices of a spec into numbers; None when it has none."""
    cost = spec.cost
    if cost is None:
        return None
    return Cost(usd_per_hour=float(cost.usd_per_hour), replicas=cost.replicas)


def outcome_of(cell: Cell, records: Sequence[TrialRecord], goals: Sequence[Goal]) -> CellOutcome:
    """Put the stored trials of one cell together."""
    lost = next((record for record in records if record.state is not CellState.MEASURED), None)
    trials = [r.summary for r in records if r.summary is not None and r is not lost]
    whole = lost is None and len(trials) == cell.spec.trials.count
    summary = aggregate(trials) if whole else None
    cache = weakest_cache([cache_state(record) for record in records])
    return CellOutcome(
        index=cell.index,
        name=cell.name,
        overrides=cell.overrides,
        state=lost.state if lost else CellState.MEASURED if whole else CellState.PENDING,
        trials_done=len(trials),
        reason=lost.reason if lost else None,
        message=lost.message if lost else "",
        reset=weakest(_reset_of(record) for record in records),
        cache=cache,
        cache_message=_said_of_cache(records, cache),
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
    """What is to be said of the cache of a trial; None when it was not measured.

    Its plan's verdict counts most, since that is about the load itself. A reset whose outcome is
    not known casts doubt on a trial that looks as planned.
    """
    if record.summary is None or not record.summary.phases:
        return None
    reset, verdict = _reset_of(record), record.cache
    if reset is ResetState.INCOMPLETE:
        return Reason.RESET_INCOMPLETE
    if verdict is None:
        return Reason.UNVERIFIED
    if verdict.verdict is CacheWord.AS_PLANNED and reset is ResetState.UNVERIFIED:
        return Reason.UNVERIFIED
    return verdict.reason


def _reset_of(record: TrialRecord) -> ResetState:
    """The weakest of the resets that a trial had."""
    resets = (record.reset, record.reset_before_profiling)
    return weakest(state for state in resets if state != ResetState.OFF)


def _said_of_cache(records: Sequence[TrialRecord], state: Reason | None) -> str:
    """What the first trial in such a state says, and which trials are."""
    found = [record for record in records if cache_state(record) is state]
    if state is None or not found:
        return ""
    first = found[0]
    of_reset = state in (Reason.RESET_INCOMPLETE, Reason.UNVERIFIED)
    text = first.reset_message if of_reset or first.cache is None else first.cache.message
    trials = ", ".join(str(record.trial) for record in found)
    noun = "trial" if len(found) == 1 else "trials"
    return f"{noun} {trials}: {text or _SILENT}" if len(records) > 1 else text or _SILENT


def weakest_cache(states: Sequence[Reason | None]) -> Reason | None:
    """Return the state that is worst; None when nothing is said."""
    return next((state for state in _WORST_FIRST if state in states), None)
