"""Connections for one or several endpoints, opened ahead and reused; no limit, no queue.

A request that finds a free connection is written within the same call; only otherwise a new one is
opened. The connection used last is reused first, so that the rest ages and is dropped before the
servers' usual five seconds of idling are over: a request on a connection that the server is closing
would be lost. Where that race is lost nevertheless, the request is sent once more; a connection
that closes later than such a race takes is a failure, since a server that dies at work is one.
"""

from __future__ import annotations

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING

from tare.telemetry.overriding import override
from tare.worker.failure import connect_failure
from tare.worker.http import Connection

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.worker.endpoint import Endpoint
    from tare.worker.http import Exchange

__all__ = ["MAX_IDLE", "Pool", "Ticket"]

MAX_IDLE = 4.0
"""Seconds after which a free connection is not used any more."""

_OPEN_AT_ONCE = 64
_RACE = 1_000_000_000
"""Nanoseconds after a send in which a close may have been on its way before: a round trip, and the
time that a busy server takes to close what it found idle."""


class Ticket:
    """A request on its way; its only use for others is to take it back."""

    __slots__ = ("connection", "endpoint", "exchange", "request", "resent", "task")

    def __init__(self, exchange: Exchange, request: bytes, endpoint: int) -> None:
        self.exchange: Exchange | None = exchange
        self.request = request
        self.endpoint = endpoint
        self.resent = False
        self.connection: _PooledConnection | None = None
        self.task: asyncio.Task[None] | None = None

    def let_go(self) -> None:
        """Nobody waits for the answer any more; it is read all the same, to keep its connection.

        What was not sent yet is not sent, now or again.
        """
        if self.connection is None:
            self.cancel()
        self.resent = True

    def cancel(self) -> None:
        """Close its connection; the exchange hears nothing more."""
        if self.task is not None:
            self.task.cancel()
        if self.connection is not None:
            self.connection.abort()


class _PooledConnection(Connection):
    """A connection that returns to its pool."""

    __slots__ = ("_pool", "endpoint", "idle_since", "ticket", "used")

    def __init__(self, pool: Pool, endpoint: int) -> None:
        super().__init__()
        self._pool = pool
        self.endpoint = endpoint
        self.idle_since = 0
        self.used = False
        self.ticket: Ticket | None = None

    @override
    def reusable(self, at: int) -> None:
        self.used = True
        ticket, self.ticket = self.ticket, None
        if ticket is not None:
            # Exchange and ticket know each other: a cycle for each request.
            ticket.exchange = ticket.connection = None
            ticket.request = b""
        self._pool.take_back(self, at)

    @override
    def closed(self) -> None:
        self._pool.forget(self)

    @override
    def repeated(self, at: int) -> bool:
        # A connection that was used before and closes without a byte is what a server's idle
        # time-out looks like (RFC 9112, section 9.3.1); a fresh one is the server's own failure.
        ticket = self.ticket
        if not self.used or ticket is None or ticket.resent or at - self._sent > _RACE:
            return False
        self.ticket = None
        self._pool.send_again(ticket)
        return True


class Pool:
    """All connections of a worker to its target, or to the operator."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        *,
        max_idle: float = MAX_IDLE,
        clock: Callable[[], int] = monotonic_ns,
    ) -> None:
        self.endpoints = tuple(endpoints)
        self.opened = 0
        """Connections opened so far."""
        self._max_idle = round(max_idle * 1e9)
        self._clock = clock
        # Ordered by the moment they became free: the last is the freshest.
        self._idle: list[dict[_PooledConnection, None]] = [{} for _ in endpoints]
        self._connections: set[_PooledConnection] = set()

    async def prepare(self, count: int) -> None:
        """Have `count` fresh free connections, spread evenly over the endpoints.

        Those that are half as old as allowed are replaced, so that all of them live through the
        wait for the gate.

        Raises:
            OSError: a connection cannot be opened; those that could are kept. An endpoint that has
                failed once is not tried again: a silent one takes seconds for each.
        """
        gate = asyncio.Semaphore(_OPEN_AT_ONCE)
        failed: set[int] = set()

        async def open_one(endpoint: int) -> None:
            async with gate:
                if endpoint in failed:
                    return
                try:
                    self.take_back(await self._open(endpoint), self._clock())
                except OSError:
                    failed.add(endpoint)
                    raise

        openings = []
        for index, idle in enumerate(self._idle):
            self._drop_older(idle, self._max_idle // 2)
            share = -(-(count - index) // len(self._idle))
            openings += [open_one(index) for _ in range(share - len(idle))]
        for outcome in await asyncio.gather(*openings, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome

    def submit(self, exchange: Exchange, request: bytes, endpoint: int = 0) -> Ticket:
        """Send `request` at once on a free connection, else on a new one."""
        ticket = Ticket(exchange, request, endpoint)
        idle = self._idle[endpoint]
        while idle:
            connection, _ = idle.popitem()
            if self._clock() - connection.idle_since > self._max_idle:
                connection.abort()
                self._drop_older(idle, 0)
            elif connection.open:
                ticket.connection = connection
                connection.ticket = ticket
                connection.send(exchange, request)
                return ticket
        ticket.task = asyncio.get_running_loop().create_task(self._send_on_new(ticket))
        return ticket

    def send_again(self, ticket: Ticket) -> None:
        """Send a request a second time, on a new connection."""
        ticket.resent = True
        ticket.connection = None
        ticket.task = asyncio.get_running_loop().create_task(self._send_on_new(ticket))

    def take_back(self, connection: _PooledConnection, at: int) -> None:
        """Keep a connection that is free since `at`."""
        connection.idle_since = at
        self._idle[connection.endpoint][connection] = None

    def forget(self, connection: _PooledConnection) -> None:
        """Drop a connection that is closed."""
        self._idle[connection.endpoint].pop(connection, None)
        self._connections.discard(connection)

    def close(self) -> None:
        """Close the free connections."""
        for idle in self._idle:
            self._drop_older(idle, -1)

    def abort(self) -> None:
        """Close all connections, whether somebody waits for an answer or not."""
        for connection in list(self._connections):
            connection.abort()

    async def _open(self, endpoint: int) -> _PooledConnection:
        connection = await self.endpoints[endpoint].connect(
            lambda: _PooledConnection(self, endpoint)
        )
        self.opened += 1
        self._connections.add(connection)
        return connection

    async def _send_on_new(self, ticket: Ticket) -> None:
        try:
            connection = await self._open(ticket.endpoint)
        except OSError as error:
            ticket.task = None
            if ticket.exchange is not None:
                ticket.exchange.on_failure(self._clock(), connect_failure(error))
            return
        ticket.task = None
        assert ticket.exchange is not None
        ticket.connection = connection
        connection.ticket = ticket
        connection.send(ticket.exchange, ticket.request)

    def _drop_older(self, idle: dict[_PooledConnection, None], age: int) -> None:
        """Close the free connections that are older than `age` nanoseconds."""
        now = self._clock()
        for connection in [c for c in idle if now - c.idle_since > age]:
            del idle[connection]
            connection.abort()
