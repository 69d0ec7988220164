"""What keeps two cells from being compared, and what is only said."""

from __future__ import annotations

import pytest

from support.compared import side, trial
from tare.api.reasons import Reason
from tare.measure.concerns import Concern
from tare.measure.likeness import doubts, unlikeness
from tare.measure.paired import match

SATURATED = Concern(reason=Reason.CLIENT_SATURATED, message="The event loop lagged 40 ms.")
LATENCIES = [50.0] * 100


def failing(number: int) -> list[float | None]:
    """A hundred requests of which the first `number` failed."""
    return [None] * number + [50.0] * (100 - number)


def test_cells_that_are_alike_are_compared() -> None:
    assert unlikeness(side(trial(LATENCIES)), side(trial(LATENCIES))) == ()
    assert unlikeness(side(trial(failing(3))), side(trial(failing(4)))) == ()


def test_other_success_rates_are_refused_with_both() -> None:
    [text] = unlikeness(side(trial(failing(1))), side(trial(failing(3))))
    assert "99.00%" in text
    assert "97.00%" in text


def test_the_success_rate_is_that_of_all_trials_together() -> None:
    assert unlikeness(side(trial(failing(4)), trial(LATENCIES)), side(trial(failing(2)))) == ()


def test_answers_of_other_lengths_are_refused_with_both() -> None:
    before = side(trial(LATENCIES, output_tokens=300))
    [text] = unlikeness(before, side(trial(LATENCIES, output_tokens=290)))
    assert "300.0 output tokens" in text
    assert "290.0 in the candidate" in text
    assert unlikeness(before, side(trial(LATENCIES, output_tokens=298))) == ()


def test_other_cache_verdicts_are_refused_with_both() -> None:
    cold, unknown = side(trial(LATENCIES)), side(trial(LATENCIES), cache=Reason.NOT_REPORTED)
    assert unlikeness(cold, unknown) == (
        "The caches differ: AsPlanned in the baseline, NotReported in the candidate.",
    )


@pytest.mark.parametrize("saturated", ["baseline", "candidate"])
def test_a_saturated_client_on_either_side_is_refused(saturated: str) -> None:
    sides = {name: side(trial(LATENCIES)) for name in ("baseline", "candidate")}
    sides[saturated] = side(trial(LATENCIES), trial(LATENCIES, concerns=[SATURATED]))
    assert unlikeness(sides["baseline"], sides["candidate"]) == (
        f"The client of the {saturated} was saturated: The event loop lagged 40 ms.",
    )


def test_the_same_doubtful_cache_in_both_is_told_and_not_refused() -> None:
    warm = side(trial(LATENCIES), cache=Reason.WARM_CACHE)
    assert unlikeness(warm, warm) == ()
    [text] = doubts(warm, warm, match(warm, warm))
    assert text.startswith("The cache is WarmCache in both runs")


def test_survivor_bias_is_told_when_other_requests_were_completed() -> None:
    before, after = side(trial([None, *LATENCIES])), side(trial([*LATENCIES, None]))
    assert unlikeness(before, after) == (), "as many failed"
    [text] = doubts(before, after, match(before, after))
    assert text.startswith("Survivor bias: 2 of 101 requests")


def test_without_rows_survivor_bias_is_told_by_the_numbers_of_requests() -> None:
    before, after = side(trial([50.0] * 100, rows=0)), side(trial([50.0] * 90, rows=0))
    [text] = doubts(before, after, None)
    assert "100 requests a trial, the candidate 90" in text
    assert doubts(before, before, None) == ()


def test_prompts_of_another_tokenizer_are_told_as_the_reason_why_nothing_is_paired() -> None:
    before, after = side(trial(LATENCIES)), side(trial(LATENCIES), seed=8)
    assert unlikeness(before, after) == ()
    [text] = doubts(before, after, match(before, after))
    assert "requests are not paired: seed is 7 in the baseline and 8 in the candidate" in text
