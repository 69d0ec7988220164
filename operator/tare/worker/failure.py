"""Why a request has no good answer: stable kinds that counts are kept by, with a text for people.

`http_<code>` is made from the status; everything else is listed here. Client-side causes have kinds
of their own, so that a worker out of ports is never read as a server that refuses.
"""

from __future__ import annotations

import errno
import ssl
from dataclasses import dataclass
from typing import Final

from tare.measure.concerns import CLIENT_EXHAUSTED

__all__ = [
    "ABORT",
    "BAD_CHUNK",
    "CLIENT_EXHAUSTED",
    "CLOSED",
    "CONNECT",
    "EMPTY_STREAM",
    "GRACE_OVER",
    "IDLE_TIMEOUT",
    "MAX_MESSAGE_BYTES",
    "PLANNED_CANCEL",
    "PROTOCOL",
    "REQUEST_TIMEOUT",
    "RESET",
    "STOPPED",
    "STREAM_ERROR",
    "TLS",
    "TRUNCATED",
    "Failure",
    "connect_failure",
    "http_kind",
    "shorten",
]

ABORT: Final = "abort"
"""The engine gave the request up and said so as `finish_reason: "abort"`."""
BAD_CHUNK: Final = "bad_chunk"
"""An event, or the body, is not the JSON that it should be."""
CLOSED: Final = "closed"
"""The server closed the connection without an answer."""
CONNECT: Final = "connect"
"""Refused, unreachable, unknown name, or no connection in time."""
EMPTY_STREAM: Final = "empty_stream"
"""200 without any content: nothing at all, `[DONE]` alone, or what is no answer."""
GRACE_OVER: Final = "grace_over"
"""Cancelled by this worker: still unanswered when the phase's grace period ended."""
IDLE_TIMEOUT: Final = "idle_timeout"
PLANNED_CANCEL: Final = "planned_cancel"
"""Cancelled by this worker: it is one of the phase's `cancel_share`."""
PROTOCOL: Final = "protocol"
"""The answer is no HTTP/1.1, or encoded although that was not asked for."""
REQUEST_TIMEOUT: Final = "request_timeout"
RESET: Final = "reset"
"""The connection was reset by the server or something between."""
STOPPED: Final = "stopped"
"""Cancelled by this worker: the run was told to stop."""
STREAM_ERROR: Final = "stream_error"
"""The answer's body reports an error although its status is 200: as a document, beside a choice,
by the name of an event or as `finish_reason: "error"`."""
TLS: Final = "tls"
TRUNCATED: Final = "truncated"
"""The answer ended without a finish reason, a final usage or `[DONE]`."""

MAX_MESSAGE_BYTES: Final = 1024

_EXHAUSTED = frozenset(
    {errno.EADDRNOTAVAIL, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
)


@dataclass(frozen=True, slots=True)
class Failure:
    """A kind and a message of at most 1 KiB."""

    kind: str
    message: str = ""


def http_kind(status: int) -> str:
    """Kind of an answer with another status than 2xx."""
    return f"http_{status}"


def shorten(text: str) -> str:
    """Cut a server's text to 1 KiB of UTF-8, never within a character."""
    raw = text.encode(errors="replace")
    return raw[:MAX_MESSAGE_BYTES].decode(errors="ignore") if len(raw) > MAX_MESSAGE_BYTES else text


def connect_failure(error: BaseException) -> Failure:
    """Say what an exception while connecting means."""
    if isinstance(error, ssl.SSLError):
        return Failure(TLS, shorten(str(error)))
    if isinstance(error, OSError) and error.errno in _EXHAUSTED:
        return Failure(CLIENT_EXHAUSTED, shorten(str(error)))
    if isinstance(error, TimeoutError):
        return Failure(CONNECT, "no connection in time")
    return Failure(CONNECT, shorten(str(error) or type(error).__name__))
