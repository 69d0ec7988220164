"""Rows of `status.cells`: what they say, how much they weigh, and which are shown."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.summaries import GOALS, cells, failed, measured
from tare.api.reasons import CellState, Reason
from tare.api.status import ROW_LIMIT
from tare.decide.attempt import Attempt
from tare.decide.children import TrialKey
from tare.decide.outcome import CellOutcome, outcome_of
from tare.decide.rows import row, select_rows
from tare.measure.cell import Aggregate, CellSummary
from tare.measure.goals import Goal

LONGEST = "concurrency=128,isl=2048,target=warmup_isolation_first_tu…#499"
"""As `plan.sweep` shortens names: 63 characters."""
LATENCY = st.floats(min_value=1e-3, max_value=1e4)
RATE = st.floats(min_value=1e-2, max_value=1e6)


def outcome(index: int, state: CellState = CellState.PENDING) -> CellOutcome:
    return CellOutcome(index=index, name=f"rate={index}", overrides={}, state=state)


def summary_of(values: dict[str, dict[str, float]], width: float) -> CellSummary:
    metrics = {
        metric: {
            statistic: Aggregate(mean=value, trials=3, stddev=0.1, half_width=value * width)
            for statistic, value in statistics.items()
        }
        for metric, statistics in values.items()
    }
    return CellSummary(trials=3, counts={}, metrics=metrics)


def size_of(document: Any) -> int:
    return len(orjson.dumps(document))


def test_a_measured_cell_shows_its_headlines_and_intervals_from_three_trials_on() -> None:
    [cell] = cells(1, trials=3)
    trials = [measured(0, trial, scale=1 + trial / 10) for trial in range(3)]
    assert row(outcome_of(cell, trials, GOALS)) == {
        "index": 0,
        "name": "rate=4",
        "state": "Measured",
        "metrics": {
            "request_throughput": "12.5 ±0",
            "output_token_throughput": "1600 ±0",
            "time_to_first_token_p50": "0.099 ±0.0224",
            "time_to_first_token_p99": "0.22 ±0.0497",
            "request_latency_p99": "2.2 ±0.497",
            "error_rate": "0.02 ±0",
        },
        "goals": "Met",
    }


def test_one_trial_has_no_interval() -> None:
    [cell] = cells(1)
    found = row(outcome_of(cell, [measured(0)], GOALS))
    assert found["metrics"]["time_to_first_token_p50"] == "0.09"


def test_a_lost_cell_shows_why_and_no_numbers() -> None:
    [cell] = cells(1, trials=2)
    assert row(outcome_of(cell, [measured(0), failed(0, 1)], GOALS)) == {
        "index": 0,
        "name": "rate=4",
        "state": "Failed",
        "trialsDone": 1,
        "reason": "ResetRefused",
        "message": "qwen-1 answered 404: VLLM_SERVER_DEV_MODE=1 is not set",
    }


def test_a_cell_that_waits_is_four_fields() -> None:
    assert row(outcome(3)) == {"index": 3, "name": "rate=3", "state": "Pending", "trialsDone": 0}


@pytest.mark.parametrize(
    ("goals", "text"),
    [
        ((), None),
        ((Goal(metric="request_throughput", min=3.0),), "Met"),
        ((Goal(metric="request_throughput", min=99.0),), "Missed"),
        ((Goal(metric="goodput", min=1.0),), "Unknown"),
        ((Goal(metric="goodput", min=1.0), Goal(metric="error_rate", max=0.001)), "Missed"),
    ],
)
def test_one_missed_goal_outweighs_what_is_unknown(
    goals: tuple[Goal, ...], text: str | None
) -> None:
    [cell] = cells(1)
    assert row(outcome_of(cell, [measured(0)], goals)).get("goals") == text


@given(
    latencies=st.lists(LATENCY, min_size=3, max_size=3),
    rates=st.lists(RATE, min_size=2, max_size=2),
    errors=st.floats(min_value=0, max_value=1),
    width=st.floats(min_value=1e-2, max_value=10),
)
def test_a_row_of_numbers_weighs_at_most_400_bytes(
    latencies: list[float], rates: list[float], errors: float, width: float
) -> None:
    p50, p99, whole = latencies
    summary = summary_of(
        {
            "time_to_first_token": {"p50": p50, "p99": p99},
            "request_latency": {"p99": whole},
            "request_throughput": {"mean": rates[0]},
            "output_token_throughput": {"mean": rates[1]},
            "error_rate": {"mean": round(errors, 4)},
        },
        width,
    )
    cell = CellOutcome(
        index=499,
        name="rate=100000,isl=131072",
        overrides={},
        state=CellState.MEASURED,
        trials_done=3,
        summary=summary,
    )
    assert size_of(row(cell)) <= 400


@given(st.text(min_size=1), st.integers(min_value=1, max_value=2000))
def test_b105_whatever_a_server_said_a_failed_row_weighs_at_most_400_bytes(
    words: str, times: int
) -> None:
    [cell] = cells(1)
    said = replace(failed(0), message=(words * times)[:1024])
    found = row(replace(outcome_of(cell, [said], GOALS), name=LONGEST, index=499))
    assert size_of(found) <= 400
    assert said.message.startswith(found["message"])


def test_a_message_stays_readable_beside_a_name_of_four_byte_characters() -> None:
    said = replace(failed(0), message="qwen-1 answered 404: " * 50)
    [cell] = cells(1)
    found = row(replace(outcome_of(cell, [said], GOALS), name="🧪" * 63))
    assert len(found["message"]) >= 40


# Selection


def test_up_to_a_hundred_cells_are_all_shown() -> None:
    outcomes = [outcome(index) for index in range(ROW_LIMIT)]
    assert select_rows(outcomes, None, None) == outcomes


def many(measured_cells: range, lost: range) -> list[CellOutcome]:
    states = dict.fromkeys(measured_cells, CellState.MEASURED)
    states |= dict.fromkeys(lost, CellState.FAILED)
    return [outcome(index, states.get(index, CellState.PENDING)) for index in range(500)]


def shown(outcomes: list[CellOutcome], best: int | None, current: int | None) -> list[int]:
    attempt = None
    if current is not None:
        attempt = Attempt(key=TrialKey(current, 0, 1), started=0.0)
    return [found.index for found in select_rows(outcomes, best, attempt)]


def test_of_more_the_best_and_the_current_one_are_always_shown() -> None:
    found = shown(many(range(450), range(450, 450)), best=7, current=451)
    assert len(found) == ROW_LIMIT
    assert {7, 451} <= set(found)


def test_failed_ones_come_before_measured_ones_and_these_before_the_rest() -> None:
    found = shown(many(range(10, 400), range(10)), best=None, current=None)
    assert set(range(10)) <= set(found)
    assert set(found) - set(range(10)) == set(range(310, 400))


def test_the_best_and_the_current_one_are_shown_beside_hundreds_of_failed_ones() -> None:
    found = shown(many(range(5), range(5, 490)), best=2, current=495)
    assert len(found) == ROW_LIMIT
    assert {2, 495} <= set(found)


@given(
    best=st.none() | st.integers(min_value=0, max_value=499),
    current=st.none() | st.integers(min_value=0, max_value=499),
    split=st.integers(min_value=0, max_value=499),
)
def test_the_rows_are_distinct_and_in_the_order_of_the_sweep(
    best: int | None, current: int | None, split: int
) -> None:
    found = shown(many(range(split), range(split, 400)), best, current)
    assert found == sorted(set(found))
    assert len(found) == ROW_LIMIT


def test_the_reason_of_a_row_is_the_one_of_the_lost_trial() -> None:
    [cell] = cells(1, trials=3)
    lost = replace(failed(0, 2), state=CellState.INVALID, reason=Reason.OOM_KILLED)
    found = row(outcome_of(cell, [measured(0, 0), measured(0, 1), lost], ()))
    assert (found["state"], found["reason"], found["trialsDone"]) == ("Invalid", "OOMKilled", 2)
