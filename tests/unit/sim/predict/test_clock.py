from __future__ import annotations

from functools import partial

from tare.sim.predict.clock import VirtualClock

SECOND = 1_000_000_000


def test_calls_come_at_their_time_and_those_of_one_moment_in_their_order() -> None:
    clock, heard = VirtualClock(), []
    start = clock.now()

    def hear(name: str) -> None:
        heard.append((name, clock.now() - start))

    for name, seconds in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        clock.call_later(seconds, partial(hear, name))
    while clock.next_at() is not None:
        clock.call_next()
    assert heard == [("a", SECOND), ("b", SECOND), ("c", 2 * SECOND)]


def test_a_call_that_is_taken_back_does_not_come() -> None:
    clock, heard = VirtualClock(), []
    clock.call_later(1.0, lambda: heard.append("taken back")).cancel()
    clock.call_later(2.0, lambda: heard.append("kept"))
    assert clock.next_at() == clock.now() + 2 * SECOND
    clock.call_next()
    clock.call_next()
    assert heard == ["kept"]


def test_time_never_goes_back() -> None:
    clock = VirtualClock()
    clock.move_to(clock.now() + 5)
    now = clock.now()
    clock.move_to(now - 3)
    clock.call_later(-1.0, lambda: None)
    assert (clock.now(), clock.next_at()) == (now, now)
