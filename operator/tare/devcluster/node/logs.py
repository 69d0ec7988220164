"""What a container printed: bounded, with the time of each line, readable while it grows."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from aiohttp import web

from tare.devcluster.apiserver.documents import Clock, Document, format_micro_time
from tare.devcluster.apiserver.errors import bad_request
from tare.devcluster.apiserver.queries import whole_number

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["LogBuffer", "PodLogs"]

_MAX_BYTES: Final = 1024 * 1024
_TRUE: Final = {"true", "1"}


@dataclass(slots=True)
class LogBuffer:
    """The output of one container run; the oldest lines go when it grows too large."""

    clock: Clock
    closed: bool = False
    _lines: deque[tuple[datetime, bytes]] = field(default_factory=deque)
    _dropped: int = 0
    _size: int = 0
    _partial: bytes = b""
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    def append(self, data: bytes) -> None:
        """Add output; a line counts when it is complete."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        now = self.clock()
        for line in lines:
            self._add(now, line + b"\n")
        self._wake.set()

    def close(self) -> None:
        """Note that nothing more comes."""
        if self._partial:
            self._add(self.clock(), self._partial)
            self._partial = b""
        self.closed = True
        self._wake.set()

    def _add(self, now: datetime, line: bytes) -> None:
        self._lines.append((now, line))
        self._size += len(line)
        while self._size > _MAX_BYTES and len(self._lines) > 1:
            self._size -= len(self._lines.popleft()[1])
            self._dropped += 1

    def read(self, start: int) -> tuple[int, list[tuple[datetime, bytes]]]:
        """Return the lines from number `start` on, and the number of the next one."""
        skip = max(start - self._dropped, 0)
        lines = [line for index, line in enumerate(self._lines) if index >= skip]
        return self._dropped + len(self._lines), lines

    async def more(self) -> None:
        """Wait until something was added."""
        self._wake.clear()
        await self._wake.wait()


class PodLogs:
    """The logs of the node's pods, by pod uid; the previous run of a container is kept, too."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._runs: dict[str, list[LogBuffer]] = {}

    def open(self, uid: str) -> LogBuffer:
        """Begin the log of a container's next run."""
        buffer = LogBuffer(self._clock)
        self._runs[uid] = [*self._runs.get(uid, [])[-1:], buffer]
        return buffer

    def forget(self, uid: str) -> None:
        """Drop the logs of a pod that is gone."""
        self._runs.pop(uid, None)

    async def stream(
        self, request: web.Request, pod: Document, query: Mapping[str, str]
    ) -> web.StreamResponse:
        """Answer `GET pods/{name}/log`."""
        buffer = self._choose(pod, query)
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        position, lines = buffer.read(0)
        await self._send(response, _tail(_recent(lines, query, self._clock()), query), query)
        while query.get("follow") in _TRUE and not buffer.closed:
            await buffer.more()
            position, lines = buffer.read(position)
            await self._send(response, lines, query)
        return response

    def _choose(self, pod: Document, query: Mapping[str, str]) -> LogBuffer:
        name = pod["metadata"]["name"]
        container = pod["spec"]["containers"][0]["name"]
        if (wanted := query.get("container", container)) != container:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        runs = self._runs.get(pod["metadata"]["uid"], [])
        if query.get("previous") in _TRUE:
            if len(runs) > 1:
                return runs[-2]
            raise bad_request(
                f'previous terminated container "{container}" in pod "{name}" not found'
            )
        if not runs:
            raise bad_request(
                f'container "{container}" in pod "{name}" is waiting to start: ContainerCreating'
            )
        return runs[-1]

    @staticmethod
    async def _send(
        response: web.StreamResponse,
        lines: list[tuple[datetime, bytes]],
        query: Mapping[str, str],
    ) -> None:
        data = b"".join(_render(lines, with_time=query.get("timestamps") in _TRUE))
        if data:
            await response.write(data)


def _recent(
    lines: list[tuple[datetime, bytes]], query: Mapping[str, str], now: datetime
) -> list[tuple[datetime, bytes]]:
    if seconds := whole_number(query, "sinceSeconds"):
        start = now - timedelta(seconds=seconds)
        return [line for line in lines if line[0] >= start]
    return lines


def _tail(
    lines: list[tuple[datetime, bytes]], query: Mapping[str, str]
) -> list[tuple[datetime, bytes]]:
    if (count := whole_number(query, "tailLines")) is None:
        return lines
    return lines[-count:] if count else []


def _render(lines: list[tuple[datetime, bytes]], *, with_time: bool) -> Iterator[bytes]:
    for moment, line in lines:
        if with_time:
            yield format_micro_time(moment).encode() + b" "
        yield line
