"""Waiting for something that another process does."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["eventually"]


async def eventually(
    holds: Callable[[], Any], seconds: float, describe: Callable[[], str], *, every: float = 0.05
) -> None:
    """Wait until `holds()` comes true; the deadline is far above what it takes."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not await holds():
        if loop.time() > end:
            raise AssertionError(f"not within {seconds:g} s: {describe()}")
        await asyncio.sleep(every)
