"""`python -m tare worker`: sends load, in one process or several, as the operator says.

With `--order FILE` it follows a plan by itself: each phase starts when the one before has drained,
or was sent if it is seamless, and the result is printed as JSON.
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
from tare.telemetry.log import configure
from tare.worker.crew import Crew, CrewError, dismiss
from tare.worker.inbox import AwayError, Inbox, RefusedError
from tare.worker.lifecycle import EXIT_DONE, EXIT_FAILED, EXIT_TERMINATED, Lifecycle
from tare.worker.load import Load
from tare.worker.mate import hire
from tare.worker.orders import OrderError, read_assignment, read_inbox
from tare.worker.tokenizing import sizes_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tare.net.origin import BaseUrl
    from tare.worker.mate import Hired
    from tare.worker.orders import Assignment

__all__ = ["main", "run_alone", "run_under_operator"]

EXIT_BAD_ORDER = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run a worker; `argv` is what follows `worker` on the command line.

    Returns:
        0 done, 1 the operator was lost, 2 a bad order, 143 ended by SIGTERM.
    """
    arguments = _parser().parse_args(sys.argv[2:] if argv is None else argv)
    configure()
    _allow_many_sockets()
    try:
        alone = arguments.order is not None
        assignment = read_assignment(os.environ, _read(arguments.order) if alone else None)
        inbox = None if alone else read_inbox(os.environ)
        hired = hire(assignment) if assignment.order.processes > 1 else []
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return runner.run(_work(assignment, hired, inbox))
        finally:
            dismiss(hired)
    except OrderError as error:
        return _fail(str(error), EXIT_BAD_ORDER)
    except CrewError as error:
        return _fail(str(error), EXIT_FAILED)
    except (AwayError, RefusedError) as error:
        return _fail(f"the operator's inbox: {error}", EXIT_FAILED)


async def _work(
    assignment: Assignment, hired: Sequence[Hired], inbox: tuple[BaseUrl, str] | None
) -> int:
    """Carry the load, alone or with the processes that were forked for it."""
    if not hired:
        return await _lead(assignment, Load(assignment, await sizes_for(assignment)), inbox)
    crew = await Crew.muster(assignment, [mate.sock for mate in hired])
    leading = asyncio.create_task(_lead(assignment, crew, inbox))
    try:
        await asyncio.wait((leading, crew.lost), return_when=asyncio.FIRST_COMPLETED)
        if crew.lost.done():
            crew.lost.result()
        return leading.result()
    finally:
        leading.cancel()
        crew.close()


async def _lead(
    assignment: Assignment, load: Load | Crew, inbox: tuple[BaseUrl, str] | None
) -> int:
    if inbox is None:
        return await run_alone(load)
    return await run_under_operator(assignment, load, Inbox(*inbox))


async def run_under_operator(assignment: Assignment, load: Load | Crew, inbox: Inbox) -> int:
    """Follow the commands of an operator until the end."""
    lifecycle = Lifecycle(assignment.identity, load, inbox)
    # Process 1 of a container has no default action: without a handler a deletion takes its time.
    _on_signals(lifecycle.terminate)
    try:
        return await lifecycle.run()
    finally:
        inbox.close()


async def run_alone(load: Load | Crew) -> int:
    """Run all phases of a plan one after the other and print the result."""
    _on_signals(load.stop)
    for phase in range(load.phases):
        await load.prepare(phase)
        if load.stopped:
            break
        over = asyncio.Event()
        load.start(phase, over.set, over.set)
        await over.wait()
    result = await load.collect()
    load.stop()
    sys.stdout.buffer.write(encode(result) + b"\n")
    return EXIT_DONE if result.complete else EXIT_TERMINATED


def _on_signals(callback: Callable[[], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, callback)


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
