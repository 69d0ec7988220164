from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tare.plan.order import RampOrder
from tare.plan.pace import Pace

PACES = st.builds(
    Pace,
    target=st.floats(1, 1000),
    start=st.floats(0.01, 0.99),
    seconds=st.floats(0.1, 100),
    exponential=st.booleans(),
)


def test_without_a_ramp_the_value_is_there_from_the_gate_on() -> None:
    pace = Pace.of(4.0, None)

    assert pace.reached(4.0) == 0.0
    assert pace.area(2.5) == 10.0
    assert pace.when(10.0) == 2.5


def test_a_linear_ramp_covers_half_the_area_of_its_full_value() -> None:
    pace = Pace.of(10.0, RampOrder(seconds=4.0, start=0.0))

    assert pace.area(4.0) == pytest.approx(20)
    assert pace.area(6.0) == pytest.approx(40)
    assert pace.when(5.0) == pytest.approx(2.0)
    assert [pace.reached(level) for level in (2.5, 5.0, 10.0)] == [1.0, 2.0, 4.0]


def test_an_exponential_ramp_grows_by_equal_factors_in_equal_times() -> None:
    pace = Pace.of(16.0, RampOrder(type="exponential", seconds=4.0, start=1.0))

    assert [pace.reached(level) for level in (1, 2, 4, 8, 16)] == pytest.approx([0, 1, 2, 3, 4])


def test_a_ramp_that_starts_at_its_end_is_none() -> None:
    assert Pace.of(4.0, RampOrder(seconds=9.0, start=4.0)) == Pace.of(4.0, None)


@given(PACES, st.floats(0, 300))
def test_the_moment_of_an_area_is_the_one_at_which_it_is_reached(pace: Pace, time: float) -> None:
    assert pace.when(pace.area(time)) == pytest.approx(time, rel=1e-6, abs=1e-6)


@given(PACES, st.floats(0, 150), st.floats(0.001, 10))
def test_the_area_is_the_integral_of_the_value(pace: Pace, time: float, step: float) -> None:
    grown = pace.area(time + step) - pace.area(time)

    assert pace.start * step * 0.999 <= grown <= pace.target * step * 1.001


@given(PACES, st.floats(0, 1))
def test_levels_are_reached_in_their_order(pace: Pace, part: float) -> None:
    level = pace.start + part * (pace.target - pace.start)
    assume(pace.start < level < pace.target)

    assert 0 <= pace.reached(level) <= pace.seconds * 1.000001
