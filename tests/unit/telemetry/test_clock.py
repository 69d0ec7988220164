"""The system's clock, and the fake one that other tests trust."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from support.clock import FakeClock
from tare.telemetry.clock import Clock, SystemClock


async def test_the_system_clock_waits_and_never_goes_back() -> None:
    clock: Clock = SystemClock()
    began = clock.now()
    await clock.sleep(-1)
    await clock.sleep(0.001)
    assert clock.now() > began
    assert abs(clock.wall() - datetime.now(UTC)) < timedelta(minutes=1)


async def test_sleepers_of_the_fake_clock_wake_in_the_order_of_their_ends() -> None:
    clock, woken = FakeClock(), []

    async def sleeper(*naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append(clock.now())

    async with asyncio.TaskGroup() as group:
        group.create_task(sleeper(30, 1))
        group.create_task(sleeper(1, 2, 3))
        group.create_task(sleeper(4))
    assert woken == [1, 3, 4, 6, 30, 31]
    assert clock.wall() - timedelta(seconds=31) == FakeClock().wall()


async def test_a_cancelled_sleep_holds_up_nobody() -> None:
    clock = FakeClock()
    first = asyncio.create_task(clock.sleep(5))
    second = asyncio.create_task(clock.sleep(9))
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert clock.now() == 9
