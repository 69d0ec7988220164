"""The short form of `make fuzz`: the same answers and rules, with shrinking."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fuzz.check import check
from fuzz.streams import make


@given(st.randoms(use_true_random=False))
@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
def test_any_answer_gives_one_record_that_depends_on_its_bytes_alone(random: Random) -> None:
    check(make(random), random)


@pytest.mark.parametrize("seed", range(4))
def test_a_thousand_answers_hold(seed: int) -> None:
    for number in range(250):
        random = Random(f"{seed}:{number}")  # noqa: S311 - a test's choices
        check(make(random), random)
