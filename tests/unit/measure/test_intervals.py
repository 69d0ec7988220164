from __future__ import annotations

import math

import pytest

from tare.measure.intervals import interval, t_quantile, t_tails

# https://www.itl.nist.gov/div898/handbook/eda/section3/eda3672.htm, column 0.975.
NIST = {
    1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262,
    10: 2.228, 11: 2.201, 12: 2.179, 13: 2.160, 14: 2.145, 15: 2.131, 16: 2.120, 17: 2.110,
    18: 2.101, 19: 2.093, 30: 2.042, 99: 1.984,
}  # fmt: skip


@pytest.mark.parametrize(("freedom", "t"), NIST.items())
def test_t_agrees_with_the_table_of_nist(freedom: int, t: float) -> None:
    assert t_quantile(freedom) == pytest.approx(t, abs=0.00051)


@pytest.mark.parametrize(
    ("freedom", "confidence", "t"), [(1, 0.5, 1.0), (2, 0.99, 9.9248), (10, 0.9, 1.8125)]
)
def test_t_is_right_for_other_confidences(freedom: int, confidence: float, t: float) -> None:
    assert t_quantile(freedom, confidence) == pytest.approx(t, abs=5e-5)


def test_an_interval_is_the_mean_and_t_standard_errors() -> None:
    found = interval([10, 12, 14])

    assert found is not None
    assert (found.mean, found.stddev, found.count) == (12, 2, 3)
    assert found.half_width == pytest.approx(4.968, abs=0.0005)


@pytest.mark.parametrize("values", [[], [7.0]])
def test_fewer_than_two_values_have_no_interval(values: list[float]) -> None:
    assert interval(values) is None


def test_equal_values_have_an_interval_of_no_width() -> None:
    found = interval([0.1, 0.1, 0.1])

    assert found is not None
    assert found.mean == pytest.approx(0.1)
    assert (found.stddev, found.half_width) == (0, 0)


@pytest.mark.parametrize(("freedom", "confidence"), [(0, 0.95), (2, 0.0), (2, 1.0)])
def test_t_without_freedom_or_confidence_is_refused(freedom: int, confidence: float) -> None:
    with pytest.raises(ValueError, match="not defined"):
        t_quantile(freedom, confidence)


@pytest.mark.parametrize(
    ("freedom", "t"),
    # By numerical integration of the density; whole neighbours are 4.303, 3.182 and 2.776.
    [(2.5, 3.5747), (3.5, 2.9401)],
)
def test_t_exists_between_whole_degrees_of_freedom(freedom: float, t: float) -> None:
    assert t_quantile(freedom) == pytest.approx(t, abs=0.0001)


@pytest.mark.parametrize("freedom", [1, 2.5, 4, 30])
def test_the_tails_beyond_the_quantile_hold_the_rest(freedom: float) -> None:
    for confidence in (0.5, 0.95, 0.999):
        tails = t_tails(-t_quantile(freedom, confidence), freedom)
        assert tails == pytest.approx(1 - confidence, rel=1e-6)


def test_the_tails_of_one_degree_of_freedom_are_those_of_cauchy() -> None:
    assert t_tails(1, 1) == pytest.approx(0.5)
    assert t_tails(3, 1) == pytest.approx(1 - 2 / math.pi * math.atan(3))
    assert t_tails(0, 7) == 1
