"""The other side of the operator, as cheap as it can be: model servers and workers that do nothing.

The workers are the real `Lifecycle` over the real inbox client, so that the operator meets the same
messages and held requests as in a cluster; only the load is missing. They note
when the last of a run's workers asked and when each of them was told: what a decision takes as its
receivers see it.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from aiohttp import web

from support.measured import MS, histogram, phase_result
from tare.measure.messages import Command, CommandKind, Wait, WorkerResult, WorkerState
from tare.telemetry.overriding import override
from tare.worker.inbox import Inbox
from tare.worker.lifecycle import Lifecycle
from tare.worker.orders import Assignment, read_assignment, read_inbox

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tare.devcluster.node.containers import PodContext

__all__ = ["Commands", "StubWorkers", "serve_targets"]

_PHASE_SECONDS = 0.02
"""Long enough that a worker says `running` before it says `drained`."""
_ANSWER = 'data: {"choices": [{"delta": {"content": "yes"}}]}\n\ndata: [DONE]\n\n'
_COUNTERS = "vllm:request_success_total 3\nvllm:prompt_tokens_total 30\n"


@dataclass
class Commands:
    """Moments at which the workers of all runs asked for commands and got them."""

    _asked: dict[tuple[str, WorkerState, int], float] = field(default_factory=dict)
    _told: dict[tuple[str, WorkerState, int], list[tuple[CommandKind, float]]] = field(
        default_factory=lambda: defaultdict(list)
    )

    def asked(self, message: Wait) -> None:
        """A worker says where it is."""
        key = (message.worker.run_uid, message.state, message.phase)
        self._asked[key] = time.monotonic()

    def told(self, message: Wait, command: Command) -> None:
        """A worker got its command."""
        key = (message.worker.run_uid, message.state, message.phase)
        self._told[key].append((command.do, time.monotonic()))

    def delays(self, *kinds: tuple[WorkerState, CommandKind]) -> list[float]:
        """Seconds from the last worker's word to each worker's command, by state and command."""
        return sorted(
            moment - self._asked[key]
            for key, answers in self._told.items()
            for do, moment in answers
            if (key[1], do) in kinds
        )


class StubWorkers:
    """Plays worker pods: the cluster's thread starts and ends them, this one's loop lives them.

    So what the workers see of a decision's time is not the time that the cluster's thread needs to
    write down the states of hundreds of pods.
    """

    def __init__(self) -> None:
        self.commands = Commands()
        self._loop = asyncio.get_running_loop()

    async def __call__(self, context: PodContext) -> int:
        """Live as a worker does; called in the cluster's loop."""
        living = asyncio.run_coroutine_threadsafe(self._live(context), self._loop)
        return await asyncio.wrap_future(living)

    async def _live(self, context: PodContext) -> int:
        assignment = read_assignment(context.env)
        inbox = _NotingInbox(self.commands, context.env)
        try:
            return await Lifecycle(assignment.identity, _NoLoad(assignment), inbox).run()
        finally:
            inbox.close()


class _NotingInbox(Inbox):
    """The workers' inbox client, with an eye on the clock."""

    def __init__(self, commands: Commands, env: Any) -> None:
        super().__init__(*read_inbox(env))
        self._commands = commands

    @override
    async def wait(self, message: Wait, *, patience: float) -> Command:
        self._commands.asked(message)
        command = await super().wait(message, patience=patience)
        self._commands.told(message, command)
        return command


class _NoLoad:
    """A load whose phases are over at once."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self.dataset: dict[str, Any] = {"entries": assignment.order.dataset.entries}
        self.drained = -1

    async def prepare(self, phase: int) -> None:
        """Nothing is to be connected."""

    def start(
        self,
        phase: int,
        on_drained: Callable[[], None],
        on_sent: Callable[[], None] | None = None,
    ) -> None:
        """End the phase in a moment."""
        del on_sent

        def end() -> None:
            self.drained = phase
            on_drained()

        asyncio.get_running_loop().call_later(_PHASE_SECONDS, end)

    def stop(self) -> None:
        """Nothing runs."""

    def progress(self) -> None:
        """No phase lasts long enough to report."""

    async def collect(self) -> WorkerResult:
        """Three requests of each phase."""
        values = histogram([MS, 2 * MS, 3 * MS])
        phases = tuple(
            phase_result(
                name=phase.name,
                kind=phase.kind,
                planned_seconds=None,
                seconds=_PHASE_SECONDS,
                counts={"issued": 3, "ok": 3},
                token_sources={"usage": 3},
                endpoints={self._assignment.order.target.urls[0]: 3},
                histograms={"time_to_first_token": values, "request_latency": values},
                first_cached_tokens=0,
            )
            for phase in self._assignment.order.phases
        )
        return WorkerResult(worker=self._assignment.identity, phases=phases, complete=True)


@asynccontextmanager
async def serve_targets(count: int) -> AsyncIterator[list[str]]:
    """Serve model `m` on `count` ports of this process; yields their URLs."""
    app = web.Application()
    app.router.add_get("/{path:health|version}", _status)
    app.router.add_get("/v1/models", _models)
    app.router.add_get("/metrics", _metrics)
    app.router.add_post("/v1/chat/completions", _chat)
    app.router.add_post("/{path:reset_prefix_cache|start_profile|stop_profile}", _status)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        for _ in range(count):
            await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield [f"http://127.0.0.1:{address[1]}" for address in runner.addresses]
    finally:
        await runner.cleanup()


async def _status(_: web.Request) -> web.Response:
    return web.json_response({"success": True, "version": "1"})


async def _models(_: web.Request) -> web.Response:
    return web.json_response({"object": "list", "data": [{"id": "m"}]})


async def _metrics(_: web.Request) -> web.Response:
    return web.Response(text=_COUNTERS)


async def _chat(_: web.Request) -> web.Response:
    return web.Response(text=_ANSWER, content_type="text/event-stream")
