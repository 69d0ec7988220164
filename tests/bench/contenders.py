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
from typing import TYPE_CHECKING, Protocol

from bench.server_handle import ENV
from tare.measure.wire import encode
from tare.plan.order import DatasetOrder, Lengths, PhaseOrder, TargetOrder, WorkOrder

if TYPE_CHECKING:
    from bench.server_handle import Server
    from bench.sse_server import Stats

__all__ = ["Client", "Load", "Peer", "Plain", "Run", "Tare", "Wrk", "follow", "order", "run"]

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


class Client(Protocol):
    """A way to send a load."""

    name: str

    def command(self, load: Load, folder: Path) -> list[str]:
        """Return the command that sends it; files that it needs go into `folder`."""
        ...


class Tare:
    """`python -m tare worker`, with full recording."""

    name = "tare worker"

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

    name = "aiohttp + json"

    def command(self, load: Load, folder: Path) -> list[str]:  # noqa: ARG002 - Client
        """Part of `Client`."""
        numbers = (str(load.requests), str(load.concurrency))
        return [sys.executable, "-m", "bench.plain_client", load.urls[0], *numbers]


class Wrk:
    """A client in C that parses no event: what the server and the machine allow."""

    name = "wrk"

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

    def __init__(self, template: str) -> None:
        self._template = template

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
