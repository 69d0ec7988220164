"""A model server that costs next to nothing: what a client needs is not hidden behind the server.

The path of a request says how it is answered, so that one process serves every load of a bench:

    /once/CHUNKS/…              all events in one write, from bytes made beforehand
    /each/CHUNKS/…              a write for each chunk, one in each turn of the event loop
    /timed/TTFT/GAP/CHUNKS/…    milliseconds from the read of the request to each chunk's write
    /ticks/TTFT/GAP/CHUNKS/…    the same, but all streams write at common multiples of GAP

Events have the form of vLLM's chat streams, each in an HTTP chunk of its own. `GET /stats` counts
what came since the `GET /stats` before, `GET /log` tells when each timed write was made (on
CLOCK_MONOTONIC, which all processes of a machine share) and forgets it.

    PYTHONPATH=tests python -m bench.sse_server

listens on one port of 127.0.0.1 to 127.0.0.4, prints it and serves until its stdin ends.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import sys
import zlib
from collections import deque
from dataclasses import asdict, dataclass, field
from functools import partial
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, cast

import orjson
import uvloop

from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["HOSTS", "Stats", "Stream"]

HOSTS = ("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4")
"""A client has some 28,000 ports for each of them."""

_MS = 1_000_000
_BACKLOG = 8192
_HEAD_END = b"\r\n\r\n"
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ndate: Mon, 30 Nov 2026 12:00:00 GMT\r\nserver: uvicorn\r\n"
    b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
)
_PROMPT_TOKENS = 16
# A model's pieces of text as they come: some need an escape, some are not ASCII.
_PIECES = (" the", " quick", " brown", ".", "\n\n", " fox", " jumps", " over", " é", "!")


@dataclass
class Stats:
    """What came in since the last time that somebody asked."""

    requests: int = 0
    answered: int = 0
    first_at: int = 0
    """When the first request was read, in nanoseconds."""
    last_at: int = 0
    """When the last answer was written."""
    in_flight: int = 0
    peak: int = 0
    """Most streams open at once."""
    connections: int = 0


@dataclass
class Stream:
    """One timed answer as it was really sent."""

    body: int
    """CRC-32 of the request's body."""
    read_at: int
    writes: list[int] = field(default_factory=list)
    """When each chunk's write began, the first one with text first."""


@dataclass(frozen=True)
class _Behaviour:
    """How requests of one path are answered."""

    chunks: tuple[bytes, ...]
    """Framed; the first one begins with the answer's head."""
    ttft: int = 0
    gap: int = 0
    timed: bool = False
    ticks: bool = False


class _Server:
    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stats = Stats()
        self.log: list[Stream] = []
        self._behaviours: dict[bytes, _Behaviour] = {}
        self._work: deque[Callable[[], None]] = deque()

    def soon(self, work: Callable[[], None]) -> None:
        """Do it between two looks at the sockets.

        A moment of reading is right only when the read is made as soon as its bytes are there, and
        not after the work on 63 others that came with it, or 63 writes that are due.
        """
        if not self._work:
            self.loop.call_soon(self._turn)
        self._work.append(work)

    def _turn(self) -> None:
        work = self._work.popleft()
        if self._work:
            self.loop.call_soon(self._turn)
        work()

    def behaviour(self, path: bytes) -> _Behaviour:
        found = self._behaviours.get(path)
        if found is None:
            found = self._behaviours[path] = _behaviour(path)
        return found

    def take_stats(self) -> Stats:
        stats, flying = self.stats, self.stats.in_flight
        self.stats = Stats(in_flight=flying, peak=flying)
        return stats

    def take_log(self) -> list[Stream]:
        log, self.log = self.log, []
        return log


class _Connection(asyncio.Protocol):
    __slots__ = ("_buffer", "_server", "_transport")

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._buffer = b""
        self._transport: asyncio.Transport | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.stats.connections += 1

    @override
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio.Protocol
        self._transport = None

    @override
    def data_received(self, data: bytes) -> None:
        self._server.soon(partial(self.take, monotonic_ns(), data))

    def take(self, at: int, data: bytes) -> None:
        """Work on what was read at a moment."""
        if self._buffer:
            data, self._buffer = self._buffer + data, b""
        while data:
            end = data.find(_HEAD_END) + len(_HEAD_END)
            size = _content_length(data[:end]) if end >= len(_HEAD_END) else 0
            if end < len(_HEAD_END) or len(data) < end + size:
                self._buffer = data
                return
            method, path, _ = data.split(b" ", 2)
            if method == b"GET":
                self._tell(path)
            else:
                self._answer(at, path, data[end : end + size])
            data = data[end + size :]

    def _tell(self, path: bytes) -> None:
        document: Any = (
            [asdict(stream) for stream in self._server.take_log()]
            if path == b"/log"
            else asdict(self._server.take_stats())
        )
        body = orjson.dumps(document)
        assert self._transport is not None
        self._transport.write(
            b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
        )

    def _answer(self, at: int, path: bytes, body: bytes) -> None:
        stats = self._server.stats
        stats.requests += 1
        stats.first_at = stats.first_at or at
        behaviour = self._server.behaviour(path)
        if not behaviour.timed:
            self._write_next(behaviour.chunks, 0)
            return
        stats.in_flight += 1
        stats.peak = max(stats.peak, stats.in_flight)
        stream = Stream(body=zlib.crc32(body), read_at=at)
        self._server.log.append(stream)
        due = at + behaviour.ttft
        if behaviour.ticks:
            due += -due % behaviour.gap
        self._later(due, behaviour, stream)

    def _write_next(self, chunks: tuple[bytes, ...], number: int) -> None:
        if self._transport is None:
            return
        self._transport.write(chunks[number])
        if number + 1 < len(chunks):
            self._server.loop.call_soon(self._write_next, chunks, number + 1)
        else:
            self._server.stats.answered += 1
            self._server.stats.last_at = monotonic_ns()

    def _later(self, due: int, behaviour: _Behaviour, stream: Stream) -> None:
        delay = max(due - monotonic_ns(), 0) / 1e9
        work = partial(self._write, due, behaviour, stream)
        self._server.loop.call_later(delay, self._server.soon, work)

    def _write(self, due: int, behaviour: _Behaviour, stream: Stream) -> None:
        stats, number = self._server.stats, len(stream.writes)
        last = number + 1 == len(behaviour.chunks)
        now = monotonic_ns()
        stream.writes.append(now)
        if self._transport is not None:
            self._transport.write(behaviour.chunks[number])
            if not last:
                self._later(due + behaviour.gap, behaviour, stream)
                return
            stats.answered += 1
            stats.last_at = now
        stats.in_flight -= 1


def _content_length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0


def _behaviour(path: bytes) -> _Behaviour:
    match path.decode().split("/")[1:]:
        case ["once", chunks, *_]:
            return _Behaviour((b"".join(_framed(int(chunks))),))
        case ["each", chunks, *_]:
            return _Behaviour(tuple(_framed(int(chunks))))
        case [("timed" | "ticks") as kind, ttft, gap, chunks, *_]:
            return _Behaviour(
                tuple(_framed(int(chunks))),
                ttft=round(float(ttft) * _MS),
                gap=round(float(gap) * _MS),
                timed=True,
                ticks=kind == "ticks",
            )
        case _:
            raise ValueError(f"{path!r} is no path of this server")


def _framed(chunks: int) -> list[bytes]:
    """One piece for each chunk with text; head and role go with the first one."""
    pieces = [_chunk({"content": _PIECES[n % len(_PIECES)]}) for n in range(chunks)]
    usage = {
        "prompt_tokens": _PROMPT_TOKENS,
        "total_tokens": _PROMPT_TOKENS + chunks,
        "completion_tokens": chunks,
    }
    pieces[0] = _STREAM_HEAD + _chunk({"role": "assistant", "content": ""}) + pieces[0]
    pieces[-1] += _chunk({"content": ""}, "length") + _event({"choices": [], "usage": usage})
    pieces[-1] += _in_chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return pieces


def _chunk(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    return _event({"choices": [choice | {"token_ids": None}]})


def _event(more: dict[str, Any]) -> bytes:
    common = {
        "id": "chatcmpl-8f14e45fceea167a5a36dedd4bea2543",
        "object": "chat.completion.chunk",
        "created": 1_796_000_000,
        "model": "tiny",
    }
    return _in_chunk(b"data: " + orjson.dumps(common | more) + b"\n\n")


def _in_chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


async def _serve() -> None:
    server = _Server()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Connection(server), HOSTS[0], 0, backlog=_BACKLOG)
    port = listening.sockets[0].getsockname()[1]
    for host in HOSTS[1:]:
        await loop.create_server(lambda: _Connection(server), host, port, backlog=_BACKLOG)
    # The log of a long run is no garbage: a look at it all would make writes late.
    gc.collect()
    gc.freeze()
    gc.disable()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def _main() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(_serve())


if __name__ == "__main__":
    _main()
