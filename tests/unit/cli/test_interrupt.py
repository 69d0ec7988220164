from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tare.cli.interrupt import descendants

_PROGRAM = """\
import asyncio, sys
from tare.cli.interrupt import run_interruptible

async def work():
    child = await asyncio.create_subprocess_exec("sleep", "100", start_new_session=True)
    print(child.pid, flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        if {stubborn}:
            print("cleaning up", flush=True)
            await asyncio.Event().wait()
        child.terminate()
        await child.wait()
    return 0

sys.exit(run_interruptible(work()))
"""


def start(*, stubborn: bool) -> tuple[subprocess.Popen[str], int]:
    """A command with a child process; a stubborn one never ends its cleaning up."""
    code = _PROGRAM.format(stubborn=stubborn)
    command = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    assert command.stdout
    return command, int(command.stdout.readline())


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_ends_the_command_in_order(number: signal.Signals) -> None:
    command, child = start(stubborn=False)
    command.send_signal(number)
    assert command.wait(10) == 130
    assert not is_running(child)


def test_the_second_signal_kills_every_process_at_once() -> None:
    command, child = start(stubborn=True)
    command.send_signal(signal.SIGINT)
    assert command.stdout
    assert command.stdout.readline() == "cleaning up\n"
    command.send_signal(signal.SIGINT)
    assert command.wait(10) == 130
    assert not is_running(child)


def test_the_descendants_of_a_process_are_found_over_generations() -> None:
    shell = subprocess.Popen(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE)
    assert shell.stdout
    grandchild = int(shell.stdout.readline())
    try:
        assert {shell.pid, grandchild} <= set(descendants(os.getpid()))
    finally:
        os.kill(grandchild, signal.SIGKILL)
        shell.wait(10)
