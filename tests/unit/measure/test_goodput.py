from __future__ import annotations

import pytest

from tare.measure.goodput import is_good, limits_in_nanoseconds

MS = 1_000_000
TTFT, TPOT, GAP = "time_to_first_token", "time_per_output_token", "inter_chunk_latency"


@pytest.mark.parametrize(
    ("limits", "values", "good"),
    [
        ({TTFT: 200}, {TTFT: 100}, True),
        ({TTFT: 200}, {TTFT: 200}, True),
        ({TTFT: 200}, {TTFT: 201}, False),
        ({TTFT: 200, TPOT: 5}, {TTFT: 100, TPOT: 6}, False),
        ({TTFT: 200, TPOT: 5}, {TTFT: 100, TPOT: None}, True),
        ({TTFT: 200, GAP: 5}, {TTFT: 100, GAP: None}, True),
        ({TTFT: 200}, {TTFT: None}, False),
        ({"request_latency": 900}, {"request_latency": None}, False),
        ({}, {}, True),
    ],
)
def test_a_good_request_meets_every_limit_that_it_has_a_value_for(
    limits: dict[str, int], values: dict[str, int | None], *, good: bool
) -> None:
    assert is_good(limits, values, ok=True) is good


def test_a_failed_request_is_never_good() -> None:
    assert not is_good({TTFT: 200}, {TTFT: 1}, ok=False)


def test_limits_are_turned_into_nanoseconds() -> None:
    assert limits_in_nanoseconds({TTFT: 0.5, TPOT: 0.05}) == {TTFT: 500 * MS, TPOT: 50 * MS}


def test_a_metric_that_single_requests_do_not_have_is_refused() -> None:
    with pytest.raises(ValueError, match=r"goodput.error_rate: unknown; allowed are time_to_first"):
        limits_in_nanoseconds({"error_rate": 0.01})
