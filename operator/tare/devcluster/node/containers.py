"""What the kubelet runs: the port that local processes and in-process runners implement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

__all__ = ["KILLED", "Container", "Exit", "ExitReason", "PodContext", "Runner"]

KILLED: Final = 137
"""128 + SIGKILL."""


class ExitReason(StrEnum):
    """The reasons of a terminated container."""

    COMPLETED = "Completed"
    ERROR = "Error"
    OOM_KILLED = "OOMKilled"


@dataclass(frozen=True, slots=True)
class Exit:
    """How a container ended."""

    code: int
    reason: ExitReason

    @classmethod
    def of(cls, code: int) -> Exit:
        """Name the reason after the code."""
        return cls(code, ExitReason.ERROR if code else ExitReason.COMPLETED)


class Container(Protocol):
    """A container that was started."""

    async def wait(self) -> Exit:
        """Wait for its end; may be called again."""
        ...

    def stop(self) -> None:
        """Ask it to end: SIGTERM."""
        ...

    def kill(self) -> None:
        """End it: SIGKILL."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """What an in-process runner gets instead of a process of its own."""

    name: str
    namespace: str
    uid: str
    labels: Mapping[str, str]
    address: str
    env: Mapping[str, str]
    args: Sequence[str]
    """Command and arguments of the container."""
    stopping: asyncio.Event
    """Set when the pod is asked to end; after its grace period the runner is cancelled."""
    log: Callable[[str], None]
    """Writes a line to the pod's log."""


Runner = Callable[[PodContext], Awaitable[int]]
"""Runs a pod inside the cluster's own event loop and returns its exit code."""
