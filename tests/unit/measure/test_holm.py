from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.measure.holm import holm

p_values = st.lists(st.floats(min_value=0, max_value=1), max_size=12)


def test_it_agrees_with_an_example_by_hand() -> None:
    # In order: 4 * 0.005, then 3 * 0.01, then 2 * 0.03, then 1 * 0.04, which is below the one
    # before it and is raised to that.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_a_single_value_stays_and_none_exceeds_1() -> None:
    assert holm([0.2]) == [0.2]
    assert holm([0.6, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


@given(p_values)
def test_it_lies_between_the_value_and_bonferronis(values: list[float]) -> None:
    for value, adjusted in zip(values, holm(values), strict=True):
        assert value <= adjusted <= min(value * len(values), 1.0)


@given(p_values)
def test_it_keeps_the_order(values: list[float]) -> None:
    adjusted = holm(values)
    ranked = sorted(range(len(values)), key=values.__getitem__)
    assert [adjusted[place] for place in ranked] == sorted(adjusted)


@given(p_values, st.randoms(use_true_random=False))
def test_the_order_of_the_values_means_nothing(values: list[float], random: object) -> None:
    places = list(range(len(values)))
    random.shuffle(places)  # type: ignore[attr-defined]  # hypothesis gives a Random
    shuffled = holm([values[place] for place in places])
    assert shuffled == [holm(values)[place] for place in places]
