"""What does the measuring client cost, and how far is it from the truth, beside other clients?

One run, one server process with answers made beforehand (`bench.sse_server`), every client in a
process of its own, in turn; medians of five rounds. Bounds hold on two free cores; ratios hold on
a busy machine too. As root the bench takes precedence over whatever else runs.

    PYTHONPATH=tests .venv/bin/python -m bench.client
    PYTHONPATH=tests .venv/bin/python -m bench.client cost --peer 'loader {url} {requests} {concurrency}'

Exit code 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from bench.accuracy import Streams, measure, quantile
from bench.contenders import Client, Load, Peer, Plain, Run, Tare, Wrk, order, run
from bench.server_handle import Server
from tare.measure.messages import WorkerResult
from tare.measure.wire import decode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What is promised of one number."""

    name: str
    limit: float
    unit: str
    sense: Literal["most", "least"] = "most"

    def holds(self, value: float) -> bool:
        """Whether `value` keeps it."""
        return value <= self.limit if self.sense == "most" else value >= self.limit


BOUNDS = (
    Bound(name="4 chunks: CPU a request", limit=0.08, unit="ms"),
    Bound(name="4 chunks: aiohttp's CPU over ours", limit=5, unit="×", sense="least"),
    Bound(name="4 chunks: requests a second", limit=10_000, unit="/s", sense="least"),
    Bound(name="100 chunks in one write: events a CPU second", limit=1e5, unit="", sense="least"),
    Bound(name="100 chunks, a write each: events a CPU second", limit=1e5, unit="", sense="least"),
    Bound(name="start to first request", limit=0.5, unit="s"),
    Bound(name="100 requests end to end", limit=1.0, unit="s"),
    Bound(name="10,000 streams: memory", limit=256, unit="MiB"),
    Bound(name="10,000 streams: failed requests", limit=0, unit=""),
    Bound(name="10,000 streams: at once", limit=10_000, unit="", sense="least"),
    Bound(name="64 streams: TTFT error p50", limit=0.5, unit="ms"),
    Bound(name="64 streams: TTFT error p99", limit=2.0, unit="ms"),
    Bound(name="64 streams: latency error p50", limit=1.0, unit="ms"),
    Bound(name="64 streams: inter-chunk error p50", limit=0.3, unit="ms"),
    Bound(name="500 streams, staggered: TTFT error p99", limit=5.0, unit="ms"),
    Bound(name="500 streams, staggered: latency error p99", limit=5.0, unit="ms"),
    Bound(name="500 streams, one burst: TTFT error p99", limit=10.0, unit="ms"),
    Bound(name="500 streams, one burst: latency error p99", limit=10.0, unit="ms"),
)

_CONCURRENCY = 64
_PATHS = {"4 chunks": ("/once/4", 4), "100 chunks in one write": ("/once/100", 100)}
_PATHS["100 chunks, a write each"] = ("/each/100", 100)
_REQUESTS: dict[str, dict[int, int]] = {
    # By name and chunks: about a second of CPU each.
    Tare.name: {4: 20_000, 100: 3_000},
    Plain.name: {4: 3_000, 100: 400},
    Wrk.name: {4: 1, 100: 1},
    Peer.name: {4: 1_000, 100: 200},
}
_MANY = 10_000
_HOLD = "/timed/5000/1000/5"
"""The streams of the many: open for nine seconds each, so that all of them are at once."""
_TRUE = {
    "64 streams": Streams(path="/timed/50/10/16", concurrency=64, requests=640),
    "500 streams, staggered": Streams(
        path="/timed/500/50/20", concurrency=500, requests=500, ramp=0.05
    ),
    "500 streams, one burst": Streams(path="/ticks/500/50/20", concurrency=500, requests=500),
}

Values = dict[str, float]
"""Measured numbers by the name of their bound."""


class Bench:
    """A server, a folder, and how often everything is measured."""

    def __init__(self, server: Server, folder: Path, rounds: int, peer: str | None) -> None:
        self._server = server
        self._folder = folder
        self._rounds = rounds
        self._clients: list[Client] = [Tare(), Plain()]
        if shutil.which("wrk"):
            self._clients.append(Wrk())
        if peer is not None:
            self._clients.append(Peer(peer))

    def cost(self) -> Values:
        """CPU time, rate and memory of every client, in streams of 4 and of 100 chunks."""
        values: Values = {}
        _say(f"\n{'':30}{'client':16}{'CPU/request':>13}{'requests/s':>12}{'events/CPU s':>14}"
             f"{'PSS':>9}{'first request':>15}")
        for title, (path, chunks) in _PATHS.items():
            costs = self._costs(path, chunks)
            ours = costs[Tare.name]
            for name, cost in costs.items():
                _say(f"{title:30}{name:16}{cost.line(chunks)}{cost.cpu / ours.cpu:9.1f} × ours")
            if chunks == _PATHS["4 chunks"][1]:
                values["4 chunks: CPU a request"] = ours.cpu * 1e3
                values["4 chunks: aiohttp's CPU over ours"] = costs[Plain.name].cpu / ours.cpu
                values["4 chunks: requests a second"] = ours.rate
            else:
                values[f"{title}: events a CPU second"] = chunks / ours.cpu
        return values

    def start(self) -> Values:
        """From the start of a worker's process to its first request, and to its end."""
        firsts = [self._run(Tare(), "/once/4", 1).to_first_request for _ in range(self._rounds)]
        wholes = [self._run(Tare(), "/once/4", 100).seconds for _ in range(self._rounds)]
        return {
            "start to first request": statistics.median(firsts),
            "100 requests end to end": statistics.median(wholes),
        }

    def many(self) -> Values:
        """Ten thousand streams in one process."""
        urls = self._server.urls(_HOLD, hosts=4)
        load = Load(urls=urls, requests=_MANY, concurrency=_MANY)
        done = run(self._server, Tare().command(load, self._folder), self._folder)
        (phase,) = decode(WorkerResult, done.output).phases
        return {
            "10,000 streams: memory": done.pss / _MIB,
            "10,000 streams: failed requests": _MANY - phase.counts.get("ok", 0),
            "10,000 streams: at once": done.stats.peak,
        }

    def truth(self) -> Values:
        """Distances of our client's times from the server's log."""
        values: Values = {}
        _say(f"\n{'error in ms':30}{'':20}{'p50':>9}{'p99':>9}{'max':>9}")
        for title, streams in _TRUE.items():
            rounds = [measure(self._server, streams, self._folder) for _ in range(self._rounds)]
            for what, lists in (
                ("TTFT", [errors.ttft for errors in rounds]),
                ("latency", [errors.latency for errors in rounds]),
                ("inter-chunk", [errors.gaps for errors in rounds]),
            ):
                p50, p99, most = (
                    statistics.median(quantile(errors, share) for errors in lists)
                    for share in (0.5, 0.99, 1.0)
                )
                _say(f"{title:30}{what:20}{p50:9.3f}{p99:9.3f}{most:9.3f}")
                values[f"{title}: {what} error p50"] = p50
                values[f"{title}: {what} error p99"] = p99
        return values

    def _costs(self, path: str, chunks: int) -> dict[str, Cost]:
        found: defaultdict[str, list[Cost]] = defaultdict(list)
        for _ in range(self._rounds):
            for client in self._clients:
                requests = _REQUESTS[client.name][chunks]
                first = self._run(client, path, 1, concurrency=1)
                whole = self._run(client, path, requests, concurrency=_CONCURRENCY)
                found[client.name].append(Cost.of(first, whole))
        return {name: Cost.median(costs) for name, costs in found.items()}
