"""Simulated model servers on a cluster, asked through its API server.

A test need not reach the pods' network, and all servers are asked in the same few milliseconds,
where one `kubectl` after the other would take most of a second.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from support.clusters import Api

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["Clock", "ProxiedServers"]

_PORT = 8000
_NS = 1e-9
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Clock:
    """A server's clock as this process sees it."""

    offset: float
    """Seconds to add to a stamp of the server for the time of `time.monotonic` here."""
    error: float
    """Seconds by which the offset may be wrong, either way."""

    def here(self, nanoseconds: int) -> float:
        """Tell the time of `time.monotonic` at which the server stamped something."""
        return nanoseconds * _NS + self.offset


@dataclass(frozen=True, slots=True)
class ProxiedServers:
    """The pods of one namespace that match a selector."""

    api: Api
    namespace: str
    selector: str = "app=qwen"

    @classmethod
    @asynccontextmanager
    async def open(cls, kubeconfig: Path, namespace: str) -> AsyncIterator[ProxiedServers]:
        """Connect to the cluster of a kubeconfig."""
        async with Api.open(kubeconfig) as api:
            yield cls(api, namespace)

    async def pods(self) -> list[str]:
        """Names of the servers' pods that are not on their way out."""
        found = await self.api.get(self._path(), labelSelector=self.selector)
        metadata = [pod["metadata"] for pod in found.body["items"]]
        return sorted(each["name"] for each in metadata if "deletionTimestamp" not in each)

    async def counters(self) -> dict[str, dict[str, Any]]:
        """What each server counted, by pod."""
        return await self._ask("admin/counters")

    async def requests(self) -> dict[str, list[dict[str, Any]]]:
        """Requests for text that each server remembers, by pod, oldest first."""
        found = await self._ask("admin/requests")
        return {pod: list(answer["requests"]) for pod, answer in found.items()}

    async def under_load(self, requests: int, seconds: float = 60) -> None:
        """Wait until the servers together have accepted that many requests."""
        end = time.monotonic() + seconds
        while sum(c["requests"] for c in (await self.counters()).values()) < requests:
            assert time.monotonic() < end, f"not {requests} requests within {seconds:g} s"
            await asyncio.sleep(0.05)

    async def forget(self) -> None:
        """Let every server count from zero."""
        await self._ask("admin/reset_counters", "POST")

    async def clock(self, pod: str) -> Clock:
        """Compare a server's clock with this process's, by what stamps a server most quickly.

        The start of the profiler does, which lies in the middle of its round trip, give or take
        half of that. The best of several tries counts; nothing of them stays in the counters.
        """
        clocks = []
        for _ in range(_TRIES):
            sent = time.monotonic()
            await self._send(pod, "start_profile")
            trip = time.monotonic() - sent
            await self._send(pod, "stop_profile")
            windows = (await self._send(pod, "admin/counters", "GET"))["profiler_windows"]
            clocks.append(Clock(sent + trip / 2 - windows[-1]["start_ns"] * _NS, trip / 2))
        await self._send(pod, "admin/reset_counters")
        return min(clocks, key=lambda clock: clock.error)

    async def _ask(self, path: str, method: str = "GET") -> dict[str, Any]:
        pods = await self.pods()
        answers = await asyncio.gather(*(self._send(pod, path, method) for pod in pods))
        return dict(zip(pods, answers, strict=True))

    async def _send(self, pod: str, path: str, method: str = "POST") -> Any:
        answer = await self.api.request(method, f"{self._path(pod)}/proxy/{path}")
        assert answer.status == HTTPStatus.OK, answer
        return answer.body

    def _path(self, pod: str = "") -> str:
        name = f"/{pod}:{_PORT}" if pod else ""
        return f"/api/v1/namespaces/{self.namespace}/pods{name}"
