"""Standard errors: against textbooks, and against what they promise on simulated streams."""

from __future__ import annotations

import math
from itertools import accumulate
from random import Random
from statistics import median
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.measure.estimate import LEAST_VALUES, Estimate, batch_means, welch

if TYPE_CHECKING:
    from collections.abc import Callable

values = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=6)


def test_welch_agrees_with_an_example_by_hand() -> None:
    # Means 4 and 9, variances 4 and 9, three and four values: the squared error is
    # 4/3 + 9/4 = 3.5833, the freedom 3.5833^2 / ((4/3)^2 / 2 + (9/4)^2 / 3) = 4.9838.
    spread = math.sqrt(27 / 4)
    found = welch([2, 4, 6], [9 - spread, 9 - spread, 9 + spread, 9 + spread])
    assert found.value == pytest.approx(5)
    assert found.error == pytest.approx(math.sqrt(3.58333), rel=1e-5)
    assert found.freedom == pytest.approx(4.9838, abs=1e-4)


@given(values, values)
def test_the_freedom_of_welch_is_never_more_than_both_samples_have(
    before: list[float], after: list[float]
) -> None:
    found = welch(before, after)
    assert 1 <= found.freedom <= len(before) + len(after) - 2 + 1e-6


@given(values, values)
def test_the_other_way_round_the_difference_has_the_other_sign(
    before: list[float], after: list[float]
) -> None:
    there, back = welch(before, after), welch(after, before)
    assert back.value == -there.value
    assert back.error == pytest.approx(there.error)


def test_without_any_spread_a_difference_is_certain_and_none_is_none() -> None:
    assert welch([2, 2, 2], [2, 2]).p_value == 1
    certain = welch([2, 2, 2], [3, 3])
    assert (certain.half_width(), certain.p_value) == (0, 0)


def test_the_interval_excludes_0_exactly_when_p_is_below_five_per_cent() -> None:
    for value in (2.77, 2.78):
        found = Estimate(value=value, error=1.0, freedom=4)
        assert (found.half_width() < value) == (found.p_value < 0.05)


def test_batch_means_of_independent_values_are_near_the_plain_standard_error() -> None:
    random = Random(1)  # noqa: S311 - no secret
    streams = [[random.gauss() for _ in range(500)] for _ in range(200)]
    errors = [found.error * math.sqrt(500) for found in map(batch_means, streams) if found]
    assert len(errors) > 190
    assert 0.9 < median(errors) < 1.3


def test_too_few_values_have_no_interval() -> None:
    assert batch_means([0.0] * (LEAST_VALUES - 1)) is None
    assert batch_means([0.0] * LEAST_VALUES) == Estimate(value=0, error=0, freedom=9)


def test_a_stream_that_drifts_has_no_interval() -> None:
    assert batch_means([float(number) for number in range(1000)]) is None


def ar1(random: Random, phi: float, length: int) -> list[float]:
    """A stationary first-order autoregressive stream around 0."""
    start = random.gauss() / math.sqrt(1 - phi * phi)
    noise = (random.gauss() for _ in range(length - 1))
    return list(accumulate(noise, lambda last, shock: phi * last + shock, initial=start))


def waits(random: Random, arrivals: list[float], load: float) -> list[float]:
    """Waiting times of a queue with one server, by Lindley's recursion."""
    steps = (random.expovariate(1 / load) - gap for gap in arrivals[1:])
    return list(accumulate(steps, lambda wait, step: max(wait + step, 0.0), initial=0.0))


def queues(random: Random, load: float, length: int) -> list[float]:
    """Request by request, one of two alike queues with the same arrivals less the other."""
    arrivals = [random.expovariate(1) for _ in range(length)]
    before, after = waits(random, arrivals, load), waits(random, arrivals, load)
    return [b - a for a, b in zip(before, after, strict=True)]


@pytest.mark.parametrize(
    ("stream", "least"),
    [
        (lambda random: ar1(random, 0.0, 500), 0.93),
        (lambda random: ar1(random, 0.5, 500), 0.93),
        (lambda random: ar1(random, 0.9, 500), 0.92),
        (lambda random: queues(random, 0.5, 500), 0.93),
        (lambda random: queues(random, 0.8, 500), 0.92),
    ],
    ids=["independent", "ar1 0.5", "ar1 0.9", "queue 0.5", "queue 0.8"],
)
def test_95_per_cent_of_the_intervals_hold_the_truth(
    stream: Callable[[Random], list[float]], least: float
) -> None:
    random = Random(20261)  # noqa: S311 - no secret
    found = [batch_means(stream(random)) for _ in range(400)]
    known = [one for one in found if one is not None]
    assert len(known) > 0.9 * len(found)
    held = sum(abs(one.value) <= one.half_width() for one in known) / len(known)
    assert least <= held <= 0.99
