"""Quantities as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.api.quantity import QuantityError, parse_duration, parse_fraction, parse_number


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("500ms", 0.5), ("2s", 2.0), ("1m", 60.0), ("1.5h", 5400.0), ("0s", 0.0)],
)
def test_a_duration_becomes_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "fraction"), [("1%", 0.01), ("0.25", 0.25), (0.25, 0.25), ("100%", 1.0), (0, 0.0)]
)
def test_a_share_becomes_a_fraction_of_one(value: str | float, fraction: float) -> None:
    assert parse_fraction(value) == pytest.approx(fraction)


@pytest.mark.parametrize(("value", "number"), [("2000", 2000.0), ("2.608", 2.608), (3, 3.0)])
def test_a_number_may_stand_in_quotes(value: str | float, number: float) -> None:
    assert parse_number(value) == number


@pytest.mark.parametrize("value", ["500", 500, "500 ms", "5us", "1m30s", "-1s", "", "٣s", "1e3s"])
def test_a_duration_needs_a_number_and_one_known_unit(value: str | float) -> None:
    with pytest.raises(QuantityError, match=r"500ms|quantity"):
        parse_duration(value)


@pytest.mark.parametrize("value", ["101%", 1.5, -0.1, "1s", float("nan")])
def test_a_share_lies_between_nothing_and_all(value: str | float) -> None:
    with pytest.raises(QuantityError):
        parse_fraction(value)


def test_a_number_has_no_unit() -> None:
    with pytest.raises(QuantityError, match="plain number"):
        parse_number("3s")


@given(st.integers(min_value=0, max_value=10**9))
def test_milliseconds_and_seconds_agree(milliseconds: int) -> None:
    assert parse_duration(f"{milliseconds}ms") == pytest.approx(
        parse_duration("1s") * milliseconds / 1000
    )
