from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.plan.order import DatasetOrder, Lengths, TurnsOrder
from tare.plan.turns import MAX_TURNS, TurnPlan


def plan(entries: int = 1000, **turns: float) -> TurnPlan:
    return TurnPlan(
        DatasetOrder(
            entries=entries,
            isl=Lengths(value=8),
            osl=Lengths(value=8),
            turns=TurnsOrder(**turns),
        )
    )


def test_a_whole_mean_is_the_number_of_turns_of_every_session() -> None:
    turns = plan(mean=3.0)
    assert {turns.turns(session) for session in range(2000)} == {3}


def test_a_fraction_is_drawn_between_the_two_whole_numbers_around_it() -> None:
    turns = plan(mean=2.25)
    drawn = [turns.turns(session) for session in range(1000)]
    assert set(drawn) == {2, 3}
    assert sum(drawn) / 1000 == pytest.approx(2.25, abs=0.05)


def test_a_chance_of_another_turn_gives_a_geometric_number() -> None:
    turns = plan(continue_probability=0.75)
    drawn = [turns.turns(session) for session in range(1000)]
    assert sum(drawn) / 1000 == pytest.approx(4, rel=0.1)
    assert drawn.count(1) / 1000 == pytest.approx(0.25, abs=0.05)
    assert max(drawn) <= MAX_TURNS


def test_no_chance_of_another_turn_is_one_turn() -> None:
    assert {plan(continue_probability=0.0).turns(session) for session in range(50)} == {1}


@given(st.integers(1, 9), st.floats(0, 0.9))
def test_request_numbers_go_through_all_turns_of_one_session_after_the_other(
    entries: int, chance: float
) -> None:
    turns = plan(entries, continue_probability=chance)
    numbers = [
        turns.first_number(session) + turn
        for session in range(25)
        for turn in range(turns.turns(session))
    ]
    assert numbers == list(range(len(numbers)))
