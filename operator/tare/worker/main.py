"""`python -m tare worker`: one process that sends load, told what to do by the operator.

With `--order FILE` it follows a plan by itself: each phase starts when the one before has drained,
and the result is printed as JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from tare.measure.wire import encode
from tare.worker.inbox import AwayError, Inbox, RefusedError
from tare.worker.lifecycle import EXIT_DONE, EXIT_FAILED, EXIT_TERMINATED, Lifecycle
from tare.worker.load import Load
from tare.worker.orders import OrderError, read_assignment, read_inbox

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["main", "run_alone", "run_under_operator"]

EXIT_BAD_ORDER = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker; `argv` is what follows `worker` on the command line.

    Returns:
        0 done, 1 the operator was lost, 2 a bad order, 143 ended by SIGTERM.
    """
    arguments = _parser().parse_args(sys.argv[2:] if argv is None else argv)
    _allow_many_sockets()
    try:
        if arguments.order is None:
            work = run_under_operator(os.environ)
        else:
            work = run_alone(os.environ, _read(arguments.order))
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(work)
    except OrderError as error:
        return _fail(str(error), EXIT_BAD_ORDER)
    except (AwayError, RefusedError) as error:
        return _fail(f"the operator's inbox: {error}", EXIT_FAILED)


async def run_under_operator(environ: Mapping[str, str]) -> int:
    """Follow the commands of the operator whose inbox the environment names."""
    assignment = read_assignment(environ)
    inbox = Inbox(*read_inbox(environ))
    lifecycle = Lifecycle(assignment.identity, Load(assignment), inbox)
    # Process 1 of a container has no default action: without a handler a deletion takes its time.
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, lifecycle.terminate)
    try:
        return await lifecycle.run()
    finally:
        inbox.close()


async def run_alone(environ: Mapping[str, str], order: bytes) -> int:
    """Run all phases of a plan one after the other and print the result."""
    load = Load(read_assignment(environ, order))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, load.stop)
    for phase in range(load.phases):
        await load.prepare(phase)
        if load.stopped:
            break
        drained = asyncio.Event()
        load.start(phase, drained.set)
        await drained.wait()
    result = load.result()
    load.stop()
    sys.stdout.buffer.write(encode(result) + b"\n")
    return EXIT_DONE if result.complete else EXIT_TERMINATED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="tare worker", description="Send the load of a run.")
    parser.add_argument(
        "--order", metavar="FILE", help="follow this work order without an operator ('-' is stdin)"
    )
    return parser


def _read(path: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise OrderError(f"--order {path}: {error.strerror}") from error


def _allow_many_sockets() -> None:
    """Use the hard limit: one request in flight is one socket."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"tare worker: {message}\n")
    return code
