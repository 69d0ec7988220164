"""HTTP/1.1 for the simulated server: a connection parses requests and writes answers, nothing more.

Written on httptools since its speed is the server's speed. It behaves as uvicorn does where clients
notice (reference: measured on vLLM): chunked streams, response headers before the first event, idle
connections closed after 5 s without a byte, fresh ones left open, HEAD answered without a body.
Not supported: pipelining (the connection is closed after the first answer), upgrades, HTTP/1.0
without keep-alive gets chunks all the same.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from http import HTTPStatus
from typing import Protocol, cast
from urllib.parse import parse_qs

import httptools
import orjson

from tare.telemetry.overriding import override

__all__ = ["LAST_CHUNK", "Connection", "DisconnectListener", "Handler", "Request", "chunk"]

_log = logging.getLogger(__name__)

IDLE_SECONDS = 5.0
"""uvicorn's `timeout_keep_alive`, which vLLM does not change."""
LAST_CHUNK = b"0\r\n\r\n"

_REASONS = {status.value: status.phrase.encode() for status in HTTPStatus}
_JSON = b"application/json"


def chunk(data: bytes) -> bytes:
    """Frame `data` as one chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


class Request:
    """One complete request; header names are lower case."""

    __slots__ = ("arrived_ns", "body", "headers", "method", "path", "query")

    def __init__(self, arrived_ns: int) -> None:
        self.arrived_ns = arrived_ns
        """When its first bytes were read, on the monotonic clock."""
        self.method = ""
        self.path = ""
        self.query = ""
        self.headers: dict[str, str] = {}
        self.body = b""

    def parameter(self, name: str) -> str | None:
        """Return the last value of a query parameter."""
        values = parse_qs(self.query, keep_blank_values=True).get(name)
        return values[-1] if values else None


class DisconnectListener(Protocol):
    """Who must know that the client of an unfinished answer has gone."""

    def on_disconnect(self) -> None:
        """Nothing can be sent any more."""


Handler = Callable[[Request, "Connection"], None]


class Connection(asyncio.Protocol):
    """One client connection; a handler answers each request by `respond` or by a stream."""

    __slots__ = (
        "_body",
        "_busy",
        "_close_after",
        "_handler",
        "_idle_since",
        "_idle_timer",
        "_loop",
        "_open",
        "_parser",
        "_read_ns",
        "_request",
        "_transport",
        "listener",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, handler: Handler, connections: set[Connection]
    ) -> None:
        self._loop = loop
        self._handler = handler
        self._open = connections
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._request = Request(0)
        self._body: list[bytes] = []
        self._busy = False
        self._close_after = False
        self._read_ns = 0
        self._idle_since = 0.0
        self._idle_timer: asyncio.TimerHandle | None = None
        self.listener: DisconnectListener | None = None
        """Told when the client goes before the answer's end."""

    @property
    def busy(self) -> bool:
        """Whether a request waits for the end of its answer."""
        return self._busy

    # --- asyncio.Protocol

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember the transport; a fresh connection is never closed for being idle."""
        # uvloop's transports do not derive from asyncio's.
        self._transport = cast("asyncio.Transport", transport)
        self._open.add(self)

    @override
    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell the answer in progress that nobody reads it."""
        self._transport = None
        self._open.discard(self)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        if self.listener is not None:
            listener, self.listener = self.listener, None
            listener.on_disconnect()

    @override
    def data_received(self, data: bytes) -> None:
        """Parse what came; complete requests are handled from within."""
        self._read_ns = time.monotonic_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.close()
        except httptools.HttpParserError:
            if not self._busy:
                self._close_after = True
                self.respond(400, b"Invalid HTTP request received.", b"text/plain; charset=utf-8")

    # --- httptools

    def on_message_begin(self) -> None:
        """Start a request."""
        self._request = Request(self._read_ns)
        self._body.clear()

    def on_url(self, url: bytes) -> None:
        """Keep the target; it may come in pieces."""
        self._request.path += url.decode("latin-1")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; of equal names the last one counts."""
        self._request.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        """Invite a body that waits for it."""
        if self._request.headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body."""
        self._body.append(body)

    def on_message_complete(self) -> None:
        """Hand the request to the handler; its failure is a 500, as everywhere."""
        request = self._request
        if self._busy:
            self._close_after = True
            return
        request.method = self._parser.get_method().decode("latin-1")
        request.path, _, request.query = request.path.partition("?")
        request.body = b"".join(self._body)
        self._busy = True
        self._close_after = not self._parser.should_keep_alive()
        try:
            self._handler(request, self)
        except Exception:  # noqa: BLE001 - a defect costs one answer, not the connection's state
            _log.exception("%s %s failed", request.method, request.path)
            self.respond(500, b"Internal Server Error", b"text/plain; charset=utf-8")

    # --- answers

    def respond(
        self, status: int, body: bytes, kind: bytes = _JSON, headers: dict[str, str] | None = None
    ) -> None:
        """Send a whole answer; an empty body goes without a content type."""
        head = [b"HTTP/1.1 %d %b\r\n" % (status, _REASONS.get(status, b"")), _common_headers()]
        head.append(b"content-length: %d\r\n" % len(body))
        if body:
            head.append(b"content-type: %b\r\n" % kind)
        for name, value in (headers or {}).items():
            head.append(f"{name}: {value}\r\n".encode("latin-1"))
        if self._close_after:
            head.append(b"connection: close\r\n")
        shown = b"" if self._request.method == "HEAD" else body
        self.write(b"".join((*head, b"\r\n", shown)))
        self.finish()

    def respond_json(
        self, status: int, document: object, headers: dict[str, str] | None = None
    ) -> None:
        """Send a JSON document."""
        self.respond(status, orjson.dumps(document), headers=headers)

    def start_stream(self) -> None:
        """Send the head of a chunked event stream; `write` and `finish` are to follow."""
        close = b"connection: close\r\n" if self._close_after else b""
        self.write(b"".join((_STREAM_START, _common_headers(), _STREAM_KIND, close, b"\r\n")))

    def write(self, data: bytes) -> None:
        """Send bytes; uvloop sends what is written in one turn of the loop at once."""
        if self._transport is not None:
            self._transport.write(data)

    def finish(self) -> None:
        """Note that the answer is complete: the connection is idle, or closed when so wished."""
        self.listener = None
        self._busy = False
        if self._transport is None:
            return
        if self._close_after:
            self._transport.close()
            return
        self._idle_since = self._loop.time()
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(IDLE_SECONDS, self._close_if_idle)

    def close(self) -> None:
        """Close after what was written is sent."""
        if self._transport is not None:
            self._transport.close()

    def _close_if_idle(self) -> None:
        # One timer a connection: it is moved when it rings too early, not for each request.
        self._idle_timer = None
        if self._busy:
            return
        left = self._idle_since + IDLE_SECONDS - self._loop.time()
        if left <= 0:
            self.close()
        else:
            self._idle_timer = self._loop.call_later(left, self._close_if_idle)


_STREAM_START = b"HTTP/1.1 200 OK\r\n"
_STREAM_KIND = b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n"


class _Headers:
    """`date` and `server`, built once a second."""

    second = 0
    bytes = b""


def _common_headers() -> bytes:
    second = int(time.time())
    if second != _Headers.second:
        date = formatdate(second, usegmt=True)
        _Headers.bytes = f"date: {date}\r\nserver: tare-sim\r\n".encode()
        _Headers.second = second
    return _Headers.bytes
