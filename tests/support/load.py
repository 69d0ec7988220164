"""Asks a scripted server as the worker does: one request, or a whole work order."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from support.scripted import Script, ScriptedServer, Seen
from tare.api.names import ENV_INDEX
from tare.measure.histogram import Histogram
from tare.measure.wire import encode
from tare.net.origin import parse_base_url
from tare.plan.order import DatasetOrder, Lengths, PhaseOrder, TargetOrder, WorkOrder
from tare.worker.answer import Answer
from tare.worker.endpoint import Endpoint
from tare.worker.load import Load
from tare.worker.orders import read_assignment
from tare.worker.pool import Pool
from tare.worker.record import Record
from tare.worker.sender import request_heads
from tare.worker.tokenizing import sizes_for
from tare.workload.body import request_body

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.measure.messages import PhaseResult, WorkerResult

__all__ = [
    "Answered",
    "ask",
    "ask_server",
    "closed_loop",
    "histogram",
    "milliseconds",
    "open_loop",
    "pool_of",
    "run_load",
    "run_workers",
    "work_order",
]


@dataclass(frozen=True, kw_only=True)
class Answered:
    """One answer as the worker understood it."""

    record: Record
    text: str
    seen: Seen
    """The request as the server saw it at last."""

    def at(self, milliseconds: float) -> object:
        """About the time from the send to what the script says for this moment, within 20 ms.

        Counted to when the server really wrote it: a busy machine makes a script late, and that is
        no error of the client.
        """
        return pytest.approx(self._written(milliseconds) - self.record.sent / 1e6, abs=20)

    def between(self, one: float, other: float, *, parts: int = 1) -> object:
        """About the time between two moments of the script, or one of its `parts`, within 5 ms."""
        return pytest.approx((self._written(other) - self._written(one)) / parts, abs=5)

    def _written(self, milliseconds: float) -> float:
        return self.seen.written[milliseconds] / 1e6


async def ask(script: Script, **target: Any) -> Answered:
    """Send one request to a server with this script."""
    async with ScriptedServer(script) as server:
        return await ask_server(server, **target)


async def ask_server(
    server: ScriptedServer,
    *,
    max_tokens: int = 64,
    pool: Pool | None = None,
    keep: bool = False,
    **target: Any,
) -> Answered:
    """Send one request, on a connection that is open already and is kept afterwards if asked."""
    order = TargetOrder(urls=(server.url,), model="m", **target)
    pool = pool or pool_of(server)
    await pool.prepare(1)
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    text: list[str] = []
    record = Record(number=0, entry=0, asked_tokens=max_tokens)
    answer = Answer(
        record, streaming=order.streaming, done=lambda _: future.set_result(None), text=text
    )
    body = request_body(order, prompt="one two three", max_tokens=max_tokens)
    (head,) = request_heads(order, [parse_base_url(server.url)], {})
    pool.submit(answer, b"%b%d\r\n\r\n%b" % (head, len(body), body))
    await asyncio.wait_for(future, 10)
    if not keep:
        pool.close()
    return Answered(record=record, text="".join(text), seen=server.requests[-1])


def pool_of(*servers: ScriptedServer, connect_timeout: float = 2.0, **tls: Any) -> Pool:
    """A pool with one endpoint for each server."""
    return Pool(
        [
            Endpoint(parse_base_url(server.url).origin, connect_timeout=connect_timeout, **tls)
            for server in servers
        ]
    )


def milliseconds(nanoseconds: int | None) -> float | None:
    """A time of a record in the unit of the cases."""
    return None if nanoseconds is None else nanoseconds / 1e6


def work_order(
    *servers: ScriptedServer,
    phases: tuple[PhaseOrder, ...],
    entries: int = 100,
    osl: int = 3,
    target: Mapping[str, Any] | None = None,
    **more: Any,
) -> WorkOrder:
    """A small order against these servers."""
    return WorkOrder(
        run="run",
        namespace="bench",
        run_uid="uid",
        cell=0,
        trial=0,
        attempt=0,
        workers=more.pop("workers", 1),
        target=TargetOrder(
            **{"urls": tuple(server.url for server in servers), "model": "m", **(target or {})}
        ),
        dataset=DatasetOrder(entries=entries, isl=Lengths(value=16), osl=Lengths(value=osl)),
        phases=phases,
        **more,
    )


def closed_loop(*, requests: int | None = None, concurrency: int = 1, **more: Any) -> PhaseOrder:
    """A profiling phase in a closed loop."""
    return PhaseOrder(
        name="profiling",
        kind="profiling",
        type="concurrency",
        concurrency=concurrency,
        requests=requests,
        **more,
    )


def open_loop(rate: float, **more: Any) -> PhaseOrder:
    """A profiling phase in an open loop, at a constant rate unless `type` says otherwise."""
    fields: dict[str, Any] = {"type": "constant", **more}
    return PhaseOrder(name="profiling", kind="profiling", rate=rate, **fields)


async def run_load(
    order: WorkOrder, *, index: int = 0, environ: Mapping[str, str] | None = None
) -> WorkerResult:
    """Run all phases of an order as worker `index`, without an operator."""
    (result,) = await _run([await _load(order, index, environ or {})])
    return result


async def run_workers(order: WorkOrder) -> list[WorkerResult]:
    """Run all phases of an order as all of its workers, each phase started at once."""
    return await _run([await _load(order, index, {}) for index in range(order.workers)])


async def _load(order: WorkOrder, index: int, environ: Mapping[str, str]) -> Load:
    assignment = read_assignment({**environ, ENV_INDEX: str(index)}, encode(order))
    return Load(assignment, await sizes_for(assignment))


async def _run(loads: list[Load]) -> list[WorkerResult]:
    for phase in range(loads[0].phases):
        drained = [asyncio.Event() for _ in loads]
        for load in loads:
            await load.prepare(phase)
        for load, event in zip(loads, drained, strict=True):
            load.start(phase, event.set)
        await asyncio.wait_for(asyncio.gather(*(event.wait() for event in drained)), 30)
    results = [load.result() for load in loads]
    for load in loads:
        load.stop()
    return results


def histogram(phase: PhaseResult, metric: str) -> Histogram:
    """A distribution of a result."""
    return Histogram.from_json(phase.histograms.get(metric, {}))
