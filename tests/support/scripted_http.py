"""A real HTTP server on loopback that says what a test tells it to: the border of the process.

Each path has a list of answers that are given one after the other, the last one for ever. What was
asked is kept, so that a test can say exactly which calls a server must have seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import orjson
from aiohttp import web

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

__all__ = ["Reply", "Request", "ScriptedServer", "json_reply", "scripted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One scripted answer."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    silent: bool = False
    """Accept the request and never answer."""
    together: asyncio.Barrier | None = None
    """Answer only when as many requests have come as the barrier has parties."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request as it arrived."""

    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """Parse the body."""
        return orjson.loads(self.body)


def json_reply(document: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Make an answer of JSON."""
    return Reply(
        status=status,
        body=orjson.dumps(document),
        headers={"Content-Type": "application/json", **(headers or {})},
    )


class ScriptedServer:
    """Answers by path (without the query); a path that was not scripted is a 404."""

    def __init__(self) -> None:
        self.origin = ""
        self.port = 0
        self.requests: list[Request] = []
        self._replies: dict[str, list[Reply]] = {}

    def on(self, path: str, *replies: Reply) -> ScriptedServer:
        """Script the answers for `path`."""
        self._replies[path] = list(replies)
        return self

    def calls(self, path: str) -> list[Request]:
        """What was asked of `path`, query aside."""
        return [request for request in self.requests if request.path.partition("?")[0] == path]

    async def handle(self, request: web.Request) -> web.Response:
        """Record a request and give the next answer."""
        self.requests.append(
            Request(
                method=request.method,
                path=request.path_qs,
                headers=dict(request.headers),
                body=await request.read(),
            )
        )
        replies = self._replies.get(request.path)
        if not replies:
            return web.json_response({"detail": "Not Found"}, status=404)
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if reply.together:
            await reply.together.wait()
        if reply.silent:
            await asyncio.Event().wait()
        return web.Response(status=reply.status, body=reply.body, headers=reply.headers)


@asynccontextmanager
async def scripted(
    tls: ssl.SSLContext | None = None, *, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[ScriptedServer]:
    """Run a server on a loopback address until the block ends; port 0 is a free one."""
    server = ScriptedServer()
    application = web.Application(client_max_size=8 * 2**20)
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(
        application, access_log=None, handler_cancellation=True, shutdown_timeout=0.05
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port, ssl_context=tls)
        await site.start()
        server.port = runner.addresses[0][1]
        server.origin = f"{'https' if tls else 'http'}://{host}:{server.port}"
        yield server
    finally:
        await runner.cleanup()
