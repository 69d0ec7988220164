from __future__ import annotations

from support.timers import ManualTimers
from tare.worker.lag import LagSampler

MS = 1_000_000


def test_a_loop_that_is_held_up_shows_by_how_much() -> None:
    timers = ManualTimers()
    sampler = LagSampler(timers)
    sampler.start()
    timers.advance(0.100)
    timers.call_later(0.005, lambda: timers.hold(0.040))  # Something blocks the loop for 40 ms.
    timers.advance(0.200)
    assert sampler.histogram.maximum == 35 * MS
    assert sampler.histogram.percentile(50) == 0
    assert sampler.take_largest() == 0.035
    assert sampler.take_largest() == 0


def test_nothing_is_sampled_between_phases() -> None:
    timers = ManualTimers()
    sampler = LagSampler(timers)
    sampler.start()
    sampler.stop()
    timers.advance(1)
    assert sampler.histogram.count == 0
