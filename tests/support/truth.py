"""Brings the client's records together with the server's log, on the clock that both read.

The server is a process of its own; the client runs in this one, on uvloop, as a worker does. A
request is found by its prompt: all are different. What the log says is the truth as far as the
server knows it: a write is logged just before it is made, a request just after it was read.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import orjson
import uvloop

from tare.measure.histogram import Histogram
from tare.measure.wire import encode
from tare.worker.load import Load
from tare.worker.orders import read_assignment
from tare.workload.dataset import load as load_dataset

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from support.scripted import Seen
    from support.server_process import ServerProcess
    from tare.plan.order import WorkOrder

__all__ = ["Comparison", "compare"]


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A request as the client recorded it and as the server saw it; moments in nanoseconds."""

    sent: int
    read: int
    arrivals: list[int]
    """When each text came, by the record."""
    writes: list[int]
    """When each text was written, by the log."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All requests of a load."""

    pairs: list[Pair]
    lag: Histogram
    """Of the client's event loop, in nanoseconds: how long something else had the processor."""

    def errors(self, of: Callable[[Pair], Iterable[int]]) -> list[float]:
        """Return values of all requests in milliseconds, sorted."""
        return sorted(value / 1e6 for pair in self.pairs for value in of(pair))

    @property
    def calm(self) -> bool:
        """Whether the machine let the client run: else errors are those of the machine."""
        return (self.lag.percentile(99) or 0) < 10e6


def compare(server: ServerProcess, order: WorkOrder, folder: Path, *, texts: range) -> Comparison:
    """Run an order of one phase; `texts` are the writes of the server's script with text."""
    known = len(server.log())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        gate, lag = runner.run(_run(order))
    seen = {request.body: request for request in server.log()[known:]}
    bodies = {entry: request.body for entry, request in load_dataset(order, 0).items()}
    (journal,) = folder.glob("*.jsonl")
    records = [orjson.loads(line) for line in journal.read_bytes().splitlines()]
    journal.unlink()
    pairs = [_pair(record, gate, seen[bodies[record["entry"]]], texts) for record in records]
    assert len(pairs) == len(seen)
    return Comparison(pairs=pairs, lag=lag)


def _pair(record: dict[str, Any], gate: int, seen: Seen, texts: Sequence[int]) -> Pair:
    assert record["status"] == "ok", record
    return Pair(
        sent=gate + record["sent"],
        read=seen.read_at,
        arrivals=list(accumulate(record["gaps"], initial=gate + record["first_text"])),
        writes=[seen.writes[number][0] for number in texts],
    )


async def _run(order: WorkOrder) -> tuple[int, Histogram]:
    """Return the moment of the gate and the event loop's lag."""
    load = Load(read_assignment({}, encode(order)))
    await load.prepare(0)
    drained = asyncio.Event()
    load.start(0, drained.set)
    await asyncio.wait_for(drained.wait(), 60)
    runner, result = load._runner, load.result()
    load.stop()
    assert runner is not None
    return runner._began, Histogram.from_json(result.event_loop_lag)
