"""Ctrl-C and SIGTERM for commands that have processes of their own.

The first signal cancels the command's coroutine, whose `finally` blocks then put everything away in
order: the run is cancelled, so that no profiler stays on, then the operator and the cluster stop.
The second one kills every process at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.cli.exits import Exit

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["descendants", "run_interruptible"]


def run_interruptible(main: Coroutine[Any, Any, int]) -> int:
    """Run a command's coroutine to its exit code, or to `Exit.INTERRUPTED`."""
    return asyncio.run(_guarded(main))


def descendants(pid: int) -> list[int]:
    """Processes that `pid` started, and theirs, parents first; read from Linux' /proc."""
    found: list[int] = []
    with suppress(OSError):
        for thread in Path(f"/proc/{pid}/task").iterdir():
            for child in (thread / "children").read_text().split():
                found += [int(child), *descendants(int(child))]
    return found


async def _guarded(main: Coroutine[Any, Any, int]) -> int:
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(main)

    def on_signal() -> None:
        if task.cancelling():
            _kill_everything()
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, on_signal)
    try:
        return await task
    except asyncio.CancelledError:
        return Exit.INTERRUPTED


def _kill_everything() -> None:
    for pid in descendants(os.getpid()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    os._exit(Exit.INTERRUPTED)
