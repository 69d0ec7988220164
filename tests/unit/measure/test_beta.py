from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.measure.beta import incomplete_beta

positive = st.floats(min_value=0.1, max_value=200)
share = st.floats(min_value=0, max_value=1)


@pytest.mark.parametrize(
    ("a", "b", "x", "value"),
    [
        (1, 1, 0.3, 0.3),
        (1, 3, 0.3, 1 - 0.7**3),
        (4, 1, 0.3, 0.3**4),
        (2, 3, 0.5, 11 / 16),
        # The arcsine distribution: 2 / pi * asin(sqrt(x)).
        (0.5, 0.5, 0.2, 2 / math.pi * math.asin(math.sqrt(0.2))),
    ],
)
def test_it_agrees_with_closed_forms(a: float, b: float, x: float, value: float) -> None:
    assert incomplete_beta(a, b, x) == pytest.approx(value, abs=1e-13)


@given(n=st.integers(1, 60), k=st.integers(1, 60), x=st.floats(0.01, 0.99))
def test_whole_numbers_give_a_binomial_tail(n: int, k: int, x: float) -> None:
    """I_x(k, n) is the probability of at least k successes in n + k - 1 draws (DLMF 8.17.5)."""
    draws = n + k - 1
    tail = sum(math.comb(draws, j) * x**j * (1 - x) ** (draws - j) for j in range(k, draws + 1))
    assert incomplete_beta(k, n, x) == pytest.approx(tail, abs=1e-11)


@given(a=positive, b=positive, x=share, y=share)
def test_it_rises_from_0_to_1(a: float, b: float, x: float, y: float) -> None:
    low, high = sorted((x, y))
    assert 0 <= incomplete_beta(a, b, low) <= incomplete_beta(a, b, high) + 1e-12
    assert (incomplete_beta(a, b, 0), incomplete_beta(a, b, 1)) == (0, 1)


@pytest.mark.parametrize(("a", "b", "x"), [(0, 1, 0.5), (1, -1, 0.5), (1, 1, -0.1), (1, 1, 1.1)])
def test_what_is_not_defined_is_refused(a: float, b: float, x: float) -> None:
    with pytest.raises(ValueError, match="not defined"):
        incomplete_beta(a, b, x)
