"""How far the times in our client's records are from those in the server's log.

Both read CLOCK_MONOTONIC. A true time counts from the moment at which the server had read the
request, so that what the loopback and the server's own event loop add is charged to the client.
Requests and streams are brought together by their prompts, which are all different.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import orjson

from bench.contenders import follow, order, run
from tare.plan.order import PhaseOrder, RampOrder
from tare.workload.dataset import load

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from bench.server_handle import Server
    from bench.sse_server import Stream

__all__ = ["Errors", "Streams", "measure", "quantile"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """A load with a known truth."""

    path: str
    """Of the server: how it answers."""
    concurrency: int
    requests: int
    ramp: float = 0.0
    """Seconds over which the first ones are spread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """Distances from the truth in milliseconds, sorted."""

    ttft: list[float]
    latency: list[float]
    gaps: list[float]
    """Of the inter-chunk latency."""


def measure(server: Server, streams: Streams, folder: Path) -> Errors:
    """Send the load with a worker of its own process and compare."""
    ramp = RampOrder(seconds=streams.ramp, start=1) if streams.ramp else None
    phase = PhaseOrder(
        name="truth",
        kind="profiling",
        type="concurrency",
        concurrency=streams.concurrency,
        requests=streams.requests,
        ramp=ramp,
    )
    plan = order(server.urls(streams.path), phase, artifacts=folder)
    server.take_log()
    run(server, follow(plan, folder), folder)
    truth = {stream.body: stream for stream in server.take_log()}
    bodies = {entry: zlib.crc32(request.body) for entry, request in load(plan, 0).items()}
    (journal,) = folder.glob("*.jsonl")
    records = [orjson.loads(line) for line in journal.read_bytes().splitlines()]
    journal.unlink()
    assert len(records) == len(truth) == streams.requests
    return _errors([(record, truth[bodies[record["entry"]]]) for record in records])


def quantile(values: Sequence[float], share: float) -> float:
    """Return the smallest of the sorted values that `share` of them do not exceed."""
    return values[max(-int(-share * len(values) // 1) - 1, 0)]


def _errors(pairs: list[tuple[dict[str, Any], Stream]]) -> Errors:
    ttft, latency, gaps = [], [], []
    for record, stream in pairs:
        assert record["status"] == "ok", record
        ttft.append(record["first_text"] - record["sent"] - (stream.writes[0] - stream.read_at))
        latency.append(record["last_text"] - record["sent"] - (stream.writes[-1] - stream.read_at))
        true_gaps = [b - a for a, b in pairwise(stream.writes)]
        gaps += [m - t for m, t in zip(record["gaps"], true_gaps, strict=True)]
    return Errors(ttft=_sizes(ttft), latency=_sizes(latency), gaps=_sizes(gaps))


def _sizes(nanoseconds: list[int]) -> list[float]:
    return sorted(abs(value) / 1e6 for value in nanoseconds)
