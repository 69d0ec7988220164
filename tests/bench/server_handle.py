"""The bench's server as its other processes see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from bench.sse_server import HOSTS, Stats, Stream

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

__all__ = ["ENV", "Server", "on_a_core_of_its_own"]

_ROOT = Path(__file__).parents[2]
ENV = dict(os.environ, PYTHONPATH=f"{_ROOT / 'operator'}{os.pathsep}{_ROOT / 'tests'}")
"""Environment of the processes of a bench."""


class Server:
    """A running `bench.sse_server`."""

    def __init__(self, port: int, pid: int) -> None:
        self._port = port
        self.pid = pid
        """Of its process."""

    @classmethod
    @contextmanager
    def running(cls) -> Iterator[Self]:
        """Serve while the context is open."""
        with subprocess.Popen(
            [sys.executable, "-m", "bench.sse_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=ENV,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            try:
                yield cls(int(process.stdout.readline()), process.pid)
            finally:
                process.stdin.close()

    def on_a_core_of_its_own(self) -> AbstractContextManager[None]:
        """Keep it apart from what this process starts while the context is open."""
        return on_a_core_of_its_own(self.pid)

    def urls(self, path: str, *, hosts: int = 1) -> tuple[str, ...]:
        """Base URLs of a behaviour, on some of the server's addresses."""
        return tuple(f"http://{host}:{self._port}{path}" for host in HOSTS[:hosts])

    def take_stats(self) -> Stats:
        """What came since the last call."""
        return Stats(**self._get("/stats"))

    def take_log(self) -> list[Stream]:
        """Timed streams that came since the last call."""
        return [Stream(**stream) for stream in self._get("/log")]

    def _get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://{HOSTS[0]}:{self._port}{path}") as answer:
            return json.load(answer)


@contextmanager
def on_a_core_of_its_own(pid: int) -> Iterator[None]:
    """Keep a process apart from what this one starts while the context is open.

    Two processes that wake each other are put on one core now and then, and one of them waits
    for up to a slice of the scheduler, which is three milliseconds.
    https://docs.kernel.org/scheduler/sched-eevdf.html
    """
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        yield
        return
    own = {min(cores)}
    os.sched_setaffinity(pid, own)
    os.sched_setaffinity(0, cores - own)
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)
        os.sched_setaffinity(pid, cores)
