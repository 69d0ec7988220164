"""Requests of two runs side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compared import side, trial
from tare.measure.paired import PAIRED_METRICS, match
from tare.measure.rows import merge_rows

if TYPE_CHECKING:
    from tare.measure.side import Side
    from tare.measure.trial import TrialSummary


def with_columns(summary: TrialSummary, **columns: str) -> TrialSummary:
    """The same trial with other columns."""
    [phase] = summary.phases
    rows = {**phase.rows, "columns": {**phase.rows["columns"], **columns}}
    return replace(summary, phases=(replace(phase, rows=rows),))


def test_the_difference_is_that_of_the_same_request() -> None:
    pairs = match(side(trial([50, 60, 70])), side(trial([55, 66, 70])))
    assert pairs is not None
    values = pairs.values("time_to_first_token")
    assert values is not None
    assert values.differences == pytest.approx([0.005, 0.006, 0])


def test_several_trials_are_averaged_request_by_request() -> None:
    pairs = match(side(trial([50, 60]), trial([70, 80])), side(trial([65, 71])))
    assert pairs is not None
    values = pairs.values("time_to_first_token")
    assert values is not None
    assert values.differences == pytest.approx([0.005, 0.001])


def test_a_request_that_failed_once_is_left_out_of_every_trial() -> None:
    pairs = match(side(trial([50, None, 70]), trial([50, 60, 70])), side(trial([51, 61, 71])))
    assert pairs is not None
    assert [after[0].number for _, after in pairs.requests] == [0, 2]
    assert pairs.unmatched == 1
    assert pairs.unmatched_share == pytest.approx(1 / 3)


def test_requests_with_another_prompt_are_no_pair() -> None:
    # The column holds differences: the first two requests have each other's prompt.
    other = with_columns(trial([50, 60, 70]), entry="1 -1 2")
    pairs = match(side(trial([50, 60, 70])), side(other))
    assert pairs is not None
    assert [after[0].number for _, after in pairs.requests] == [2]


def test_in_a_closed_loop_requests_stand_in_the_order_in_which_they_were_sent() -> None:
    late = with_columns(trial([50, 60, 70]), due="900000 -800000 100000")
    pairs = match(side(late), side(late))
    assert pairs is not None
    assert [after[0].number for _, after in pairs.requests] == [1, 2, 0]


@pytest.mark.parametrize(
    ("baseline", "candidate"),
    [
        (side(trial([50])), side(trial([50]), seed=8)),
        (side(trial([50])), side(trial([50], rows=0))),
        (side(trial([50]), trial([50], rows=0)), side(trial([50]))),
    ],
    ids=["another seed", "no rows", "no rows of one trial"],
)
def test_without_the_same_prompts_or_without_rows_nothing_is_paired(
    baseline: Side, candidate: Side
) -> None:
    assert match(baseline, candidate) is None


def test_a_metric_that_some_request_lacks_is_paired_without_it() -> None:
    one_token = with_columns(trial([50, 60, 70]), output_tokens="10 1 10")
    pairs = match(side(one_token), side(trial([50, 60, 70])))
    assert pairs is not None
    values = pairs.values("time_per_output_token")
    assert values is not None
    assert values.baseline[0] == pytest.approx((0.01, 0.01))
    assert len(pairs.requests) == 3


def test_a_metric_that_no_request_has_is_not_paired() -> None:
    pairs = match(side(trial([50], output_tokens=1)), side(trial([50], output_tokens=1)))
    assert pairs is not None
    assert pairs.values("time_per_output_token") is None


def test_each_metric_agrees_with_its_definition() -> None:
    pairs = match(*[side(with_columns(trial([50]), lag="2000"))] * 2)
    assert pairs is not None
    found = {metric: pairs.values(metric) for metric in PAIRED_METRICS}
    assert {metric: values.baseline[0][0] for metric, values in found.items() if values} == {
        "time_to_first_token": pytest.approx(0.05),
        "request_latency": pytest.approx(0.14),
        "request_latency_from_due": pytest.approx(0.142),
        "time_per_output_token": pytest.approx(0.01),
    }


def test_what_a_smaller_sample_left_out_is_not_missing() -> None:
    whole, sample = trial([50.0] * 400), trial([50.0] * 400, rows=100)
    pairs = match(side(whole), side(sample))
    assert pairs is not None
    assert 0 < len(pairs.requests) <= 100
    assert pairs.unmatched == 0


def test_damaged_rows_are_refused() -> None:
    damaged = with_columns(trial([50, 60]), latency="7")
    with pytest.raises(ValueError, match="do not fit"):
        match(side(damaged), side(damaged))


@given(st.permutations(range(8)), st.permutations(range(3)))
def test_neither_the_order_of_trials_nor_of_rows_means_anything(
    rows: list[int], trials: list[int]
) -> None:
    found = [trial([50.0 + 7 * n + (n * t) % 5 for n in range(8)]) for t in range(3)]
    shuffled = [_in_parts(found[place], rows) for place in trials]
    after = side(trial([51.0 + 7 * n for n in range(8)]))
    straight, other = match(side(*found), after), match(side(*shuffled), after)
    assert straight is not None
    assert other is not None
    for metric in PAIRED_METRICS:
        left, right = straight.values(metric), other.values(metric)
        assert left is not None
        assert right is not None
        assert left.differences == right.differences


def _in_parts(summary: TrialSummary, order: list[int]) -> TrialSummary:
    """The same trial, its rows merged from one part for each request, in this order."""
    [phase] = summary.phases
    columns = {name: text.split() for name, text in phase.rows["columns"].items()}
    due = [100_000 * number for number in range(len(order))]
    whole = {**columns, "number": range(len(order)), "entry": range(len(order)), "due": due}
    parts = [
        {**phase.rows, "columns": {name: str(whole[name][place]) for name in columns}}
        for place in order
    ]
    return replace(summary, phases=(replace(phase, rows=merge_rows(parts)),))
