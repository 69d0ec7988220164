"""Processes behind the pods of the embedded cluster."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tare.api.names import ENV_POD_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["frozen", "kill", "process_of", "server_at"]


def process_of(pod: str) -> int:
    """Find a worker by the name in its environment; the suffix of a pod's name is random."""
    return _process_with(f"{ENV_POD_NAME}={pod}")


def server_at(address: str) -> int:
    """Find a model server by its pod's address, which is in its environment."""
    return _process_with(f"POD_IP={address}")


def _process_with(variable: str) -> int:
    wanted = f"\0{variable}\0".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if wanted in b"\0%b" % (folder / "environ").read_bytes():
                return int(folder.name)
    raise AssertionError(f"no process with {variable}")


def kill(process: int) -> None:
    """End a process without a last word."""
    os.kill(process, signal.SIGKILL)


@contextmanager
def frozen(process: int) -> Iterator[None]:
    """Stop a process with its connections open, as a node that is starved of CPU would."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)
