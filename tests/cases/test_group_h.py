"""Public bug cases of group H: statistics, and what is said of one output token or none."""

from __future__ import annotations

import pytest

from support.measured import MS, histogram, phase_result, worker_result
from tare.measure.goodput import is_good, limits_in_nanoseconds
from tare.measure.histogram import Histogram
from tare.measure.intervals import interval
from tare.measure.trial import summarize

TTFT = "time_to_first_token"
TPOT = "time_per_output_token"
LIMITS = {TTFT: 0.2, TPOT: 0.005}


def test_b31_one_output_token_is_judged_by_its_first_token_alone() -> None:
    limits = limits_in_nanoseconds(LIMITS)

    assert is_good(limits, {TTFT: 100 * MS, TPOT: None}, ok=True)
    assert not is_good(limits, {TTFT: 201 * MS, TPOT: None}, ok=True)


def test_b31_a_pace_that_nobody_has_is_not_zero() -> None:
    phase = phase_result(
        counts={"issued": 1, "ok": 1, "tpot_undefined": 1, "good": 1},
        histograms={TTFT: histogram([100 * MS])},
    )

    summary = summarize([worker_result(phase)], goodput=LIMITS, cost=None)

    assert TPOT not in summary.metrics
    assert summary.counts["tpot_undefined"] == 1
    assert summary.metrics["good_request_fraction"]["mean"] == 1.0


def test_b32_an_empty_answer_is_not_good_where_a_first_token_is_asked_for() -> None:
    limits = limits_in_nanoseconds(LIMITS)

    assert not is_good(limits, {TTFT: None, TPOT: None}, ok=True)


def test_b32_an_answer_without_tokens_ends_the_report_normally() -> None:
    phase = phase_result(
        counts={"issued": 1, "ok": 1, "empty_output": 1, "tpot_undefined": 1},
        histograms={"output_tokens": histogram([0]), "chunks": histogram([0])},
    )

    summary = summarize([worker_result(phase)], goodput=LIMITS, cost=None)

    assert TTFT not in summary.metrics
    assert summary.metrics["output_tokens"]["max"] == 0
    assert summary.metrics["error_rate"]["mean"] == 0.0
    assert "tokens_per_chunk" not in summary.metrics


def test_b49_failed_requests_do_not_lower_the_latency() -> None:
    phase = phase_result(
        counts={"issued": 100, "ok": 50, "failed": 50, "good": 50},
        errors={"http_500": 50},
        histograms={"request_latency": histogram([120 * MS] * 50)},
    )

    summary = summarize([worker_result(phase)], goodput=LIMITS, cost=None)

    assert summary.metrics["request_latency"]["mean"] == pytest.approx(0.120)
    assert summary.metrics["good_request_fraction"]["mean"] <= 0.5


def test_b51_occurrences_are_counted_and_not_kinds() -> None:
    halves = [
        phase_result(
            counts={"issued": 15, "ok": 5, "failed": 10},
            errors={"http_500": 6, "http_429": 2, "reset": 2},
        ),
        phase_result(
            counts={"issued": 10, "ok": 0, "failed": 10},
            errors={"http_500": 6, "http_429": 3, "reset": 1},
        ),
    ]
    results = [worker_result(half, index=index) for index, half in enumerate(halves)]

    summary = summarize(results, goodput={}, cost=None)

    assert summary.counts["failed"] == 20
    assert summary.phases[0].errors == {"http_429": 5, "http_500": 12, "reset": 3}
    assert summary.metrics["error_rate"]["mean"] == pytest.approx(0.80)


def test_b104_percentiles_of_two_pods_are_those_of_all_their_requests() -> None:
    pods = [[10 * MS] * 900, [1000 * MS] * 100]
    results = [
        worker_result(phase_result(histograms={"request_latency": histogram(pod)}), index=index)
        for index, pod in enumerate(pods)
    ]

    latency = summarize(results, goodput={}, cost=None).metrics["request_latency"]

    assert (latency["p50"], latency["p95"], latency["p99"]) == (0.010, 1.0, 1.0)
    assert latency["mean"] == pytest.approx(0.109, rel=0.01)


def test_b104_holds_for_values_that_are_all_different() -> None:
    fast = [10 * MS + step for step in range(9000)]
    slow = [1000 * MS + step for step in range(1000)]

    merged = Histogram.merged(
        Histogram.from_json(document) for document in (histogram(fast), histogram(slow))
    )

    assert not merged.exact
    assert merged.percentile(50) == pytest.approx(10 * MS, rel=0.005)
    assert merged.percentile(95) == pytest.approx(1000 * MS, rel=0.005)
    assert merged.mean == pytest.approx(109 * MS, rel=0.001)


def test_b117_the_interval_of_three_repeats_is_students() -> None:
    found = interval([10, 12, 14])

    assert found is not None
    assert (found.mean, found.stddev) == (12, 2)
    assert found.half_width == pytest.approx(4.968, abs=0.0005)


def test_b117_one_repeat_has_no_interval_and_equal_ones_have_an_empty_one() -> None:
    equal = interval([5.0, 5.0, 5.0])

    assert interval([5.0]) is None
    assert equal is not None
    assert (equal.mean, equal.half_width) == (5, 0)


def test_b119_goodput_divides_by_everything_that_was_issued() -> None:
    phase = phase_result(seconds=10.0, counts={"issued": 100, "ok": 70, "failed": 30, "good": 50})

    metrics = summarize([worker_result(phase)], goodput=LIMITS, cost=None).metrics

    assert metrics["good_request_fraction"]["mean"] == 0.50
    assert metrics["goodput"]["mean"] == 5.0
