"""The operator's one port: inbox, `/healthz`, `/readyz`, `/metrics`."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import web

from tare.runtime.inbox import MAX_MESSAGE, Inbox
from tare.telemetry.metrics import CONTENT_TYPE, Metrics

if TYPE_CHECKING:
    from tare.runtime.settings import Settings

__all__ = ["Health", "serve"]

_BACKLOG = 1024
_HANDLES = 16

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Health:
    """What the probes ask."""

    def __init__(self, overdue: Callable[[], list[str]], resources: Iterable[str]) -> None:
        self._overdue = overdue
        self._missing = set(resources)

    def listed(self, resource: str) -> None:
        """`resource` was listed once; without the right to, it never is."""
        self._missing.discard(resource)

    @property
    def not_listed(self) -> list[str]:
        """Resources that were not listed yet: a right may be missing."""
        return sorted(self._missing)

    @property
    def overdue(self) -> list[str]:
        """Runs whose driver hangs."""
        return self._overdue()


@asynccontextmanager
async def serve(
    settings: Settings, inbox: Inbox, metrics: Metrics, health: Health
) -> AsyncIterator[None]:
    """Listen until the context ends; requests that are held then are cut off after a second."""
    app = web.Application(client_max_size=MAX_MESSAGE)
    inbox.add_routes(app)
    for path, handler in _routes(metrics, health):
        app.router.add_get(path, handler)
    # A held request whose worker went away must not count as a worker that listens.
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0, handler_cancellation=True)
    await runner.setup()
    try:
        for listener in _listeners(settings.host, settings.port):
            await web.SockSite(runner, listener, backlog=_BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


def _listeners(host: str, port: int) -> list[socket.socket]:
    """Open the port, and take several handles of it.

    An event loop on libuv accepts one connection for each handle and turn: when hundreds of workers
    come at once, the last would wait for seconds (https://github.com/libuv/libuv/pull/3696).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=_BACKLOG)
    return [listener, *(listener.dup() for _ in range(_HANDLES - 1))]


def _routes(metrics: Metrics, health: Health) -> Iterator[tuple[str, Handler]]:
    async def healthz(_: web.Request) -> web.Response:
        if overdue := health.overdue:
            return web.Response(status=500, text=f"no pass for too long: {', '.join(overdue)}\n")
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        if missing := health.not_listed:
            text = f"not listed yet: {', '.join(missing)}; is the right to list and watch there?\n"
            return web.Response(status=503, text=text)
        return web.Response(text="ok\n")

    async def exposition(_: web.Request) -> web.Response:
        body = await asyncio.to_thread(metrics.render)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})

    yield "/healthz", healthz
    yield "/readyz", readyz
    yield "/metrics", exposition
