"""Two runs of one cell against each other."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.compared import side, trial
from tare.measure.comparison import (
    Change,
    Difference,
    Method,
    compare,
    compare_others,
    judge,
)
from tare.measure.metrics import Better
from tare.measure.paired import match
from tare.measure.side import Measure

if TYPE_CHECKING:
    from tare.measure.side import Side
    from tare.measure.trial import TrialSummary

TTFT = Measure(metric="time_to_first_token", statistic="mean")
P99 = Measure(metric="time_to_first_token", statistic="p99")
THROUGHPUT = Measure(metric="request_throughput", statistic="mean")


def noisy(seed: int, *, slower: float = 1.0, requests: int = 200, prompts: int = 1) -> TrialSummary:
    """Prompts of very different lengths, and a few per cent of noise."""
    lengths, noise = Random(prompts), Random(1000 + seed)  # noqa: S311 - no secret
    return trial([
        lengths.uniform(50, 500) * slower * noise.uniform(0.97, 1.03) for _ in range(requests)
    ])  # fmt: skip


def found(
    baseline: Side, candidate: Side, measure: Measure = TTFT, tolerance: float = 0.05
) -> Difference:
    return compare(measure, baseline, candidate, match(baseline, candidate), tolerance=tolerance)


def difference(low: float, high: float, baseline: float = 100.0) -> Difference:
    """A difference with this interval."""
    return Difference(
        metric="time_to_first_token",
        statistic="mean",
        baseline=baseline,
        candidate=0.0,
        difference=(low + high) / 2,
        half_width=(high - low) / 2,
    )


@pytest.mark.parametrize(
    ("low", "high", "change"),
    [
        (5.1, 9.0, Change.WORSE),
        (4.9, 9.0, Change.NOT_CONCLUSIVE),
        (-9.0, 9.0, Change.NOT_CONCLUSIVE),
        (-4.9, 4.9, Change.WITHIN_TOLERANCE),
        (1.0, 4.9, Change.WITHIN_TOLERANCE),
        (-6.0, 4.9, Change.NOT_WORSE),
        (-9.0, -4.9, Change.NOT_WORSE),
        (-9.0, -5.1, Change.BETTER),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, change: Change) -> None:
    assert judge(difference(low, high), better=Better.LOWER, tolerance=0.05) is change
    assert judge(difference(-high, -low), better=Better.HIGHER, tolerance=0.05) is change


def test_without_tolerance_any_certain_difference_counts() -> None:
    assert judge(difference(0.1, 0.2), better=Better.LOWER, tolerance=0) is Change.WORSE
    assert judge(difference(-0.2, -0.1), better=Better.LOWER, tolerance=0) is Change.BETTER
    assert judge(difference(0, 0), better=Better.LOWER, tolerance=0) is Change.WITHIN_TOLERANCE


def test_nothing_is_tolerated_where_the_baseline_is_0() -> None:
    worse = difference(0.01, 0.02, baseline=0.0)
    assert judge(worse, better=Better.LOWER, tolerance=0.5) is Change.WORSE


def test_a_known_shift_is_found_from_one_trial_a_side() -> None:
    result = found(side(noisy(1)), side(noisy(2, slower=1.1)))
    assert (result.change, result.method) == (Change.WORSE, Method.PAIRED_REQUESTS)
    assert result.relative == pytest.approx(0.1, abs=0.005)
    assert result.relative_half_width is not None
    assert result.relative_half_width < 0.02, "the prompts' lengths are no noise"


def test_a_known_shift_is_found_from_three_trials_a_side() -> None:
    before, after = (side(*(noisy(n, slower=s) for n in ns)) for ns, s in (
        ((1, 2, 3), 1.0), ((4, 5, 6), 0.9)))  # fmt: skip
    result = found(before, after)
    assert (result.change, result.method) == (Change.BETTER, Method.PAIRED_TRIALS)
    assert result.relative == pytest.approx(-0.1, abs=0.005)
    assert result.basis == "200 requests, each in 3 and 3 trials"


def test_without_the_same_prompts_the_trials_are_compared() -> None:
    before = side(noisy(1), noisy(2), noisy(3))
    after = side(*(noisy(n, prompts=2) for n in (4, 5, 6)), seed=8)
    result = found(before, after)
    assert result.method is Method.TRIALS
    single = found(side(noisy(1)), side(noisy(2), seed=8))
    assert (single.method, single.half_width) == (None, None)
    assert "mean over other requests" in single.doubt


@pytest.mark.parametrize("measure", [P99, THROUGHPUT])
def test_a_percentile_or_a_rate_needs_three_trials(measure: Measure) -> None:
    two = found(side(noisy(1), noisy(2)), side(noisy(3), noisy(4)), measure)
    assert (two.change, two.half_width) == (Change.NOT_CONCLUSIVE, None)
    assert two.difference is not None
    assert two.doubt.endswith("measure both runs with spec.trials.count: 3 or more")
    three = [side(*(noisy(n) for n in numbers)) for numbers in ((1, 2, 3), (4, 5, 6))]
    assert found(three[0], three[1], measure).method is Method.TRIALS


def test_more_throughput_is_better() -> None:
    before, after = (
        side(*(trial([50.0] * 60, throughput=rate + n / 100) for n in range(3)))
        for rate in (10.0, 12.0)
    )
    assert found(before, after, THROUGHPUT).change is Change.BETTER
    assert found(after, before, THROUGHPUT).change is Change.WORSE


def test_a_metric_that_one_side_lacks_names_it() -> None:
    result = found(side(noisy(1)), side(noisy(2)), Measure(metric="goodput", statistic="mean"))
    assert (result.baseline, result.change) == (None, Change.NOT_CONCLUSIVE)
    assert result.doubt.startswith("the baseline and the candidate did not measure it")


def test_few_requests_say_how_many_are_needed() -> None:
    few = found(side(noisy(1, requests=30)), side(noisy(2, requests=30)))
    assert few.change is Change.NOT_CONCLUSIVE
    assert "only 30 requests can be paired and 50 are needed" in few.doubt


def test_a_backlog_that_grows_through_the_trial_decides_nothing() -> None:
    growing = trial([50.0 + 2 * number for number in range(200)])
    result = found(side(trial([50.0] * 200)), side(growing))
    assert result.change is Change.NOT_CONCLUSIVE
    assert "drifts through the whole trial" in result.doubt


def wild(seed: int) -> TrialSummary:
    """Sixty latencies from 1 ms to 10 s; a few failures."""
    random = Random(seed)  # noqa: S311 - no secret
    return trial([
        None if random.random() < 0.02 else 10 ** random.uniform(0, 4) for _ in range(60)
    ])  # fmt: skip


trials = st.lists(st.integers(0, 2**32).map(wild), min_size=1, max_size=4)


@given(trials)
def test_a_run_against_itself_is_never_a_change(summaries: list[TrialSummary]) -> None:
    itself = side(*summaries)
    for tolerance in (0.0, 0.05):
        pairs = match(itself, itself)
        results = [compare(TTFT, itself, itself, pairs, tolerance=tolerance)]
        results += compare_others(TTFT, itself, itself, pairs, tolerance=tolerance)
        assert not {result.change for result in results} & {Change.WORSE, Change.BETTER}


@given(trials, trials, st.randoms(use_true_random=False))
def test_the_order_of_trials_means_nothing(
    before: list[TrialSummary], after: list[TrialSummary], random: Random
) -> None:
    def result() -> list[Difference]:
        sides = side(*before), side(*after)
        pairs = match(*sides)
        others = compare_others(TTFT, *sides, pairs, tolerance=0.05)
        return [compare(TTFT, *sides, pairs, tolerance=0.05), *others]

    first = result()
    random.shuffle(before)
    random.shuffle(after)
    assert result() == first


@given(trials, trials)
def test_the_other_way_round_the_difference_has_the_other_sign(
    before: list[TrialSummary], after: list[TrialSummary]
) -> None:
    there, back = found(side(*before), side(*after)), found(side(*after), side(*before))
    assert there.difference is not None
    assert back.difference == pytest.approx(-there.difference)
    if there.half_width is not None:
        assert back.half_width == pytest.approx(there.half_width)


def test_the_same_server_is_rarely_called_worse() -> None:
    """With no tolerance one in forty is, by the meaning of 95 %."""
    cases = [
        found(side(noisy(2 * n)), side(noisy(2 * n + 1)), tolerance=0.0).change for n in range(200)
    ]
    assert cases.count(Change.WORSE) <= 10


def test_other_metrics_have_p_values_that_are_corrected_together() -> None:
    before, after = (side(*(noisy(n, slower=s) for n in range(3))) for s in (1.0, 1.2))
    others = compare_others(TTFT, before, after, match(before, after), tolerance=0.05)
    assert TTFT.statistic not in [o.statistic for o in others if o.metric == TTFT.metric]
    tested = [other for other in others if other.p_value is not None]
    assert len(tested) > 3
    assert all(o.p_adjusted is not None and o.p_adjusted >= (o.p_value or 0) for o in tested)


def test_a_change_among_many_metrics_counts_only_after_the_correction() -> None:
    """p of 0.036 is a change for the primary metric, and not for one of several others."""
    before = side(*(trial([50.0] * 60, throughput=rate) for rate in (10.0, 10.2, 10.4)))
    after = side(*(trial([50.0] * 60, throughput=rate) for rate in (9.5, 9.7, 9.9)))
    alone = found(before, after, THROUGHPUT, tolerance=0.0)
    assert alone.change is Change.WORSE
    [among] = [
        other
        for other in compare_others(TTFT, before, after, match(before, after), tolerance=0.0)
        if other.metric == THROUGHPUT.metric
    ]
    assert alone.p_value == among.p_value
    assert (among.change, among.doubt != "") == (Change.NOT_CONCLUSIVE, True)


def test_metrics_that_neither_run_has_are_not_shown() -> None:
    one = side(noisy(1, requests=60))
    shown = {other.metric for other in compare_others(TTFT, one, one, None, tolerance=0.05)}
    assert "output_token_throughput" not in shown
    assert "request_throughput" in shown
