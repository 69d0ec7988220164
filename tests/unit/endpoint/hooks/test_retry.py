"""Waits between two tries, and the budget that they never leave."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.endpoint.hooks.retry import next_wait, retry_after

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def waits(budget: float) -> list[float]:
    """Waits of a server that answers "busy" at once for ever."""
    passed = 0.0
    found: list[float] = []
    while (wait := next_wait(len(found) + 1, budget - passed, None)) is not None:
        passed += wait
        found.append(wait)
    return found


@pytest.mark.parametrize(
    ("budget", "expected"),
    [
        (60, [1, 2, 4, 8, 8, 8, 8, 8, 8, 4]),
        (5, [1, 2, 1]),
        (3, [1, 1]),
        (1.5, []),
        (0, []),
    ],
)
def test_waits_double_to_eight_seconds_and_the_last_is_cut(
    budget: float, expected: list[float]
) -> None:
    assert waits(budget) == expected


@given(st.floats(min_value=0, max_value=3600))
def test_the_last_try_still_fits_into_the_budget(budget: float) -> None:
    found = waits(budget)
    assert all(wait >= 1 for wait in found)
    assert sum(found) <= max(budget - 1, 0) + 1e-6


def test_the_server_is_not_asked_sooner_than_it_said() -> None:
    assert next_wait(1, 60, 20.0) == 20
    assert next_wait(4, 60, 2.0) == 2
    assert next_wait(1, 60, 0.0) == 1
    assert next_wait(1, 10, 20.0) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("3", 3.0),
        ("Thu, 01 Jan 2026 00:00:07 GMT", 7.0),
        ("Wed, 31 Dec 2025 23:59:00 GMT", 0.0),
        ("soon", None),
        ("-1", None),
        ("", None),
    ],
)
def test_retry_after_is_seconds_or_a_date(text: str, expected: float | None) -> None:
    assert retry_after({"retry-after": text}, NOW) == expected


def test_an_answer_without_the_header_asks_for_nothing() -> None:
    assert retry_after({}, NOW) is None
