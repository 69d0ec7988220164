"""Plain operations on this machine, here and now: what a bench's numbers are held against."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import aiohttp

__all__ = ["Reference", "empty_patch", "median_seconds", "refused_post", "timed_meanwhile"]

_REPEATS = 200
_PAUSE = 0.01

Operation = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """Seconds of plain operations."""

    post: float
    """Median of a POST to the idle operator's inbox that it refuses at once."""
    busy_post: float
    """99th percentile of the same under the load: what every command takes at least."""
    patch: float
    """Median of a status patch that changes nothing, on the idle cluster."""


def refused_post(session: aiohttp.ClientSession, operator: str) -> Operation:
    """A POST that the operator's inbox refuses without looking at it."""

    async def post() -> None:
        async with session.post(f"{operator}/v1/register") as response:
            assert response.status in (400, 401)

    return post


def empty_patch(session: aiohttp.ClientSession, run: str) -> Operation:
    """A patch of a run's status that changes nothing."""

    async def patch() -> None:
        headers = {"Content-Type": "application/merge-patch+json"}
        url = f"{run}/status"
        async with session.patch(url, data=b'{"status":{}}', headers=headers) as response:
            assert response.status == 200

    return patch


async def median_seconds(operation: Operation) -> float:
    """Median of many in a row."""
    return statistics.median([await _seconds(operation) for _ in range(_REPEATS)])


@asynccontextmanager
async def timed_meanwhile(operation: Operation) -> AsyncIterator[list[float]]:
    """Do it again and again while the context is open; the list holds what each took."""
    times: list[float] = []

    async def repeat() -> None:
        while True:
            times.append(await _seconds(operation))
            await asyncio.sleep(_PAUSE)

    repeating = asyncio.create_task(repeat())
    try:
        yield times
    finally:
        repeating.cancel()


async def _seconds(operation: Operation) -> float:
    began = time.perf_counter()
    await operation()
    return time.perf_counter() - began
