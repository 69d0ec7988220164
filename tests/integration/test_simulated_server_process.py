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

from support.model_folder import write_model_folder
from support.simulated import Answer, read_answer, request_bytes
from tare.cli.sim import sim

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

SERVE = (sys.executable, "-m", "tare", "sim", "serve", "--host", "127.0.0.1")


def environ() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@asynccontextmanager
async def process(
    *arguments: str, until: str = "serving ", said: list[str] | None = None
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
        if said is not None:
            said.append(first)
        yield running, int(first.rpartition(":")[2])
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def send(origin: str, method: str, path: str, body: object = None) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(origin.rpartition(":")[2]))
    writer.write(request_bytes(method, path, body, {}))
    answer = await read_answer(reader)
    writer.close()
    return answer


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


async def test_replicas_have_a_port_a_cache_and_counters_of_their_own() -> None:
    said: list[str] = []
    async with process("--replicas", "3", "--itl", "0", said=said):
        (line,) = said
        origins = [word for word in line.split() if word.startswith("http://")]
        assert len(set(origins)) == 3
        body = {"prompt": "word " * 100, "max_tokens": 1}
        found = []
        for origin in (origins[0], origins[0], origins[1]):
            answer = await send(origin, "POST", "/v1/completions", body)
            found.append(answer.json["usage"]["prompt_tokens_details"]["cached_tokens"])
        assert found == [0, 96, 0]
        counts = [(await send(origin, "GET", "/admin/counters")).json for origin in origins]
        assert [count["requests"] for count in counts] == [2, 1, 0]


async def test_replicas_take_the_ports_from_the_given_one_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        arguments = ("--port", str(port - 1), "--replicas", "2")
        running = await asyncio.create_subprocess_exec(
            *SERVE, *arguments, env=environ(), stderr=asyncio.subprocess.PIPE
        )
        _, error = await running.communicate()
    assert running.returncode == 1
    assert error.decode().startswith("tare sim serve: cannot listen on 127.0.0.1:")
    assert "in use" in error.decode()


async def test_with_a_models_tokenizer_usage_and_tokenize_count_its_tokens(tmp_path: Path) -> None:
    real = write_model_folder(tmp_path)
    said: list[str] = []
    async with process("--tokenizer", str(tmp_path), "--block-size", "4", "--itl", "0", said=said):
        origin = said[0].split()[-1]
        text = "bake data and so on and on"
        whole = real.encode(text).ids
        tokenized = (await send(origin, "POST", "/tokenize", {"prompt": text})).json
        assert tokenized["tokens"] == whole
        body = {"prompt": text, "max_tokens": 1}
        for _ in range(2):
            usage = (await send(origin, "POST", "/v1/completions", body)).json["usage"]
        assert usage["prompt_tokens"] == len(whole)
        assert usage["prompt_tokens_details"]["cached_tokens"] == (len(whole) - 1) // 4 * 4 > 0
        refused = {"messages": [{"role": "assistant", "content": "a"}]}
        answer = await send(origin, "POST", "/v1/chat/completions", refused)
        assert answer.status == 400
        assert "the chat template refuses this: no question" in answer.json["error"]["message"]


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
