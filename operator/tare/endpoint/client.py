"""HTTP for control calls: hooks, readiness and the probe request, apart from any load.

Each call opens a connection of its own: calls are rare, and a kept one may be closed by the server
in the very moment of a POST. Redirects are never followed (a service could send the operator's
credentials anywhere), cookies and proxies are not used, bodies are cut. Header values are in no
log line and no error.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import Protocol, Self

import aiohttp
from yarl import URL

from tare.net.origin import parse_origin

__all__ = ["Answer", "CallError", "CallFailure", "Control", "ControlClient"]

MAX_BODY = 4 * 1024 * 1024
"""Bytes of an answer that are read; a real vLLM's `/metrics` has 56 kB with one model."""
_CONNECT_TIMEOUT = 10.0
"""Seconds for a connection, which the kernel accepts for a server that is busy: none after that
long means that nobody is there, as at the address of a pod that is gone. A stop may take 300 s."""


class CallFailure(StrEnum):
    """Why there was no answer."""

    CERTIFICATE = "certificate"
    """The server's certificate is not accepted; trying again does not help."""
    CLOSED = "closed"
    """The connection was closed or reset before an answer came."""
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"


class CallError(Exception):
    """A call without an answer; `str()` says of whom and why."""

    def __init__(self, failure: CallFailure, message: str) -> None:
        super().__init__(message)
        self.failure = failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """An HTTP answer, whatever its status."""

    status: int
    body: bytes = b""
    """At most `MAX_BODY` bytes."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """Names in lower case."""

    @property
    def ok(self) -> bool:
        """A 2xx status."""
        return self.status // 100 == HTTPStatus.OK // 100

    @property
    def text(self) -> str:
        """The body as text; bytes that are no UTF-8 are replaced."""
        return self.body.decode(errors="replace")


class Control(Protocol):
    """What hooks and preflight ask of HTTP."""

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109 - each call has its own, inside a budget of the caller
        host: str | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send one request, with JSON as `body`, and read its answer, or raise `CallError`."""
        ...


class ControlClient:
    """`Control` on aiohttp; an async context manager that closes its connections."""

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, connect_timeout: float = _CONNECT_TIMEOUT
    ) -> None:
        self._tls: ssl.SSLContext | bool = tls or True
        self._connect_timeout = connect_timeout
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        """Open the session."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=self._tls, force_close=True, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"User-Agent": "tare-operator"},
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=self._connect_timeout),
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the session."""
        assert self._session is not None
        await self._session.close()

    async def call(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str],
        timeout: float,  # noqa: ASYNC109 - each call has its own, inside a budget of the caller
        host: str | None = None,
        body: bytes | None = None,
    ) -> Answer:
        """Send one request and read its answer.

        `host` is the name that the server is known by when `url` holds an address: it is sent as
        `Host`, and as SNI when TLS is used, so that the certificate is checked against it.

        Raises:
            CallError: there was no answer within `timeout` seconds.
        """
        try:
            async with asyncio.timeout(timeout):
                return await self._send(method, url, headers, host, body)
        except aiohttp.ConnectionTimeoutError as error:
            message = f"{method} {url}: no connection within {self._connect_timeout:g} s"
            raise CallError(CallFailure.UNREACHABLE, message) from error
        except TimeoutError as error:
            message = f"{method} {url}: no answer within {timeout:g} s"
            raise CallError(CallFailure.TIMEOUT, message) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _call_error(method, url, error) from error

    async def _send(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        host: str | None,
        body: bytes | None,
    ) -> Answer:
        assert self._session is not None, "use `async with ControlClient() as client`"
        sent = dict(headers)
        if host:
            sent["Host"] = host
        if body is not None:
            sent["Content-Type"] = "application/json"
        async with self._session.request(
            method,
            URL(url),
            headers=sent,
            data=body,
            allow_redirects=False,
            server_hostname=parse_origin(f"https://{host}").host if host else None,
        ) as response:
            received = bytearray()
            async for chunk in response.content.iter_any():
                received += chunk
                if len(received) >= MAX_BODY:
                    break
            return Answer(
                status=response.status,
                body=bytes(received[:MAX_BODY]),
                headers={name.lower(): value for name, value in response.headers.items()},
            )


def _call_error(method: str, url: str, error: Exception) -> CallError:
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        # Python's text already says "certificate verify failed: self-signed certificate".
        message = f"{method} {url}: the TLS certificate or handshake was not accepted: {error}"
        return CallError(CallFailure.CERTIFICATE, message)
    closed = isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError)
    failure = CallFailure.CLOSED if closed else CallFailure.UNREACHABLE
    return CallError(failure, f"{method} {url}: {str(error) or type(error).__name__}")
