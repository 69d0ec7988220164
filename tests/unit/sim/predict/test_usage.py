from __future__ import annotations

from dataclasses import replace

import pytest

from tare.sim.predict.usage import PoolUsage, average, combined, grows

USAGE = PoolUsage(
    capacity_tokens=1000,
    used_tokens=100.0,
    cached_tokens=300.0,
    evicted_blocks=4,
    preemptions=3,
    arrivals=100,
    rejected=2,
    given_up=1,
    stuck=1,
    waiting=0.5,
    busy=0.5,
    backlog_grows=False,
)


@pytest.mark.parametrize(
    ("backlog", "expected"),
    [
        (list(range(200)), True),
        ([number // 10 for number in range(200)], True),
        ([3] * 200, False),
        ([number % 7 for number in range(200)], False),
        (list(range(200, 0, -1)), False),
        ([0] * 150 + [3] * 50, False),
        (list(range(20)), False),
        ([50] * 40 + [number for number in range(20) for _ in range(8)][:160], False),
    ],
    ids=["steadily", "slowly", "constant", "wavy", "shrinking", "small", "few", "recovering"],
)
def test_a_backlog_grows_when_every_quarter_has_more_of_it(
    backlog: list[int], expected: bool
) -> None:
    assert grows(backlog) is expected


def test_replicas_add_up_and_their_work_is_averaged() -> None:
    both = combined([USAGE, replace(USAGE, busy=0.7, backlog_grows=True)])
    assert (both.capacity_tokens, both.used_tokens, both.evicted_blocks) == (2000, 200.0, 8)
    assert both.busy == pytest.approx(0.6)
    assert both.backlog_grows


def test_trials_are_averaged_and_what_was_counted_adds_up() -> None:
    mean = average([USAGE, replace(USAGE, used_tokens=300.0)])
    assert (mean.capacity_tokens, mean.used_tokens, mean.waiting) == (1000, 200.0, 0.5)
    assert (mean.preemptions, mean.rejected, mean.stuck) == (6, 4, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"backlog_grows": True}, "the backlog grows to the end"),
        ({"busy": 0.99}, "preempted requests make no progress"),
        ({"given_up": 2}, "requests are given up that had waited for too long"),
    ],
)
def test_a_load_is_unstable_for_a_reason(changes: dict[str, float], words: str) -> None:
    assert USAGE.instability == ()
    assert replace(USAGE, **changes).instability == (words,)  # type: ignore[arg-type]
