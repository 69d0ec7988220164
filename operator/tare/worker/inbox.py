"""The operator's inbox as a worker sees it: JSON over one or two kept connections.

Away is not gone: a refused connection, a time-out and a 5xx all mean "try again soon", since a new
pod's network policy takes half a second to let it through and an operator may be restarting. What
does not come right by waiting is an exception with the operator's own words.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from tare.measure.messages import Command, ResultReply
from tare.measure.wire import WireError, decode, encode
from tare.worker.endpoint import Endpoint
from tare.worker.failure import shorten
from tare.worker.fetch import Fetch
from tare.worker.http import request_head
from tare.worker.pool import Pool

if TYPE_CHECKING:
    from tare.measure.messages import Progress, Register, Wait, WorkerResult
    from tare.net.origin import BaseUrl

__all__ = ["AttemptOverError", "AwayError", "Inbox", "RefusedError", "UnknownWorkerError"]

_CONNECT_TIMEOUT = 0.1
_FIRST_PAUSE = 0.02
_LAST_PAUSE = 0.05
_SHORT = 5.0
_HELD = 30.0
"""The operator holds waits and results for 20 s at most."""
_SUCCESS = 2
_REFUSAL = 4
_TRY_AGAIN = (408, 425, 429)

T = TypeVar("T")


class AwayError(Exception):
    """The operator did not answer in time."""


class AttemptOverError(Exception):
    """The attempt is over: this worker is not needed any more."""


class RefusedError(Exception):
    """The operator refuses this worker for good."""


class UnknownWorkerError(Exception):
    """The operator does not know this worker: it has restarted."""


class Inbox:
    """Sends the messages of `measure.messages`."""

    def __init__(self, base: BaseUrl, token: str) -> None:
        self._base = base
        self._pool = Pool([Endpoint(base.origin, connect_timeout=_CONNECT_TIMEOUT)])
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
        self.round_trip = 0.0
        """Seconds of the fastest exchange that the operator did not hold; 0 before the first."""

    async def register(self, message: Register, *, patience: float) -> None:
        """Say that the worker is there.

        Raises:
            AwayError: not within `patience` seconds.
            AttemptOverError: the attempt is over.
            RefusedError: another pod holds the index, or the token is wrong.
        """
        await self._insist("/v1/register", message, patience=patience)

    async def wait(self, message: Wait, *, patience: float) -> Command:
        """Ask for the next command; held by the operator until there is one.

        Raises:
            UnknownWorkerError: register again; and as for `register`.
        """
        return await self._insist_on(Command, "/v1/wait", message, patience=patience)

    async def progress(self, message: Progress) -> None:
        """Report once; a report that is lost is made up for by the next one."""
        try:
            await self._post("/v1/progress", encode(message), held=False)
        except OSError:
            return

    async def offer(self, message: WorkerResult, *, patience: float) -> bool:
        """Hand the result over; True when it is stored.

        Raises:
            UnknownWorkerError: register again; and as for `register`.
        """
        reply = await self._insist_on(ResultReply, "/v1/result", message, patience=patience)
        return reply.stored

    def close(self) -> None:
        """Close the connections."""
        self._pool.abort()

    async def _insist_on(self, kind: type[T], route: str, message: Any, *, patience: float) -> T:
        body = await self._insist(route, message, patience=patience, held=True)
        try:
            return decode(kind, body)
        except WireError as error:
            raise RefusedError(f"{route}: {error}") from error

    async def _insist(
        self, route: str, message: Any, *, patience: float, held: bool = False
    ) -> bytes:
        """POST until there is an answer that waiting would not change."""
        body = encode(message)
        deadline = time.monotonic() + patience
        pause = _FIRST_PAUSE
        while True:
            try:
                status, answer = await self._post(route, body, held=held)
                problem = f"{status} {_text(answer)}"
            except OSError as error:
                status, answer, problem = 0, b"", str(error) or "no answer in time"
            if status // 100 == _SUCCESS:
                return answer
            if status // 100 == _REFUSAL and status not in _TRY_AGAIN:
                raise _refusal(status, f"{route}: {problem}")
            if time.monotonic() >= deadline:
                raise AwayError(f"{self._base.origin}{route}: {problem}")
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LAST_PAUSE)

    async def _post(self, route: str, body: bytes, *, held: bool) -> tuple[int, bytes]:
        """POST once; `held` says that the operator may take its time.

        A held request that is given up for a newer one is answered when that arrives: its
        connection is of use again, and a change of state costs no new one.

        Raises:
            OSError: no answer.
        """
        head = request_head(
            "POST", self._base.path(route), self._base.origin.authority, self._headers
        )
        fetch = Fetch()
        ticket = self._pool.submit(fetch, b"%b%d\r\n\r\n%b" % (head, len(body), body))
        try:
            async with asyncio.timeout(_HELD if held else _SHORT):
                answer = await fetch.answer
        except asyncio.CancelledError:
            ticket.let_go()
            raise
        except TimeoutError:
            ticket.cancel()
            raise
        if not held:
            seconds = (fetch.ended_at - fetch.sent_at) / 1e9
            self.round_trip = min(self.round_trip or seconds, seconds)
        return answer


def _refusal(status: int, message: str) -> Exception:
    match status:
        case 404:
            return UnknownWorkerError(message)
        case 410:
            return AttemptOverError(message)
        case _:
            return RefusedError(message)


def _text(answer: bytes) -> str:
    try:
        document = orjson.loads(answer)
    except orjson.JSONDecodeError:
        document = answer.decode(errors="replace")
    return shorten(str(document)).strip()
