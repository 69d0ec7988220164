"""One HTTP/1.1 client connection on httptools: send a request, hand over the answer's pieces.

It knows nothing of models, pools or retries. A read from the socket gets one time stamp before any
parsing, and all its pieces carry that stamp; parsing waits until the other sockets were read too,
so that neither its own nor theirs is ever part of a measured time.
There are no redirects, no content encodings and no pipelining. An answer may be chunked, have a
length, or last until the connection closes; interim answers (1xx) are skipped.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Protocol, cast

import httptools

from tare.telemetry.overriding import override
from tare.worker.failure import CLOSED, PROTOCOL, RESET, TLS, Failure, shorten
from tare.worker.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Connection", "Exchange", "Headers", "request_head"]

Headers = Mapping[bytes, bytes]
"""By names in lower case; of several with one name the last."""

_INTERIM_END = 200
_NO_BODY = (204, 304)
_REQUEST_TIMEOUT = 408
_SURELY_TAKEN = 16 * 1024
"""Bytes that the kernel takes at once on a connection that is free: Linux' default `tcp_wmem`."""


class Exchange(Protocol):
    """One request as its sender sees it; `at` is in nanoseconds of `time.monotonic_ns`.

    After `on_sent` exactly one of `on_end` and `on_failure` comes last, unless the connection was
    aborted by our side.
    """

    def on_sent(self, at: int) -> None:
        """The request's bytes are about to be written; again when it is sent a second time."""

    def on_head(self, at: int, status: int, headers: Headers) -> None:
        """Status and headers of the final answer have come; good for this call only."""

    def on_data(self, at: int, pieces: Sequence[bytes]) -> None:
        """A read has brought pieces of the body; the sequence is good for this call only."""

    def on_end(self, at: int) -> None:
        """The answer is whole."""

    def on_failure(self, at: int, failure: Failure) -> None:
        """There is no answer, or it broke off."""


class Connection(asyncio.Protocol):
    """A connection that carries one exchange at a time.

    What happens between exchanges is for a subclass to say: by itself a connection is closed after
    its first answer.
    """

    __slots__ = (
        "_answered",
        "_at",
        "_complete",
        "_exchange",
        "_headers",
        "_interim",
        "_length",
        "_parser",
        "_pieces",
        "_reads",
        "_reusable",
        "_sent",
        "_transport",
        "_until_close",
        "on_body",
        "on_header",
    )

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        """Part of httptools' protocol: a read's pieces of the body are gathered at no cost."""
        self._headers: dict[bytes, bytes] = {}
        self.on_header = self._headers.__setitem__
        """Part of httptools' protocol."""
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._reads: Reads | None = None
        self._exchange: Exchange | None = None
        self._at = self._sent = self._length = 0
        self._answered = False
        self._complete = False
        self._interim = False
        self._reusable = False
        self._until_close = False

    def send(self, exchange: Exchange, request: bytes) -> None:
        """Write a whole request; the connection must be free."""
        assert self._exchange is None
        assert self._transport is not None
        self._exchange = exchange
        self._answered = self._complete = self._reusable = self._until_close = False
        self._length = len(request)
        self._sent = at = monotonic_ns()
        exchange.on_sent(at)
        self._transport.write(request)

    def abort(self) -> None:
        """Close at once and tell its exchange nothing."""
        self._exchange = None
        if self._transport is not None:
            self._transport.abort()

    @property
    def open(self) -> bool:
        """Whether a request may be written, as far as this side knows."""
        return self._transport is not None and not self._transport.is_closing()

    @override
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Part of asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        # uvloop puts a write off until the turn of its loop ends, unless it exceeds the buffer: of
        # many requests sent in one turn the first would look slow by the work on all others.
        self._transport.set_write_buffer_limits(high=0)
        self._reads = Reads.of_running_loop()

    @override
    def data_received(self, data: bytes) -> None:
        """Stamp now, parse soon; part of asyncio.Protocol."""
        if self._reads is None:
            self._parse(monotonic_ns(), data)
        else:
            self._reads.put(self._parse, monotonic_ns(), data)

    @override
    def eof_received(self) -> None:
        """Close; part of asyncio.Protocol."""
        # By itself the transport would write the rest of the request first, which a server that
        # has refused it may never read.
        if self._transport is not None:
            self._transport.abort()

    @override
    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of the transport now, tell soon; part of asyncio.Protocol."""
        self._transport = None
        self.closed()
        if self._reads is None:
            self._lose(monotonic_ns(), exc)
        else:
            self._reads.put(self._lose, monotonic_ns(), exc)

    def _parse(self, at: int, data: bytes) -> None:
        self._at = at
        if self._exchange is None or at < self._sent:
            self._stray(at)
            return
        self._answered = True
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            if isinstance(error, httptools.HttpParserCallbackError):
                raise  # A fault of ours, not of the server.
            self._reusable = False
            if not self._complete:
                self._hand_over()
                switched = isinstance(error, httptools.HttpParserUpgrade)
                words = "switched to another protocol" if switched else str(error)
                self._fail(Failure(PROTOCOL, shorten(words)))
                return
        # Not within the parser's callback: the exchange may send the next request at once.
        if self._complete:
            self._finish()
        else:
            self._hand_over()

    def _stray(self, at: int) -> None:
        """Close on an answer that nobody asked for, such as 408 before a close.

        What was sent after it had been read is lost.
        """
        exchange = self._exchange
        self.abort()
        if exchange is not None and not self.repeated(at):
            failure = Failure(CLOSED, "closed by the server before the request")
            exchange.on_failure(self._sent, failure)

    def _lose(self, at: int, exc: Exception | None) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return
        if self._until_close and exc is None:
            exchange.on_end(at)
            return
        if not self._answered and self.repeated(at):
            return
        kind = RESET if isinstance(exc, OSError) else CLOSED
        if isinstance(exc, ssl.SSLError):
            kind = TLS
        failure = Failure(kind, shorten(str(exc)) if exc else "connection closed by the server")
        exchange.on_failure(at, failure)

    def reusable(self, at: int) -> None:  # noqa: ARG002 - for subclasses
        """The answer is whole and the connection may carry another request."""
        self.abort()

    def closed(self) -> None:
        """The connection is gone; told before its exchange is."""

    def repeated(self, at: int) -> bool:  # noqa: ARG002 - for subclasses
        """Whether an exchange that was not answered up to `at` goes on elsewhere."""
        return False

    def on_message_begin(self) -> None:
        """Part of httptools' protocol."""
        self._headers.clear()
        self._reusable = False  # A second answer to one request: nobody could tell the third one's.

    def on_headers_complete(self) -> None:
        """Part of httptools' protocol."""
        status = self._parser.get_status_code()
        self._interim = status < _INTERIM_END
        if self._interim or self._complete or self._exchange is None:
            return
        if status == _REQUEST_TIMEOUT and self.repeated(self._at):
            self.abort()  # The server gave up waiting; it never saw the request (RFC 9110, 15.5.9).
            return
        headers = self._headers
        if not all(map(bytes.islower, headers)):
            headers = {name.lower(): value for name, value in headers.items()}
        coding = headers.get(b"transfer-encoding")
        if coding is None:
            self._until_close = b"content-length" not in headers and status not in _NO_BODY
        elif coding != b"chunked":
            self._until_close = b"chunked" not in coding.lower()
        self._exchange.on_head(self._at, status, headers)

    def on_message_complete(self) -> None:
        """Part of httptools' protocol."""
        if self._interim:
            return
        if not self._complete:
            self._hand_over()
            self._reusable = self._parser.should_keep_alive()
        self._complete = True

    def _hand_over(self) -> None:
        pieces = self._pieces
        if pieces and self._exchange is not None:
            self._exchange.on_data(self._at, pieces)
        pieces.clear()

    def _finish(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is None:
            return  # It goes on elsewhere.
        if (
            self._reusable
            and self._transport is not None
            # A server may answer, or refuse, before it has read all: the rest would be sent first.
            and (self._length <= _SURELY_TAKEN or not self._transport.get_write_buffer_size())
        ):
            self.reusable(self._at)
        else:
            self.abort()
        exchange.on_end(self._at)

    def _fail(self, failure: Failure) -> None:
        exchange, at = self._exchange, self._at
        self.abort()
        if exchange is not None:
            exchange.on_failure(at, failure)


def request_head(method: str, path: str, authority: str, headers: Mapping[str, str]) -> bytes:
    """Encode a request's head up to the length of its body.

    The caller adds the number, two line ends and the body for each request.
    """
    lines = [f"{method} {path} HTTP/1.1", f"Host: {authority}", "Accept-Encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines.append("Content-Length: ")
    return "\r\n".join(lines).encode("latin-1")
