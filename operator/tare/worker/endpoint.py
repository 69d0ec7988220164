"""One server address that the worker talks to: resolved once, connected with a short time-out.

Names are resolved ahead of the load and kept, since a look-up per connection would be part of the
load; a failed connection makes the next one look again, so that a moved Service is found. Of
several addresses the one that accepted last comes first: a silent one costs its time-out once.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING, Any, TypeVar

from tare.net.tls import client_context

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    from tare.net.origin import Origin

__all__ = ["Endpoint"]

P = TypeVar("P", bound=asyncio.Protocol)


class Endpoint:
    """Opens connections to one origin."""

    def __init__(
        self,
        origin: Origin,
        *,
        connect_timeout: float,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
    ) -> None:
        self.origin = origin
        self._connect_timeout = connect_timeout
        self._tls: ssl.SSLContext | None = None
        if origin.scheme == "https":
            self._tls = tls or client_context()
        self._server_name = server_name or origin.host
        """Whom the certificate must be for."""
        self._addresses: list[str] = []

    async def resolve(self) -> None:
        """Look the host up unless its addresses are known.

        Raises:
            OSError: the name is unknown, or cannot be one.
        """
        if self._addresses:
            return
        loop = asyncio.get_running_loop()
        host, port = self.origin.host, self.origin.port
        try:
            if self._tls is not None:
                self._server_name.encode("idna")  # uvloop would log a traceback of the handshake.
            found = await loop.getaddrinfo(
                host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
            )
        except UnicodeError as error:
            names = f"{host!r}, or {self._server_name!r} of its certificate"
            raise OSError(f"{names}, is no name of a host: {error}") from error
        self._addresses = list(dict.fromkeys(str(info[4][0]) for info in found))

    async def connect(self, factory: Callable[[], P]) -> P:
        """Open a connection to the first address that accepts one.

        Raises:
            OSError: no address did; TimeoutError and ssl.SSLError among them.
        """
        await self.resolve()
        last: OSError | None = None
        for address in self._addresses:
            try:
                protocol = await self._connect_to(address, factory)
            except OSError as error:
                last = error
            else:
                if last is not None:
                    others = [other for other in self._addresses if other != address]
                    self._addresses = [address, *others]
                return protocol
        self._addresses = []
        raise last or OSError(f"{self.origin.host} has no address")

    async def _connect_to(self, address: str, factory: Callable[[], P]) -> P:
        loop = asyncio.get_running_loop()
        arguments: dict[str, Any] = {}
        if self._tls is not None:
            arguments = {"ssl": self._tls, "server_hostname": self._server_name}
        async with asyncio.timeout(self._connect_timeout):
            _, protocol = await loop.create_connection(
                factory, address, self.origin.port, **arguments
            )
        return protocol
