"""What does the measuring client cost, and how far is it from the truth, beside other clients?

One run, one server process with answers made beforehand (`bench.sse_server`), every client in a
process of its own, in turn; medians of five rounds. Bounds hold on two free cores; ratios hold on
a busy machine too. As root the bench takes precedence over whatever else runs.

    PYTHONPATH=tests .venv/bin/python -m bench.client
    PYTHONPATH=tests .venv/bin/python -m bench.client cost --peer 'x {url} {requests} {concurrency}'

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
from typing import Literal

from bench.accuracy import Streams, measure, quantile
from bench.contenders import HEADINGS, Client, Cost, Load, Peer, Plain, Run, Tare, Wrk, run
from bench.server_handle import Server
from bench.sse_server import HOSTS
from tare.measure.messages import WorkerResult
from tare.measure.wire import decode

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
_PATHS = {
    "4 chunks": ("/once/4", 4),
    "4 chunks, a write each": ("/each/4", 4),
    "100 chunks in one write": ("/once/100", 100),
    "100 chunks, a write each": ("/each/100", 100),
}
_MANY = 10_000
_PRECEDENCE = -15
"""Niceness of the bench and of all its processes."""
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
        self._rounds = range(rounds)
        self._clients: list[Client] = [Tare(), Plain(), Plain("--uvloop")]
        if shutil.which("wrk"):
            self._clients.append(Wrk())
        if peer is not None:
            self._clients.append(Peer(peer))

    def cost(self) -> Values:
        """CPU time, rate and memory of every client, in streams of 4 and of 100 chunks."""
        values: Values = {}
        _say(f"\n{'':26}{'client':16}{HEADINGS}")
        for title, (path, chunks) in _PATHS.items():
            costs = self._costs(path, chunks)
            ours = costs[Tare.name]
            for name, cost in costs.items():
                _say(f"{title:26}{name:16}{cost.line(chunks)}{cost.cpu / ours.cpu:8.1f} × our CPU")
            values |= {
                f"{title}: CPU a request": ours.cpu * 1e3,
                f"{title}: aiohttp's CPU over ours": costs[Plain.name].cpu / ours.cpu,
                f"{title}: requests a second": ours.rate,
                f"{title}: events a CPU second": chunks / ours.cpu,
            }
        return values

    def start(self) -> Values:
        """From the start of a worker's process to its first request, and to its end."""
        one, hundred = (
            [self._run(Tare(), _load(self._server, "/once/4", requests)) for _ in self._rounds]
            for requests in (1, 100)
        )
        return {
            "start to first request": statistics.median(r.to_first_request for r in one),
            "100 requests end to end": statistics.median(r.seconds for r in hundred),
        }

    def many(self) -> Values:
        """Ten thousand streams in one process."""
        urls = self._server.urls(_HOLD, hosts=len(HOSTS))
        done = self._run(Tare(), Load(urls=urls, requests=_MANY, concurrency=_MANY))
        (phase,) = decode(WorkerResult, done.output).phases
        return {
            "10,000 streams: memory": done.pss / _MIB,
            "10,000 streams: failed requests": _MANY - phase.counts.get("ok", 0),
            "10,000 streams: at once": done.stats.peak,
        }

    def truth(self) -> Values:
        """Distances of our client's times from the server's log."""
        values: Values = {}
        _say(f"\n{'errors in ms':26}{'':16}{'p50':>9}{'p99':>9}{'max':>9}")
        for title, streams in _TRUE.items():
            with self._server.on_a_core_of_its_own():
                rounds = [measure(self._server, streams, self._folder) for _ in self._rounds]
            for what, lists in (
                ("TTFT", [errors.ttft for errors in rounds]),
                ("latency", [errors.latency for errors in rounds]),
                ("inter-chunk", [errors.gaps for errors in rounds]),
            ):
                p50, p99, most = (
                    statistics.median(quantile(errors, share) for errors in lists)
                    for share in (0.5, 0.99, 1.0)
                )
                _say(f"{title:26}{what:16}{p50:9.3f}{p99:9.3f}{most:9.3f}")
                values |= {f"{title}: {what} error p50": p50, f"{title}: {what} error p99": p99}
        return values

    def _costs(self, path: str, chunks: int) -> dict[str, Cost]:
        found: defaultdict[str, list[Cost]] = defaultdict(list)
        for _ in self._rounds:
            for client in self._clients:
                one = self._run(client, _load(self._server, path, 1)) if client.counts else None
                load = _load(self._server, path, client.requests(chunks), _CONCURRENCY)
                found[client.name].append(Cost.of(one, self._run(client, load)))
        return {name: Cost.median(costs) for name, costs in found.items()}

    def _run(self, client: Client, load: Load) -> Run:
        return run(self._server, client.command(load, self._folder), self._folder)


def _load(server: Server, path: str, requests: int, concurrency: int = 1) -> Load:
    return Load(urls=server.urls(path), requests=requests, concurrency=concurrency)


def _judge(values: Values) -> bool:
    """Print every bound that was measured; whether all of them hold."""
    _say(f"\n{'':48}{'measured':>14}{'bound':>16}")
    measured = [bound for bound in BOUNDS if bound.name in values]
    for bound in measured:
        value = values[bound.name]
        verdict = "" if bound.holds(value) else "  BROKEN"
        limit = f"at {bound.sense} {bound.limit:,g}"
        _say(f"{bound.name:48}{value:14,.5g}{limit:>20} {bound.unit}{verdict}")
    return all(bound.holds(values[bound.name]) for bound in measured)


def _say(line: str) -> None:
    sys.stdout.write(line.rstrip() + "\n")
    sys.stdout.flush()


def main() -> int:
    """Measure what the command line names; 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="bench.client", description=__doc__)
    parts = ("cost", "start", "many", "truth")
    parser.add_argument("parts", nargs="*", metavar=f"{{{','.join(parts)}}}", help="all if none")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peer", metavar="COMMAND", help="another client, as a template")
    arguments = parser.parse_args()
    if unknown := set(arguments.parts).difference(parts):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    with suppress(PermissionError):
        os.nice(_PRECEDENCE)
    _say(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}")
    values: Values = {}
    with Server.running() as server, tempfile.TemporaryDirectory() as folder:
        bench = Bench(server, Path(folder), rounds=arguments.rounds, peer=arguments.peer)
        for part in arguments.parts or parts:
            values |= getattr(bench, part)()
    return 0 if _judge(values) else 1


if __name__ == "__main__":
    sys.exit(main())
