"""Entry of `tare sim serve`: one process, one loop, its simulated servers until SIGTERM or SIGINT.

Imports the standard library, uvloop, httptools and orjson only, so that the worker's image serves
it too and it is up in a fraction of a second.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from typing import TYPE_CHECKING

import uvloop

from tare.sim.serve.options import Options, parse_options
from tare.sim.serve.server import Server
from tare.sim.serve.tokenizer import FolderTokenizer, MadeUpTokenizer, TokenizerError

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]

_GC_THRESHOLD = 50_000
"""Requests leave few cycles behind, for which Python's default of 700 would stop too often."""


def main(argv: Sequence[str]) -> int:
    """Serve until told to end; return the exit code.

    0 after SIGTERM or SIGINT, 1 when the address cannot be used, 2 for a wrong command line.
    """
    try:
        options = parse_options(argv)
    except SystemExit as end:
        return int(end.code or 0)
    try:
        folder = options.tokenizer
        tokenizer = MadeUpTokenizer() if folder is None else FolderTokenizer(folder)
    except TokenizerError as error:
        sys.stderr.write(f"tare sim serve: {error}\n")
        return 2
    try:
        servers = [Server(options, replica, tokenizer) for replica in range(options.replicas)]
    except OSError as error:
        reason = error.strerror or error
        sys.stderr.write(
            f"tare sim serve: cannot listen on {error.filename}: {reason}; "
            "choose another --port or --host, or 0 for a free port\n"
        )
        return 1
    uvloop.run(_serve(servers, options))
    return 0


async def _serve(servers: Sequence[Server], options: Options) -> None:
    models = ", ".join(options.models)
    origins = " ".join(server.origin for server in servers)
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if options.startup_delay:
        _say(f"loading {models} for {options.startup_delay:g} s at {origins}")
    starting = asyncio.gather(*(server.start() for server in servers))
    ending = asyncio.ensure_future(ended.wait())
    await asyncio.wait((starting, ending), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
        return
    starting.result()
    gc.freeze()
    gc.set_threshold(_GC_THRESHOLD)
    _say(f"serving {models} at {origins}")
    await ending
    await asyncio.gather(*(server.stop() for server in servers))


def _say(line: str) -> None:
    """Tell whoever started the server; flushed, since they may wait for it."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
