"""What does the simulated server sustain, and how late does it write what its engine has ready?

Our measuring client asks for short streams (64 words, of which half are a shared system prompt, and
4 tokens) with the cache on. The server says how late it wrote; the client, on the other core, says
what of that it saw. Beside it, with the same load, the bench's server with answers made beforehand
(`bench.sse_server`): what HTTP and the kernel take.

    PYTHONPATH=tests .venv/bin/python -m bench.sim_server

Exit code 1 when a bound is broken. As root the bench has real-time priority over all else.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.contenders import follow, order
from bench.server_handle import ENV, Server, on_a_core_of_its_own
from tare.measure.histogram import Histogram
from tare.measure.messages import PhaseResult, WorkerResult
from tare.measure.wire import decode
from tare.plan.order import DatasetOrder, Lengths, PhaseOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

RATE = 3000
LATE_MS = 1.0
_SERVED = 0.99
"""Share of the asked rate that counts as sustained: the last answers come after the last send."""
_SETTINGS = ("--itl", "4ms", "--ttft-overhead", "5ms", "--prefill-rate", "1e6", "--model", "m")
_DATASET = DatasetOrder(entries=1000, isl=Lengths(value=32), osl=Lengths(value=4), shared_system=32)
_PRIORITY = 1
_KEPT = 1000
"""Requests that the server remembers."""


@dataclass(frozen=True, slots=True)
class Simulated:
    """`tare sim serve` in a process of its own."""

    url: str
    pid: int

    @classmethod
    @contextmanager
    def running(cls, *arguments: str) -> Iterator[Simulated]:
        """Serve while the context is open."""
        fixed = ("--host", "127.0.0.1", "--port", "0", "--log-requests", str(_KEPT))
        command = (sys.executable, "-m", "tare", "sim", "serve", *fixed, *_SETTINGS, *arguments)
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=ENV) as process:
            assert process.stdout is not None
            line = process.stdout.readline().decode()
            try:
                yield cls(line.split()[-1], process.pid)
            finally:
                process.terminate()

    def reset(self) -> None:
        """Forget all counts."""
        self._call("POST", "/admin/reset_counters")

    def get(self, path: str) -> Any:
        """Read a JSON document."""
        return self._call("GET", path)

    def _call(self, method: str, path: str) -> Any:
        connection = HTTPConnection(self.url.removeprefix("http://"), timeout=60)
        with closing(connection):
            connection.request(method, path)
            return json.load(connection.getresponse())


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One load on one server."""

    phase: PhaseResult
    rate: float
    """Requests a second, from the first arrival to the last."""
    cpu: float
    """Seconds of the server for each request."""
    client_cpu: float
    counters: dict[str, Any]


def cpu_seconds(pid: int) -> float:
    """User and system time of a process (https://man7.org/linux/man-pages/man5/proc.5.html)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def send(url: str, phase: PhaseOrder, folder: Path) -> tuple[PhaseResult, float]:
    """Send the load; return its result and the client's CPU seconds."""
    command = follow(replace(order((url,), phase), dataset=_DATASET), folder)
    output = folder / "output"
    with output.open("wb") as stdout:
        process = subprocess.Popen(command, env=ENV, stdout=stdout)
        _, status, spent = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"the client ended with {process.returncode}")
    (result,) = decode(WorkerResult, output.read_bytes()).phases
    return result, spent.ru_utime + spent.ru_stime


def load(server: Simulated, phase: PhaseOrder, folder: Path) -> Round:
    """Send a load to the simulated server."""
    server.reset()
    before = cpu_seconds(server.pid)
    result, client_cpu = send(server.url, phase, folder)
    spent = cpu_seconds(server.pid) - before
    counters = server.get("/admin/counters")
    seconds = (counters["last_request_ns"] - counters["first_request_ns"]) / 1e9
    done = counters["requests_complete"]
    return Round(
        phase=result,
        rate=(counters["requests"] - 1) / seconds,
        cpu=spent / done,
        client_cpu=client_cpu / done,
        counters=counters,
    )


def closed(requests: int) -> PhaseOrder:
    """As fast as the server can, 128 at a time."""
    return PhaseOrder(
        name="bench", kind="profiling", type="concurrency", concurrency=128, requests=requests
    )


def opened(rate: float, seconds: float) -> PhaseOrder:
    """At a Poisson rate, whatever the server does."""
    return PhaseOrder(
        name="bench", kind="profiling", type="poisson", rate=rate, requests=round(rate * seconds)
    )


def canned_cpu(folder: Path, requests: int) -> float:
    """CPU seconds a request of the server with answers made beforehand, a write for each chunk."""
    with Server.running() as server:
        (url,) = server.urls("/each/4")
        before = cpu_seconds(server.pid)
        send(url, closed(requests), folder)
        return (cpu_seconds(server.pid) - before) / requests


def due_ms(server: Simulated, percent: int) -> float:
    """Percentile of the time to first token that the engine had in mind."""
    rows = server.get("/admin/requests")["requests"]
    times = sorted(row["first_token_due_ns"] - row["arrived_ns"] for row in rows)
    return float(times[-(-len(times) * percent // 100) - 1] / 1e6)


def seen_ms(phase: PhaseResult, percent: int) -> float:
    """Percentile of the time to first token that the client measured."""
    times = Histogram.from_json(phase.histograms["time_to_first_token"])
    return (times.percentile(percent) or 0) / 1e6


def sustained(server: Simulated, rounds: int, seconds: float, folder: Path) -> bool:
    """Print what the server does as fast as it can, and at the promised rate."""
    fast = [load(server, closed(round(RATE * seconds)), folder) for _ in range(rounds)]
    full = [load(server, opened(RATE, seconds), folder) for _ in range(rounds)]
    canned = statistics.median(canned_cpu(folder, round(RATE * seconds)) for _ in range(rounds))
    cpu = statistics.median(one.cpu for one in fast)
    cached = fast[-1].counters["cached_tokens"] / fast[-1].counters["prompt_tokens"]
    say(f"{'CPU a request, closed loop':52}{cpu * 1e6:10.0f} µs")
    say(f"{'  of the server with answers made beforehand':52}{canned * 1e6:10.0f} µs")
    say(f"{'  ratio':52}{cpu / canned:10.1f} ×")
    say(f"{'  of the client':52}{statistics.median(o.client_cpu for o in fast) * 1e6:10.0f} µs")
    say(f"{'prompt tokens found in the cache':52}{cached:10.1%}")
    judge("requests/s, as fast as it can", statistics.median(one.rate for one in fast))
    asked = f"requests/s of {RATE:,} asked for"
    rate = statistics.median(one.rate for one in full)
    failed = sum(one.counters["requests"] - done(one) for one in full)
    return all(
        (
            judge("requests a CPU second", 1 / cpu, "least", RATE),
            judge(asked, rate, "least", RATE * _SERVED),
            judge("  failed", failed, "most", 0),
        )
    )


def punctual(server: Simulated, title: str, rounds: int, seconds: float, folder: Path) -> float:
    """Print how late tokens are at half the promised rate; return the 99th percentile in ms."""
    late: dict[int, list[float]] = {50: [], 99: []}
    views: dict[int, list[tuple[float, float]]] = {50: [], 99: []}
    for _ in range(rounds):
        with on_a_core_of_its_own(server.pid):
            one = load(server, opened(RATE / 2, seconds), folder)
        for percent, found in late.items():
            found.append(one.counters[f"late_p{percent}_ns"] / 1e6)
            views[percent].append((due_ms(server, percent), seen_ms(one.phase, percent)))
    say(f"at {RATE / 2:,.0f}/s, {title}: ms")
    for percent, found in late.items():
        due, seen = (statistics.median(view[side] for view in views[percent]) for side in (0, 1))
        say(
            f"{f'  p{percent}: written late':52}{statistics.median(found):10.2f}"
            f"   TTFT due {due:.2f}, seen by the client {seen:.2f}"
        )
    return statistics.median(late[99])


def measure(rounds: int, seconds: float, folder: Path) -> bool:
    """Print everything; whether all bounds hold."""
    with Simulated.running() as server:
        holds = sustained(server, rounds, seconds, folder)
        late = punctual(server, "iterations of 4 ms", rounds, seconds, folder)
    with Simulated.running("--itl", "10ms") as server:
        later = punctual(server, "iterations of 10 ms", rounds, seconds, folder)
    return all(
        (
            holds,
            judge("written late, p99, iterations of 4 ms, ms", late, "most", LATE_MS),
            judge("written late, p99, iterations of 10 ms, ms", later, "most", LATE_MS),
        )
    )


def done(one: Round) -> int:
    """Requests that the client counts as good."""
    return one.phase.counts.get("ok", 0)


def judge(name: str, value: float, sense: str = "", limit: float = 0.0) -> bool:
    """Print a number with its bound; whether it holds."""
    holds = not sense or (value >= limit if sense == "least" else value <= limit)
    bound = f"   at {sense} {limit:,g}" if sense else ""
    say(f"{name:52}{value:10,.2f}{bound}{'' if holds else '  BROKEN'}")
    return holds


def say(line: str) -> None:
    """Print at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Measure; 1 when a bound is broken."""
    parser = argparse.ArgumentParser(prog="bench.sim_server", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4, help="of load, each time")
    arguments = parser.parse_args()
    with suppress(PermissionError):
        # Real-time for all its processes: others do not hold it up, whatever they do.
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    say(f"{os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        return 0 if measure(arguments.rounds, arguments.seconds, Path(folder)) else 1


if __name__ == "__main__":
    sys.exit(main())
