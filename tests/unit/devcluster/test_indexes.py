"""Index sets of Jobs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.devcluster.controllers.indexes import format_indexes, parse_indexes


@pytest.mark.parametrize(
    ("indexes", "text"),
    [
        (set(), ""),
        ({3}, "3"),
        ({0, 1}, "0,1"),
        ({0, 1, 2}, "0-2"),
        ({0, 2, 3, 4, 7}, "0,2-4,7"),
    ],
)
def test_runs_of_three_are_written_with_a_dash(indexes: set[int], text: str) -> None:
    assert format_indexes(indexes) == text


@given(st.sets(st.integers(min_value=0, max_value=200)))
def test_what_was_written_is_read_again(indexes: set[int]) -> None:
    assert parse_indexes(format_indexes(indexes)) == indexes
