"""`tare` as a user starts it: a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["tare"]


@asynccontextmanager
async def tare(tmp_path: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A running `tare`, whose files all lie below `tmp_path`; what still runs is killed."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tare", *arguments),
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
