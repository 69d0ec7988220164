"""A model server that follows a script to the millisecond, in the test's own event loop.

A script says which bytes are written how many milliseconds after the request was read, and how the
connection ends. Each write is one chunk and one system call, so that a test decides where an event
is cut. The server keeps what it was sent and when it wrote what.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Literal, Self, cast

import httptools
import orjson

from support.events import Timed
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

__all__ = ["Script", "ScriptedServer", "Seen"]

_MS = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Script:
    """One answer."""

    writes: Timed
    status: int = 200
    content_type: str = "text/event-stream"
    headers: tuple[tuple[str, str], ...] = ()
    framing: Literal["chunked", "length", "until_close"] = "chunked"
    end: Literal["keep", "close", "reset", "silence"] = "keep"
    """After the last write: keep the connection, close it or reset it without the last chunk,
    or leave the answer open for ever."""
    cut: Callable[[bytes], list[bytes]] | None = None
    """Cuts each write into pieces that are written one by one."""
    interim: bytes = b""
    """Written before the head, such as an answer of 100."""

    @classmethod
    def json(cls, document: Any, *, status: int = 200, at: float = 0, **more: Any) -> Script:
        """An answer in one piece."""
        return cls(
            writes=[(at, orjson.dumps(document))],
            status=status,
            content_type="application/json",
            framing="length",
            **more,
        )


@dataclass(kw_only=True)
class Seen:
    """A request that the server has read."""

    path: str
    headers: dict[str, str]
    body: bytes
    read_at: int
    """Nanoseconds of `time.monotonic_ns`."""
    writes: list[tuple[int, bytes]] = field(default_factory=list)
    """When which piece was written."""
    written: dict[float, int] = field(default_factory=dict)
    """Milliseconds in the script to the moment at which that write was really made, whole."""

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return orjson.loads(self.body)


Handler = Callable[[Seen], Script | None]
"""None closes the connection without a byte."""


class ScriptedServer:
    """Serves while its context is open."""

    def __init__(
        self,
        handler: Handler | Script,
        *,
        host: str = "127.0.0.1",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.handler: Handler = handler if callable(handler) else lambda _: handler
        self.requests: list[Seen] = []
        self.connections = 0
        self.in_flight = 0
        self.peak = 0
        """Most requests in flight at once."""
        self.port = 0
        self._host = host
        self._tls = tls
        self._server: asyncio.Server | None = None
        self._open: set[_Connection] = set()

    @property
    def url(self) -> str:
        """Base URL."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), self._host, self.port, ssl=self._tls, backlog=2048
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_connections()
        await asyncio.sleep(0)

    def drop_connections(self) -> None:
        """Close every connection, as a server does with idle ones."""
        for connection in list(self._open):
            connection.close()


class _Connection(asyncio.Protocol):
    def __init__(self, server: ScriptedServer) -> None:
        self._server = server
        self._parser = httptools.HttpRequestParser(self)
        self._headers: dict[str, str] = {}
        self._path = ""
        self._body = b""
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Task[None] | None = None

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._server.connections += 1
        self._server._open.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio.Protocol
        self._server._open.discard(self)
        if self._answer is not None:
            self._answer.cancel()

    @override
    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_url(self, url: bytes) -> None:
        self._path, self._headers, self._body = url.decode(), {}, b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        seen = Seen(path=self._path, headers=self._headers, body=self._body, read_at=monotonic_ns())
        self._server.requests.append(seen)
        script = self._server.handler(seen)
        if script is None:
            self.close()
        else:
            self._answer = asyncio.get_running_loop().create_task(self._play(seen, script))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    async def _play(self, seen: Seen, script: Script) -> None:
        server = self._server
        server.in_flight += 1
        server.peak = max(server.peak, server.in_flight)
        try:
            await self._write_all(seen, script)
        finally:
            server.in_flight -= 1

    async def _write_all(self, seen: Seen, script: Script) -> None:
        head = script.interim + _head(script)
        for at, data in script.writes:
            delay = seen.read_at + at * _MS - monotonic_ns()
            if delay > 0:
                await asyncio.sleep(delay / 1e9)
            wrote = monotonic_ns()
            for piece in script.cut(data) if script.cut else [data]:
                self._write(seen, head + _framed(script, piece))
                head = b""
                wrote = monotonic_ns()
                await asyncio.sleep(0)
            seen.written.setdefault(at, wrote)
        if head and script.end != "silence":
            self._write(seen, head)
        self._end(seen, script)

    def _write(self, seen: Seen, data: bytes) -> None:
        assert self._transport is not None
        seen.writes.append((monotonic_ns(), data))
        self._transport.write(data)

    def _end(self, seen: Seen, script: Script) -> None:
        assert self._transport is not None
        match script.end:
            case "keep":
                if script.framing == "chunked":
                    self._write(seen, b"0\r\n\r\n")
                elif script.framing == "until_close":
                    self._transport.close()
            case "close":
                self._transport.close()
            case "reset":
                linger = struct.pack("ii", 1, 0)
                sock = self._transport.get_extra_info("socket")
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                self._transport.abort()
            case "silence":
                pass


def _head(script: Script) -> bytes:
    lines = [f"HTTP/1.1 {script.status} Scripted", f"content-type: {script.content_type}"]
    lines += [f"{name}: {value}" for name, value in script.headers]
    if script.framing == "chunked":
        lines.append("transfer-encoding: chunked")
    elif script.framing == "length":
        lines.append(f"content-length: {sum(len(data) for _, data in script.writes)}")
    return "\r\n".join([*lines, "", ""]).encode()


def _framed(script: Script, data: bytes) -> bytes:
    if script.framing != "chunked" or not data:
        return data
    return b"%x\r\n%b\r\n" % (len(data), data)
