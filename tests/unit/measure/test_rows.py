from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.measure.rows import COLUMNS, MOST_ROWS, Rows, merge_rows, read_rows, rows_of_trial

VALUES = st.tuples(*(st.integers(-1, 10**9) for _ in COLUMNS[1:-1]), st.integers(0, 4))


def rows_of(rows: list[tuple[int, ...]], most: int = MOST_ROWS) -> dict[str, Any]:
    collected = Rows(most)
    for row in rows:
        collected.add_all([[value] for value in row])
    return collected.to_json()


def numbered(count: int) -> list[tuple[int, ...]]:
    return [(number, number % 7, 10 * number, 0, 1, 2, 3, -1, 0) for number in range(count)]


def test_a_row_is_read_as_it_was_added() -> None:
    document = rows_of(
        [(7, 2, 5_000, 12, 101_000, 250_000, 64, 16, 0), (8, 3, 9, -1, *[-1] * 4, 3)]
    )

    first, second = read_rows(document)

    assert (first.number, first.entry, first.due, first.lag) == (7, 2, 5_000, 12)
    assert (first.time_to_first_token, first.latency) == (101_000, 250_000)
    assert (first.output_tokens, first.cached_tokens, first.outcome) == (64, 16, "ok")
    assert (second.lag, second.time_to_first_token, second.cached_tokens) == (None, None, None)
    assert second.outcome == "timeout"


@settings(deadline=None)
@given(
    st.lists(VALUES, max_size=60),
    st.integers(1, 70),
    st.lists(st.integers(0, 3), min_size=60, max_size=60),
    st.permutations(range(4)),
)
def test_rows_depend_on_the_requests_and_not_on_who_sent_them(
    values: list[tuple[int, ...]], most: int, sender: list[int], order: list[int]
) -> None:
    rows = [(number, *value) for number, value in enumerate(values)]
    parts = [[row for row in rows if sender[row[0]] == worker] for worker in order]

    merged = merge_rows([rows_of(part[::-1], most) for part in parts])
    left = merge_rows(
        [merge_rows([rows_of(p, most) for p in parts[:2]]), *(rows_of(p, most) for p in parts[2:])]
    )

    assert merged == left == rows_of(rows, most)


def test_too_many_rows_are_thinned_out_evenly_over_the_run_and_over_its_workers() -> None:
    kept = [row.number for row in read_rows(rows_of(numbered(10_000), most=1_000))]

    assert 500 <= len(kept) <= 1_000
    by_quarter = [sum(n // 2_500 == quarter for n in kept) for quarter in range(4)]
    assert max(by_quarter) - min(by_quarter) <= 3
    for workers in (2, 3, 4, 8):
        owned = [sum(n % workers == worker for n in kept) for worker in range(workers)]
        assert max(owned) <= 1.2 * len(kept) / workers


def test_a_longer_run_keeps_requests_that_a_shorter_one_kept_too() -> None:
    short = {row.number for row in read_rows(rows_of(numbered(3_000), most=1_000))}
    long = {row.number for row in read_rows(rows_of(numbered(30_000), most=1_000))}

    assert {number for number in long if number < 3_000} < short


def test_whoever_kept_no_rows_has_none_to_merge() -> None:
    one = rows_of(numbered(3))

    assert merge_rows([{}, {}]) == {}
    assert merge_rows([{}, one]) == one
    assert list(read_rows({})) == []


@pytest.mark.parametrize(
    "damage",
    [
        {"level": 64},
        {"most": 0},
        {"columns": {}},
        {"columns": "text"},
        {"columns": dict.fromkeys(COLUMNS, "1 2") | {"due": "1"}},
        {"columns": dict.fromkeys(COLUMNS, "1 x")},
        {"columns": dict.fromkeys(COLUMNS, "9")},
    ],
)
def test_what_is_no_rows_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the text is Python's in one case
        list(read_rows({**rows_of(numbered(2)), **damage}))


def test_all_trials_of_a_run_find_room() -> None:
    assert rows_of_trial(1) == rows_of_trial(10) == MOST_ROWS
    assert rows_of_trial(1500) * 1500 <= 1_000_000
    assert rows_of_trial(10_000) > 0
