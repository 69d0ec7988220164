"""The inbox: HTTP routes under `/v1` for the workers (`measure.messages` is the protocol).

Every message carries the run's bearer token. 404 asks a worker to register again, 410 sends it
home, 503 asks it to come back: this process has not yet looked at its run.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Protocol, TypeVar

from aiohttp import web

from tare.manifests.secret import run_token
from tare.measure.messages import Identity, Progress, Register, ResultReply, Wait, WorkerResult
from tare.measure.wire import WireError, decode, encode
from tare.runtime.book import (
    AttemptBook,
    AttemptOverError,
    IndexTakenError,
    UnknownWorkerError,
)

if TYPE_CHECKING:
    from tare.telemetry.metrics import Metrics

__all__ = ["Inbox"]

MAX_MESSAGE = 64 * 2**20
"""Bytes; a result with 50,000 request rows has about 5 MB."""


_WRONG_TOKEN = "wrong token for this run"  # noqa: S105 - what a wrong one is told
_MAX_TEXT = 512
"""Characters of a refusal: it repeats the value that was sent."""


class _Message(Protocol):
    @property
    def worker(self) -> Identity: ...


M = TypeVar("M", bound=_Message)
Handler = Callable[[web.Request], Awaitable[web.Response]]


class Inbox:
    """Routes of the inbox over the books of all runs."""

    def __init__(
        self, books: Mapping[str, AttemptBook], operator_key: bytes, metrics: Metrics
    ) -> None:
        self._books = books
        self._key = operator_key
        self._metrics = metrics

    def add_routes(self, app: web.Application) -> None:
        """Add the four routes."""
        app.router.add_post("/v1/register", self._counted("register", self._register))
        app.router.add_post("/v1/wait", self._counted("wait", self._wait))
        app.router.add_post("/v1/progress", self._counted("progress", self._progress))
        app.router.add_post("/v1/result", self._counted("result", self._result))

    def _counted(self, message: str, handler: Handler) -> Handler:
        """Turn a book's refusals into status codes, and count them."""

        async def handle(request: web.Request) -> web.Response:
            try:
                response = await handler(request)
            except WireError as error:
                response = _text(400, str(error))
            except AttemptOverError:
                response = _text(410, "this attempt is over")
            except IndexTakenError:
                response = _text(409, "another pod holds this index")
            except UnknownWorkerError:
                response = _text(404, "register first")
            except web.HTTPException as refused:
                self._metrics.inbox_requests.labels(message, str(refused.status)).inc()
                raise
            self._metrics.inbox_requests.labels(message, str(response.status)).inc()
            return response

        return handle

    async def _register(self, request: web.Request) -> web.Response:
        message, book = await self._read(request, Register)
        book.register(message)
        return web.Response()

    async def _wait(self, request: web.Request) -> web.Response:
        message, book = await self._read(request, Wait)
        return _json(await book.wait(message))

    async def _progress(self, request: web.Request) -> web.Response:
        message, book = await self._read(request, Progress)
        book.progress(message)
        return web.Response(status=204)

    async def _result(self, request: web.Request) -> web.Response:
        message, book = await self._read(request, WorkerResult)
        return _json(ResultReply(stored=await book.result(message)))

    async def _read(self, request: web.Request, kind: type[M]) -> tuple[M, AttemptBook]:
        """Check the token, before anything is read; then decode, and find the run's book."""
        uid = self._authenticated(request)
        message = decode(kind, await request.read())
        if message.worker.run_uid != uid:
            raise web.HTTPUnauthorized(text=_WRONG_TOKEN)
        book = self._books.get(uid)
        if book is None or not book.informed:
            raise web.HTTPServiceUnavailable(text="no driver for this run yet")
        return message, book

    def _authenticated(self, request: web.Request) -> str:
        """UID of the run whose token was sent."""
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        # aiohttp reads bytes that are no UTF-8 as surrogates, which would not encode otherwise.
        sent = given.encode(errors="surrogateescape")
        uid = given.rpartition(".")[0]
        expected = run_token(self._key, uid.encode(errors="replace").decode())
        if not hmac.compare_digest(sent, expected.encode()):
            raise web.HTTPUnauthorized(text=_WRONG_TOKEN)
        return uid


def _text(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text[:_MAX_TEXT])


def _json(value: object) -> web.Response:
    return web.Response(body=encode(value), content_type="application/json")
