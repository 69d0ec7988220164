"""`tare run` as a user starts it: a process, a file, an exit code, and nothing left behind."""

from __future__ import annotations

import asyncio
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from support.commands import tare
from support.simulated import simulated

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from support.simulated import Simulated


def manifest(**spec: Any) -> dict[str, Any]:
    """A run of a second or two."""
    return {
        "apiVersion": "tare.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {"name": "quick", "namespace": "bench"},
        "spec": {
            "endpoint": {
                "service": {"name": "somewhere", "port": 8000},
                "model": "tiny",
                "server": "vllm",
                "resetKvCache": True,
                "serverProfiler": True,
            },
            "dataset": {"type": "synthetic", "prompts": {"isl": 32, "osl": 4}},
            "phases": [
                {
                    "name": "profiling",
                    "kind": "profiling",
                    "type": "concurrency",
                    "concurrency": 2,
                    "requests": 8,
                }
            ],
            **spec,
        },
    }


def tare_run(
    tmp_path: Path, document: dict[str, Any], *arguments: str
) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """A running `tare run`."""
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(document))
    return tare(tmp_path, "run", str(path), *arguments)


def running(tmp_path: Path) -> list[str]:
    """Command lines of the processes of a command: pods inherit TMPDIR as well."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TMPDIR={tmp_path}\0".encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
    return found


def left_behind(tmp_path: Path) -> list[str]:
    """Processes and folders that a command did not put away."""
    return [*running(tmp_path), *map(str, tmp_path.glob("tare-*"))]


async def until(server: Simulated, counter: str, value: int) -> None:
    """Wait until the server has counted so much."""
    deadline = time.monotonic() + 30
    while (await server.counters())[counter] < value:
        assert time.monotonic() < deadline, f"{counter} stayed below {value}"
        await asyncio.sleep(0.02)


async def test_missed_goals_are_exit_code_3_and_the_tables_go_to_standard_output(
    tmp_path: Path,
) -> None:
    goals = [{"metric": "time_to_first_token", "statistic": "p99", "max": "1ms"}]
    async with (
        simulated() as server,
        tare_run(tmp_path, manifest(goals=goals), "--url", server.origin) as process,
    ):
        output, log = (part.decode() for part in await process.communicate())
        counted = await server.counters()
    assert process.returncode == 3, log
    assert "8/8" in output
    assert "time_to_first_token p99 ≤ 1 ms" in output
    assert "8/8" not in log
    assert (counted["resets"], counted["profiler_starts"]) == (1, 1)
    assert not counted["profiler_running"]
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_signal_while_profiling_stops_load_profiler_and_every_process(
    tmp_path: Path, number: signal.Signals
) -> None:
    endless = manifest()
    endless["spec"]["phases"][0]["requests"] = 100_000
    async with (
        simulated() as server,
        tare_run(tmp_path, endless, "--url", server.origin) as process,
    ):
        await until(server, "requests_while_profiling", 5)
        process.send_signal(number)
        _, log = await process.communicate()
        counted = await server.counters()
    assert process.returncode == 130
    assert b"cancelling the run" in log
    assert not counted["profiler_running"]
    assert counted["in_flight"] == 0
    assert left_behind(tmp_path) == []


async def test_a_killed_command_takes_its_operator_and_its_workers_with_it(tmp_path: Path) -> None:
    endless = manifest()
    endless["spec"]["phases"][0]["requests"] = 100_000
    async with (
        simulated() as server,
        tare_run(tmp_path, endless, "--url", server.origin) as process,
    ):
        await until(server, "requests", 5)
        process.kill()
        await process.communicate()
        deadline = time.monotonic() + 10
        while running(tmp_path):
            assert time.monotonic() < deadline, running(tmp_path)
            await asyncio.sleep(0.05)


async def test_a_run_that_takes_too_long_is_cancelled_and_fails(tmp_path: Path) -> None:
    endless = manifest()
    endless["spec"]["phases"][0]["requests"] = 100_000
    async with (
        simulated() as server,
        tare_run(tmp_path, endless, "--url", server.origin, "--timeout", "3") as process,
    ):
        _, log = await process.communicate()
        counted = await server.counters()
    assert process.returncode == 1
    assert b"was not finished in the time of --timeout" in log
    assert not counted["profiler_running"]


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({"phases": []}, (), b"spec.phases"),
        ({}, (), b"say where the server is with --url"),
    ],
)
async def test_what_cannot_be_run_is_exit_code_2_before_anything_starts(
    tmp_path: Path, change: dict[str, Any], arguments: tuple[str, ...], message: bytes
) -> None:
    async with tare_run(tmp_path, manifest(**change), *arguments) as process:
        _, log = await process.communicate()
    assert process.returncode == 2
    assert message in log
    assert b"Traceback" not in log
