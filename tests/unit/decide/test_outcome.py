"""What the stored trials of a cell say together: state, cache, goals."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from support.manifest_builder import spec_of
from support.measured import phase_result
from support.summaries import GOALS, cells, failed, measured
from support.trials import trial_summary
from tare.api.reasons import CellState, Reason
from tare.decide.attempt import ResetState
from tare.decide.outcome import cache_state, goals_of, judge_outcomes, outcome_of
from tare.measure.goals import Goal, Verdict

if TYPE_CHECKING:
    from tare.decide.records import TrialRecord

OFF, CONFIRMED, UNVERIFIED = ResetState.OFF, ResetState.CONFIRMED, ResetState.UNVERIFIED
PROVEN, INCOMPLETE = ResetState.PROVEN, ResetState.INCOMPLETE


def with_cache(reset: str, *first_cached: int | None, trial: int = 0) -> TrialRecord:
    """A measured trial whose phases began with requests that found so many cached tokens."""
    phases = tuple(phase_result(first_cached_tokens=tokens) for tokens in first_cached)
    return measured(0, trial, reset=reset, summary=replace(trial_summary(), phases=phases))


@pytest.mark.parametrize(
    ("reset", "first", "expected"),
    [
        (OFF, None, None),
        (OFF, 0, None),
        (OFF, 48, None),
        (CONFIRMED, 0, Reason.AS_ASKED),
        (CONFIRMED, None, Reason.UNVERIFIED),
        (CONFIRMED, 48, Reason.WARM_CACHE),
        (UNVERIFIED, 0, Reason.UNVERIFIED),
        (UNVERIFIED, None, Reason.UNVERIFIED),
        (UNVERIFIED, 48, Reason.WARM_CACHE),
        (PROVEN, 0, Reason.AS_ASKED),
        (PROVEN, None, Reason.AS_ASKED),
        (PROVEN, 48, Reason.WARM_CACHE),
        (INCOMPLETE, 0, Reason.RESET_INCOMPLETE),
        (INCOMPLETE, 48, Reason.RESET_INCOMPLETE),
    ],
)
def test_the_first_request_tells_whether_the_reset_held(
    reset: str, first: int | None, expected: Reason | None
) -> None:
    assert cache_state(with_cache(reset, first)) is expected


def test_only_the_first_phase_counts_since_warm_up_fills_the_cache_for_the_next() -> None:
    assert cache_state(with_cache(CONFIRMED, 0, 512)) is Reason.AS_ASKED
    assert cache_state(with_cache(CONFIRMED, 512, 0)) is Reason.WARM_CACHE


WARM, COLD = "warmup", "profiling"


@pytest.mark.parametrize(
    ("start", "again", "phases", "expected"),
    [
        (OFF, PROVEN, [(WARM, 512), (COLD, 0)], Reason.AS_ASKED),
        (OFF, CONFIRMED, [(WARM, 512), (COLD, 0)], Reason.AS_ASKED),
        (OFF, CONFIRMED, [(WARM, 0), (COLD, 512)], Reason.WARM_CACHE),
        (OFF, CONFIRMED, [(WARM, 0), (COLD, None)], Reason.UNVERIFIED),
        (OFF, CONFIRMED, [(COLD, 0), (COLD, 512)], Reason.AS_ASKED),
        (OFF, CONFIRMED, [(COLD, 0), (WARM, 9), (COLD, 512)], Reason.WARM_CACHE),
        (CONFIRMED, CONFIRMED, [(WARM, 0), (COLD, 0)], Reason.AS_ASKED),
        (CONFIRMED, CONFIRMED, [(WARM, 512), (COLD, 0)], Reason.WARM_CACHE),
        (PROVEN, UNVERIFIED, [(WARM, 0), (COLD, 0)], Reason.UNVERIFIED),
        (PROVEN, INCOMPLETE, [(WARM, 0), (COLD, 0)], Reason.RESET_INCOMPLETE),
    ],
)
def test_after_a_reset_before_profiling_its_first_request_tells(
    start: str, again: str, phases: list[tuple[str, int | None]], expected: Reason
) -> None:
    results = tuple(
        phase_result(name=str(number), kind=kind, first_cached_tokens=first)
        for number, (kind, first) in enumerate(phases)
    )
    summary = replace(trial_summary(), phases=results)
    trial = measured(0, reset=start, reset_before_profiling=again, summary=summary)
    assert cache_state(trial) is expected


def test_a_cell_says_of_its_weakest_reset_why_it_is_doubted() -> None:
    [cell] = cells(1, trials=3)
    records = [
        measured(0, 0, reset=PROVEN),
        measured(0, 1, reset=UNVERIFIED, reset_message="qwen-0 said nothing"),
        measured(0, 2, reset=INCOMPLETE, reset_message="qwen-1 still found 192 tokens"),
    ]
    assert outcome_of(cell, records, ()).reset_message == "qwen-1 still found 192 tokens"
    assert outcome_of(cell, records[:2], ()).reset_message == "qwen-0 said nothing"
    assert outcome_of(cell, records[:1], ()).reset_message == ""


def test_a_cells_reset_counts_only_the_moments_that_were_asked_for() -> None:
    [cell] = cells(1)
    late = measured(0, reset=OFF, reset_before_profiling=PROVEN)
    assert outcome_of(cell, [late], ()).reset == PROVEN
    both = measured(0, reset=PROVEN, reset_before_profiling=UNVERIFIED)
    assert outcome_of(cell, [both], ()).reset == UNVERIFIED


@pytest.mark.parametrize("summary", [None, trial_summary()])
def test_a_trial_without_any_phase_says_nothing_of_the_cache(summary: Any) -> None:
    assert cache_state(measured(0, reset=CONFIRMED, summary=summary)) is None


@pytest.mark.parametrize(("first", "second"), list(product((0, None, 48), repeat=2)))
def test_a_cell_is_as_good_as_its_weakest_trial(first: int | None, second: int | None) -> None:
    [cell] = cells(1, trials=2)
    records = [with_cache(CONFIRMED, first), with_cache(CONFIRMED, second, trial=1)]
    found = outcome_of(cell, records, ())
    if 48 in (first, second):
        assert found.cache is Reason.WARM_CACHE
    elif None in (first, second):
        assert found.cache is Reason.UNVERIFIED
    else:
        assert found.cache is Reason.AS_ASKED


@pytest.mark.parametrize(
    ("resets", "weakest"),
    [
        ((CONFIRMED, CONFIRMED), CONFIRMED),
        ((CONFIRMED, UNVERIFIED), UNVERIFIED),
        ((OFF, OFF), OFF),
        ((CONFIRMED, OFF), OFF),
        ((CONFIRMED, PROVEN), CONFIRMED),
        ((INCOMPLETE, UNVERIFIED), INCOMPLETE),
    ],
)
def test_a_cells_reset_is_the_weakest_of_its_trials(resets: tuple[str, str], weakest: str) -> None:
    [cell] = cells(1, trials=2)
    records = [with_cache(reset, 0, trial=trial) for trial, reset in enumerate(resets)]
    assert outcome_of(cell, records, ()).reset == weakest


def test_a_cell_is_pending_until_its_last_trial_is_measured() -> None:
    [cell] = cells(1, trials=3)
    records = [measured(0, 0), measured(0, 1)]
    found = outcome_of(cell, records, GOALS)
    assert (found.state, found.trials_done) == (CellState.PENDING, 2)
    assert (found.summary, found.goals) == (None, ())
    whole = outcome_of(cell, [*records, measured(0, 2)], GOALS)
    assert (whole.state, whole.trials_done) == (CellState.MEASURED, 3)
    assert whole.summary is not None
    assert whole.summary.trials == 3


@pytest.mark.parametrize("state", [CellState.FAILED, CellState.INVALID])
def test_one_lost_trial_loses_the_cell_and_its_numbers(state: CellState) -> None:
    [cell] = cells(1, trials=2)
    lost = replace(failed(0, 1), state=state, summary=trial_summary())
    found = outcome_of(cell, [measured(0, 0), lost], GOALS)
    assert (found.state, found.reason) == (state, Reason.RESET_REFUSED)
    assert found.message.startswith("qwen-1 answered 404")
    assert (found.summary, found.trials_done) == (None, 1)


def test_a_profiler_that_could_not_be_stopped_in_any_trial_marks_the_cell() -> None:
    [cell] = cells(1, trials=2)
    records = [measured(0, 0, profiler_failed=True), measured(0, 1)]
    assert outcome_of(cell, records, ()).profiler_failed
    assert not outcome_of(cell, records[1:], ()).profiler_failed


def test_goals_are_bounds_in_seconds_and_fractions() -> None:
    spec = spec_of(
        goals=[
            {"metric": "time_to_first_token", "statistic": "p99", "max": "500ms"},
            {"metric": "error_rate", "max": "1%"},
            {"metric": "request_throughput", "min": "3"},
        ]
    )
    assert goals_of(spec) == (
        Goal(metric="time_to_first_token", statistic="p99", max=0.5),
        Goal(metric="error_rate", statistic="mean", max=0.01),
        Goal(metric="request_throughput", statistic="mean", min=3.0),
    )


def test_a_measured_cell_is_judged_goal_by_goal() -> None:
    [cell] = cells(1)
    found = outcome_of(cell, [measured(0, scale=2.0)], GOALS)
    assert [verdict.verdict for verdict in found.goals] == [Verdict.FAIL, Verdict.PASS]


def test_a_run_is_not_judged_met_while_a_cell_is_missing() -> None:
    one, two = cells(2)
    done, open_ = outcome_of(one, [measured(0)], GOALS), outcome_of(two, [failed(1)], GOALS)
    verdict = judge_outcomes(GOALS, [done, open_])
    assert (verdict.met, verdict.reason, verdict.best) == (None, Reason.NOT_CONCLUSIVE, 0)
