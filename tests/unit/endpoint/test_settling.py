"""A trial that was lost is repeated when the replicas have stayed the same for a while."""

from __future__ import annotations

import pytest

from support.clock import FakeClock
from tare.endpoint.errors import TargetError
from tare.endpoint.settling import REST, Settling
from tare.measure.hooks import Replica, Replicas

PATIENCE = 300.0


def found(*names: str, terminating: tuple[str, ...] = (), coming: tuple[str, ...] = ()) -> Replicas:
    ready = tuple(Replica(uid=f"uid-{name}", name=name, origin=f"http://{name}") for name in names)
    return Replicas(ready=ready, terminating=terminating, not_ready=coming)


def refusal(settling: Settling, replicas: Replicas) -> str:
    with pytest.raises(TargetError) as caught:
        settling.check(replicas)
    assert not caught.value.final
    return caught.value.message


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def settling(clock: FakeClock) -> Settling:
    return Settling(clock, PATIENCE)


def test_a_set_that_stays_the_same_has_come_to_rest(clock: FakeClock, settling: Settling) -> None:
    assert "the 2 replicas to stay the same for 3 s" in refusal(settling, found("a", "b"))
    clock.advance(REST)
    settling.check(found("b", "a"))


def test_a_set_that_changed_rests_from_its_last_change_on(
    clock: FakeClock, settling: Settling
) -> None:
    refusal(settling, found("a", "b"))
    clock.advance(REST)
    refusal(settling, found("a", "c"))
    clock.advance(REST / 2)
    refusal(settling, found("a", "c"))
    clock.advance(REST / 2)
    settling.check(found("a", "c"))


@pytest.mark.parametrize("moving", [{"terminating": ("old",)}, {"coming": ("new",)}])
def test_a_pod_on_its_way_in_or_out_is_waited_for_by_name(
    clock: FakeClock, settling: Settling, moving: dict[str, tuple[str, ...]]
) -> None:
    (name,) = next(iter(moving.values()))
    refusal(settling, found("a"))
    clock.advance(REST)
    assert f"waits for {name} to come or go" in refusal(settling, found("a", **moving))
    refusal(settling, found("a"))
    clock.advance(REST)
    settling.check(found("a"))


def test_a_pod_that_never_gets_ready_is_not_waited_for_for_ever(
    clock: FakeClock, settling: Settling
) -> None:
    refusal(settling, found("a", coming=("broken",)))
    clock.advance(PATIENCE)
    settling.check(found("a", coming=("broken",)))
