from __future__ import annotations

import pytest

from tare.results.units import clock, latency, number, share, with_interval


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.001234, "0.00123"),
        (0.0000123, "0.000012"),
        (12.345, "12.3"),
        (999.4, "999"),
        (999.6, "1,000"),
        (1234.5, "1,234"),
        (1_234_567, "1,234,567"),
        (-0.5, "-0.5"),
    ],
)
def test_a_number_has_three_digits_and_no_exponent(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (0, "0 ms"),
        (0.0000042, "4.2 µs"),
        (0.0123, "12.3 ms"),
        (0.9996, "1,000 ms"),
        (1.5, "1.5 s"),
        (75, "75 s"),
    ],
)
def test_a_latency_has_the_unit_that_fits(seconds: float | None, text: str) -> None:
    assert latency(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (65, "1:05"), (7265, "2:01:05")]
)
def test_a_span_is_written_as_on_a_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_a_share_is_a_percentage() -> None:
    assert share(0.0123) == "1.23 %"
    assert share(None) == "-"


@pytest.mark.parametrize(
    ("value", "half_width", "text"),
    [
        (None, None, "-"),
        (12.345, None, "12.3"),
        (12.345, 0.0, "12.3 ±0"),
        (12.345, 0.54, "12.35 ±0.54"),
        (12.345, 3.9, "12.3 ±3.9"),
        (1234.5, 56.7, "1,234 ±57"),
        (1234.5, 567.8, "1,234 ±568"),
        (2.9, 0.0028, "2.9000 ±0.0028"),
        (2.9, 0.0000028, "2.9000 ±0.0000"),
        (0.0, 0.012, "0.000 ±0.012"),
    ],
)
def test_a_number_has_no_more_decimals_than_its_interval(
    value: float | None, half_width: float | None, text: str
) -> None:
    assert with_interval(value, half_width) == text


def test_an_interval_has_the_unit_of_its_value() -> None:
    assert latency(0.0661, 0.00154) == "66.1 ±1.5 ms"
    assert latency(1.11, 0.24) == "1.11 ±0.24 s"
    assert share(0.0123, 0.0045) == "1.23 ±0.45 %"
