"""What the stored trials of a cell say together: state, cache, goals."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.manifest_builder import spec_of
from support.measured import cache_verdict, phase_result
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


def with_cache(
    reset: str, reason: Reason | None, *, trial: int = 0, message: str = "", again: str = OFF
) -> TrialRecord:
    """A measured trial with these resets and this verdict of its plan."""
    verdict = cache_verdict(reason, message) if reason is not None else None
    summary = replace(trial_summary(), phases=(phase_result(),))
    return measured(
        0, trial, reset=reset, reset_before_profiling=again, summary=summary, cache=verdict
    )


@pytest.mark.parametrize(
    ("reset", "planned", "expected"),
    [
        (OFF, Reason.AS_PLANNED, Reason.AS_PLANNED),
        (OFF, Reason.WARM_CACHE, Reason.WARM_CACHE),
        (PROVEN, Reason.AS_PLANNED, Reason.AS_PLANNED),
        (CONFIRMED, Reason.AS_PLANNED, Reason.AS_PLANNED),
        (CONFIRMED, Reason.CONTAMINATED, Reason.CONTAMINATED),
        (CONFIRMED, Reason.NOT_DECIDABLE, Reason.NOT_DECIDABLE),
        (CONFIRMED, None, Reason.UNVERIFIED),
        (UNVERIFIED, Reason.AS_PLANNED, Reason.UNVERIFIED),
        (UNVERIFIED, Reason.CONTAMINATED, Reason.CONTAMINATED),
        (UNVERIFIED, Reason.NOT_REPORTED, Reason.NOT_REPORTED),
        (INCOMPLETE, Reason.AS_PLANNED, Reason.RESET_INCOMPLETE),
        (INCOMPLETE, Reason.CONTAMINATED, Reason.RESET_INCOMPLETE),
    ],
)
def test_the_plans_verdict_counts_unless_the_reset_itself_is_in_doubt(
    reset: str, planned: Reason | None, expected: Reason
) -> None:
    assert cache_state(with_cache(reset, planned)) is expected


def test_the_weaker_of_two_resets_casts_the_doubt() -> None:
    assert cache_state(with_cache(PROVEN, Reason.AS_PLANNED, again=UNVERIFIED)) is Reason.UNVERIFIED
    left = with_cache(PROVEN, Reason.AS_PLANNED, again=INCOMPLETE)
    assert cache_state(left) is Reason.RESET_INCOMPLETE


def test_a_cell_says_of_its_weakest_reset_why_it_is_doubted() -> None:
    [cell] = cells(1, trials=3)
    records = [
        with_cache(PROVEN, Reason.AS_PLANNED),
        replace(
            with_cache(UNVERIFIED, Reason.AS_PLANNED, trial=1), reset_message="qwen-0 said nothing"
        ),
        replace(
            with_cache(INCOMPLETE, Reason.AS_PLANNED, trial=2),
            reset_message="qwen-1 still found 192 tokens",
        ),
    ]
    found = outcome_of(cell, records, ())
    assert found.cache_message == "trial 2: qwen-1 still found 192 tokens"
    assert outcome_of(cell, records[:2], ()).cache_message == "trial 1: qwen-0 said nothing"


def test_a_cell_names_the_trials_that_found_too_much_in_the_words_of_the_first() -> None:
    [cell] = cells(1, trials=3)
    records = [
        with_cache(OFF, Reason.AS_PLANNED),
        *(
            with_cache(OFF, Reason.WARM_CACHE, trial=n, message=f"{n} tokens too much")
            for n in (1, 2)
        ),
    ]
    found = outcome_of(cell, records, ())
    assert found.cache is Reason.WARM_CACHE
    assert found.cache_message == "trials 1, 2: 1 tokens too much"


def test_a_cells_reset_counts_only_the_moments_that_were_asked_for() -> None:
    [cell] = cells(1)
    late = measured(0, reset=OFF, reset_before_profiling=PROVEN)
    assert outcome_of(cell, [late], ()).reset == PROVEN
    both = measured(0, reset=PROVEN, reset_before_profiling=UNVERIFIED)
    assert outcome_of(cell, [both], ()).reset == UNVERIFIED


@pytest.mark.parametrize("summary", [None, trial_summary()])
def test_a_trial_without_any_phase_says_nothing_of_the_cache(summary: Any) -> None:
    assert cache_state(measured(0, reset=CONFIRMED, summary=summary)) is None


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (Reason.AS_PLANNED, Reason.AS_PLANNED, Reason.AS_PLANNED),
        (Reason.AS_PLANNED, Reason.NOT_DECIDABLE, Reason.NOT_DECIDABLE),
        (Reason.CONTAMINATED, Reason.SERVER_RESTARTED, Reason.CONTAMINATED),
        (Reason.NOT_REPORTED, Reason.WARM_CACHE, Reason.WARM_CACHE),
        (Reason.COLDER_THAN_PLANNED, Reason.NOT_DECIDABLE, Reason.COLDER_THAN_PLANNED),
    ],
)
def test_a_cell_is_as_good_as_its_weakest_trial(
    first: Reason, second: Reason, expected: Reason
) -> None:
    [cell] = cells(1, trials=2)
    records = [with_cache(CONFIRMED, first), with_cache(CONFIRMED, second, trial=1)]
    assert outcome_of(cell, records, ()).cache is expected
    assert outcome_of(cell, records[::-1], ()).cache is expected


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
    records = [
        with_cache(reset, Reason.AS_PLANNED, trial=trial) for trial, reset in enumerate(resets)
    ]
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
