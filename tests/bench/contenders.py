"""Clients that are compared: how each is started, and what the kernel says that it used.

Everything is counted from outside, the same for all of them: requests and moments by the server,
CPU time and memory by the kernel.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Protocol

from bench.server_handle import ENV
from bench.sse_server import Stats
from tare.measure.wire import encode
from tare.plan.order import DatasetOrder, Lengths, PhaseOrder, TargetOrder, WorkOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.server_handle import Server

__all__ = [
    "HEADINGS",
    "Client",
    "Cost",
    "Load",
    "Peer",
    "Plain",
    "Run",
    "Tare",
    "Wrk",
    "follow",
    "order",
    "run",
]

_LOOK = 0.005
"""Seconds between two looks at whether a client has ended."""
_WEIGH = 0.1
"""Seconds between two looks at its memory."""
_PSS = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)
_WRK_SECONDS = 2
_WRK_SCRIPT = """wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
wrk.body = '{"model":"m","messages":[{"role":"user","content":"one two three"}],"stream":true}'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Streams that a client asks for, so many at a time."""

    urls: tuple[str, ...]
    requests: int
    concurrency: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What one run of a client took."""

    stats: Stats
    cpu_seconds: float
    seconds: float
    """From its start to its end."""
    to_first_request: float
    """Seconds from its start until the server had read its first request."""
    pss: int
    """Bytes at most; pages that others use too are shared out."""
    output: bytes

    @property
    def rate(self) -> float:
        """Requests per second, from the first one to the last answer."""
        seconds = (self.stats.last_at - self.stats.first_at) / 1e9
        return self.stats.answered / seconds if seconds > 0 else 0.0


HEADINGS = (
    f"{'CPU/request':>12}{'requests/s':>12}{'events/CPU s':>14}{'PSS':>10}{'first request':>15}"
)
"""Of the columns of `Cost.line`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a client takes for a load."""

    cpu: float
    """Seconds for each request after the first one."""
    rate: float
    pss: float
    to_first_request: float | None
    """None when it cannot be told to send only one."""

    @classmethod
    def of(cls, one: Run | None, whole: Run) -> Cost:
        """Take what a run of one request costs off that of a whole load."""
        cpu = whole.cpu_seconds - (one.cpu_seconds if one is not None else 0.0)
        return cls(
            cpu=cpu / (whole.stats.answered - (one is not None)),
            rate=whole.rate,
            pss=whole.pss,
            to_first_request=one.to_first_request if one is not None else None,
        )

    @classmethod
    def median(cls, costs: Sequence[Cost]) -> Cost:
        """Return the median of each number."""
        firsts = [c.to_first_request for c in costs if c.to_first_request is not None]
        return cls(
            cpu=median(c.cpu for c in costs),
            rate=median(c.rate for c in costs),
            pss=median(c.pss for c in costs),
            to_first_request=median(firsts) if firsts else None,
        )

    def line(self, chunks: int) -> str:
        """Format it for streams of so many chunks; an event is one with text."""
        first = "" if self.to_first_request is None else f"{self.to_first_request:.2f} s"
        return (
            f"{self.cpu * 1e3:9.4f} ms{self.rate:12,.0f}{chunks / self.cpu:14,.0f}"
            f"{self.pss / 2**20:6.0f} MiB{first:>15}"
        )


class Client(Protocol):
    """A way to send a load."""

    name: str
    counts: bool
    """Whether it can be told how many requests to send."""

    def requests(self, chunks: int) -> int:
        """Return the requests that are enough to measure it, in streams of so many chunks."""
        ...

    def command(self, load: Load, folder: Path) -> list[str]:
        """Return the command that sends it; files that it needs go into `folder`."""
        ...


class Tare:
    """`python -m tare worker`, with full recording."""

    name = "tare worker"
    counts = True

    def requests(self, chunks: int) -> int:
        """Part of `Client`: about 1 seconds of CPU time."""
        return round(1 / (40e-6 + 2e-6 * chunks))

    def command(self, load: Load, folder: Path) -> list[str]:
        """Part of `Client`."""
        phase = PhaseOrder(
            name="bench",
            kind="profiling",
            type="concurrency",
            concurrency=load.concurrency,
            requests=load.requests,
        )
        return follow(order(load.urls, phase), folder)


class Plain:
    """aiohttp and json.loads."""

    name = "aiohttp"
    counts = True

    def __init__(self, *options: str) -> None:
        self._options = options
        self.name = " ".join(("aiohttp", *options)).replace("--", "+ ")

    def requests(self, chunks: int) -> int:
        """Part of `Client`: about 2 seconds of CPU time."""
        return round(2 / (300e-6 + 30e-6 * chunks))

    def command(self, load: Load, folder: Path) -> list[str]:  # noqa: ARG002 - Client
        """Part of `Client`."""
        arguments = (load.urls[0], str(load.requests), str(load.concurrency), *self._options)
        return [sys.executable, "-m", "bench.plain_client", *arguments]


class Wrk:
    """A client in C that parses no event: what the server and the machine allow."""

    name = "wrk"
    counts = False

    def requests(self, chunks: int) -> int:  # noqa: ARG002 - Client
        """Part of `Client`: it knows a time only."""
        return 1

    def command(self, load: Load, folder: Path) -> list[str]:
        """Part of `Client`; the number of requests is what it gets done."""
        script = folder / "post.lua"
        script.write_text(_WRK_SCRIPT)
        return [
            *("wrk", "-t1", f"-c{load.concurrency}", f"-d{_WRK_SECONDS}s", "-s", str(script)),
            f"{load.urls[0]}/v1/chat/completions",
        ]


class Peer:
    """Any command with `{url}`, `{requests}` and `{concurrency}` in it."""

    name = "peer"
    counts = True

    def __init__(self, template: str) -> None:
        self._template = template

    def requests(self, chunks: int) -> int:
        """Part of `Client`: a few seconds of the slowest ones known."""
        return round(5 / (5e-3 + 100e-6 * chunks))

    def command(self, load: Load, folder: Path) -> list[str]:  # noqa: ARG002 - Client
        """Part of `Client`."""
        filled = self._template.format(
            url=load.urls[0], requests=load.requests, concurrency=load.concurrency
        )
        return shlex.split(filled)


def order(urls: tuple[str, ...], phase: PhaseOrder, *, artifacts: Path | None = None) -> WorkOrder:
    """Return a local plan of one phase."""
    return WorkOrder(
        run="bench",
        namespace="bench",
        run_uid="bench",
        cell=0,
        trial=0,
        attempt=0,
        workers=1,
        target=TargetOrder(urls=urls, model="m"),
        dataset=DatasetOrder(entries=1000, isl=Lengths(value=16), osl=Lengths(value=4)),
        phases=(phase,),
        artifacts=str(artifacts) if artifacts is not None else None,
    )


def follow(plan: WorkOrder, folder: Path) -> list[str]:
    """Return the command of a worker that follows `plan`."""
    file = folder / "order.json"
    file.write_bytes(encode(plan))
    return [sys.executable, "-m", "tare", "worker", "--order", str(file)]


def run(server: Server, command: list[str], folder: Path) -> Run:
    """Run a client to its end.

    Raises:
        RuntimeError: it failed; its last words are in the message.
    """
    server.take_stats()
    output = folder / "output"
    with output.open("wb") as stdout, (folder / "errors").open("wb") as stderr:
        began = time.monotonic_ns()
        process = subprocess.Popen(command, env=ENV, stdout=stdout, stderr=stderr)
        cpu_seconds, pss = _watch(process)
        ended = time.monotonic_ns()
    stats = server.take_stats()
    if process.returncode or not stats.answered:
        words = (folder / "errors").read_text()[-2000:]
        raise RuntimeError(f"{shlex.join(command)}: exit code {process.returncode}: {words}")
    return Run(
        stats=stats,
        cpu_seconds=cpu_seconds,
        seconds=(ended - began) / 1e9,
        to_first_request=(stats.first_at - began) / 1e9,
        pss=pss,
        output=output.read_bytes(),
    )


def _watch(process: subprocess.Popen[bytes]) -> tuple[float, int]:
    """Wait for a process; return its CPU time in seconds and its memory at most."""
    pss, weighed = 0, 0.0
    while True:
        # Children that it waited for are part of what it spent.
        pid, status, spent = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return spent.ru_utime + spent.ru_stime, pss
        if time.monotonic() - weighed > _WEIGH:
            pss, weighed = max(pss, _pss(process.pid)), time.monotonic()
        time.sleep(_LOOK)


def _pss(pid: int) -> int:
    """Weigh a process and its children (https://man7.org/linux/man-pages/man5/proc.5.html)."""
    try:
        found = _PSS.search(Path(f"/proc/{pid}/smaps_rollup").read_text())
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return 0
    own = int(found[1]) * 1024 if found else 0
    return own + sum(_pss(int(child)) for child in children)
