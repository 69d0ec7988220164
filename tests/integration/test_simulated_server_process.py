"""`tare sim serve` as a process: its start, its end, and what it imports."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from support.simulated import read_answer, request_bytes
from tare.cli.sim import sim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SERVE = (sys.executable, "-m", "tare", "sim", "serve", "--host", "127.0.0.1")


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@asynccontextmanager
async def process(
    *arguments: str, until: str = "serving "
) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """Run the command on a free port until it says so; it is killed if it does not end."""
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(
        *SERVE, "--port", "0", *arguments, env=environ(), stdout=pipe, stderr=pipe
    )
    try:
        assert running.stdout is not None
        first = (await running.stdout.readline()).decode()
        assert first.startswith(until), (await running.communicate())[1]
        yield running, int(first.rpartition(":")[2])
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def test_sigterm_lets_a_stream_end_fails_health_and_exits_0() -> None:
    async with process("--itl", "10ms") as (running, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = {"prompt": "a", "max_tokens": 60, "stream": True}
        writer.write(request_bytes("POST", "/v1/completions", body, {}))
        await reader.readuntil(b"data: ")
        running.send_signal(signal.SIGTERM)
        await asyncio.sleep(0.05)
        statuses = []
        for method, path in (("GET", "/health"), ("POST", "/v1/completions")):
            other_reader, other = await asyncio.open_connection("127.0.0.1", port)
            other.write(request_bytes(method, path, {"prompt": "b"}, {}))
            statuses.append((await read_answer(other_reader)).status)
        rest = await reader.read()
        assert statuses == [503, 503]
        assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert await running.wait() == 0


async def test_an_address_in_use_is_one_sentence_and_exit_code_1() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        running = await asyncio.create_subprocess_exec(
            *SERVE, "--port", port, env=environ(), stderr=asyncio.subprocess.PIPE
        )
        _, said = await running.communicate()
    assert running.returncode == 1
    assert said.decode().startswith(f"tare sim serve: cannot listen on 127.0.0.1:{port}: ")
    assert said.count(b"\n") == 1


async def test_sigterm_during_the_startup_delay_ends_it_at_once() -> None:
    async with process("--startup-delay", "1m", until="loading ") as (running, port):
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", port)
        running.send_signal(signal.SIGTERM)
        assert await running.wait() == 0


async def test_the_server_imports_nothing_that_a_worker_image_lacks() -> None:
    code = (
        "import sys, tare.sim.serve.main\n"
        "for name, module in list(sys.modules.items()):\n"
        "    if 'site-packages' in (getattr(module, '__file__', None) or ''):\n"
        "        print(name.partition('.')[0])"
    )
    # -S: no site-packages hooks that import on their own; the path is given by hand.
    running = await asyncio.create_subprocess_exec(
        *(sys.executable, "-S", "-c", code), env=environ(), stdout=asyncio.subprocess.PIPE
    )
    names = (await running.communicate())[0].decode().split()
    assert set(names) == {"httptools", "orjson", "uvloop"}


def test_the_cli_shows_the_command_and_passes_its_arguments_through() -> None:
    assert "serve" in CliRunner().invoke(sim, ["--help"]).output
    shown = CliRunner().invoke(sim, ["serve", "--help"])
    assert shown.exit_code == 0
    assert "--ttft-overhead" in shown.output
    wrong = CliRunner().invoke(sim, ["serve", "--port", "-1"])
    assert wrong.exit_code == 2
