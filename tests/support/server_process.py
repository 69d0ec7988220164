"""A scripted server in a process of its own, for tests in which the client must have a core."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
from typing import TYPE_CHECKING

import uvloop

from support.scripted import Script, ScriptedServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

    from support.scripted import Seen

__all__ = ["ServerProcess", "server_process"]


class ServerProcess:
    """What the test knows of the process."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self.url: str = pipe.recv()

    def first_writes(self) -> list[int]:
        """Nanoseconds from reading each request to its first write: the server's own delay."""
        return [seen.writes[0][0] - seen.read_at for seen in self.log()]

    def peak(self) -> int:
        """Most requests in flight at once."""
        return self._report()[1]

    def log(self) -> list[Seen]:
        """All requests so far, with the moment of each write."""
        return self._report()[0]

    def _report(self) -> tuple[list[Seen], int]:
        self._pipe.send(None)
        report: tuple[list[Seen], int] = self._pipe.recv()
        return report


@contextlib.contextmanager
def server_process(script: Script) -> Iterator[ServerProcess]:
    """Serve `script` from another process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, script), daemon=True)
    process.start()
    try:
        yield ServerProcess(ours)
    finally:
        process.terminate()
        process.join()


def _serve(pipe: Connection, script: Script) -> None:
    async def serve() -> None:
        async with ScriptedServer(script) as server:
            pipe.send(server.url)
            while True:
                await asyncio.to_thread(pipe.recv)
                pipe.send((server.requests, server.peak))

    uvloop.run(serve())
