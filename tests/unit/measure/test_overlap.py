"""Rates of a trial whose phases overlap: no second is counted twice."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.measured import phase_result
from tare.measure.metrics import SCALAR_STATISTIC
from tare.measure.profile import Profile

if TYPE_CHECKING:
    from tare.measure.messages import PhaseResult


def phase(shape: str, seconds: float, drain: float) -> PhaseResult:
    """A phase such as `p~`: of profiling, and seamless."""
    return phase_result(
        name=f"{shape}{seconds}",
        kind="profiling" if shape[0] == "p" else "warmup",
        seconds=seconds,
        drain_seconds=drain,
        seamless=shape.endswith("~"),
    )


@pytest.mark.parametrize(
    ("phases", "window", "drain"),
    [
        ([("p", 10, 2), ("p", 5, 1)], 15, 3),
        ([("w~", 10, 4), ("p", 5, 1)], 5, 1),
        ([("p~", 10, 2), ("p", 5, 1)], 15, 1),
        ([("p~", 10, 7), ("p", 5, 1)], 15, 2),
        ([("p~", 10, 9), ("p~", 2, 1), ("p", 3, 1)], 15, 4),
        ([("p~", 10, 2), ("w", 5, 9)], 10, 2),
        ([("p~", 10, 7), ("w", 5, 9)], 10, 7),
        ([("p~", 10, 7), ("w~", 2, 9), ("p", 3, 1)], 13, 2 + 2),
    ],
)
def test_answers_that_come_in_the_window_of_the_next_phase_take_no_time_of_their_own(
    phases: list[tuple[str, float, float]], window: float, drain: float
) -> None:
    profile = Profile.of([phase(*given) for given in phases])
    assert (profile.window, profile.drain) == (window, drain)


def test_the_rate_with_drain_is_over_the_time_that_passed() -> None:
    counts = {"ok": 30, "ok_in_window": 24}
    phases = [
        phase_result(name="a", seconds=10, drain_seconds=4, counts=counts, seamless=True),
        phase_result(name="b", seconds=10, drain_seconds=4, counts=counts),
    ]
    metrics = Profile.of(phases).metrics(goodput={}, cost=None)
    assert metrics["request_throughput"][SCALAR_STATISTIC] == pytest.approx(48 / 20)
    assert metrics["request_throughput_with_drain"][SCALAR_STATISTIC] == pytest.approx(60 / 24)
