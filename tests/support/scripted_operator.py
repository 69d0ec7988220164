"""The operator's inbox, led by a test: holds waits, keeps messages, forgets, refuses, goes away."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Self

from aiohttp import web

from tare.measure.messages import (
    Command,
    CommandKind,
    Progress,
    Register,
    ResultReply,
    Wait,
    WorkerResult,
    WorkerState,
)
from tare.measure.wire import decode, encode

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["ScriptedOperator"]

_APPLIES = {
    CommandKind.PREPARE: (WorkerState.WAITING, WorkerState.DRAINED),
    CommandKind.START: (WorkerState.READY, WorkerState.SENT),
    CommandKind.FINISH: (WorkerState.DRAINED,),
    CommandKind.STOP: tuple(state for state in WorkerState if state is not WorkerState.STOPPED),
    CommandKind.IDLE: (),
}


class ScriptedOperator:
    """Serves while its context is open; `tell` gives the standing command."""

    def __init__(self, token: str = "token") -> None:  # noqa: S107 - made up
        self.registers: list[Register] = []
        self.waits: list[Wait] = []
        self.progress: list[Progress] = []
        self.results: list[WorkerResult] = []
        self.held = 0
        self.most_held = 0
        self.refuse: dict[str, int] = {}
        """Route to the status that it answers."""
        self.stored = True
        self.port = 0
        self._known = False
        self._command = Command(do=CommandKind.IDLE)
        self._changed = asyncio.Event()
        self._spoken = asyncio.Event()
        self._token = token
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Base URL of the inbox."""
        return f"http://127.0.0.1:{self.port}"

    def tell(self, do: CommandKind, phase: int = -1) -> None:
        """Give a command to whoever waits, now or later, in a state that it applies to."""
        self._command = Command(do=do, phase=phase)
        self._changed.set()
        self._changed = asyncio.Event()

    def forget(self) -> None:
        """Lose all memory, as a restart does."""
        self._known = False

    async def until_registered(self, times: int) -> None:
        """Return when there were so many registrations."""
        async with asyncio.timeout(5):
            while len(self.registers) < times:
                await self._spoken.wait()

    async def until(self, state: WorkerState, phase: int) -> None:
        """Return when the worker has said that it is in `state` of `phase`."""
        async with asyncio.timeout(5):
            while not self.waits or (self.waits[-1].state, self.waits[-1].phase) != (state, phase):
                await self._spoken.wait()

    async def __aenter__(self) -> Self:
        app = web.Application()
        for name in ("register", "wait", "progress", "result"):
            app.router.add_post(f"/v1/{name}", self._guarded)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    async def _guarded(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != f"Bearer {self._token}":
            return web.Response(status=401, text="wrong token")
        if (status := self.refuse.get(request.path)) is not None:
            return web.Response(status=status, text="refused by the test")
        body = await request.read()
        if request.path == "/v1/register":
            self.registers.append(decode(Register, body))
            self._known = True
            self._spoken.set()
            self._spoken = asyncio.Event()
            return web.Response()
        if not self._known:
            return web.Response(status=404, text="register first")
        match request.path:
            case "/v1/wait":
                return _json(await self._wait(decode(Wait, body)))
            case "/v1/progress":
                self.progress.append(decode(Progress, body))
                return web.Response(status=204)
            case _:
                self.results.append(decode(WorkerResult, body))
                return _json(ResultReply(stored=self.stored))

    async def _wait(self, message: Wait) -> Command:
        self.waits.append(message)
        self._spoken.set()
        self._spoken = asyncio.Event()
        number = len(self.waits)
        self._changed.set()
        self._changed = asyncio.Event()
        await asyncio.sleep(0)  # the one that this takes the place of is answered first
        self.held += 1
        self.most_held = max(self.most_held, self.held)
        try:
            while message.state not in _APPLIES[self._command.do]:
                await self._changed.wait()
                if number < len(self.waits):
                    return Command(do=CommandKind.IDLE)
            return self._command
        finally:
            self.held -= 1


def _json(value: object) -> web.Response:
    return web.Response(body=encode(value), content_type="application/json")
