"""`tare profile`: command lines of AIPerf's pages with another name, judged by the server's log."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from support.commands import tare
from support.eventually import eventually
from support.simulated import CHAT, simulated

if TYPE_CHECKING:
    from pathlib import Path

    from support.simulated import Simulated

SECRET = "sk-secret-1"


def written_files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def quick_start(server: Simulated) -> list[str]:
    """The quick start of the page on control hooks, without the name of the command."""
    text = (
        "profile --model your-model --url ORIGIN --endpoint-type chat --streaming "
        "--concurrency 8 --request-count 100 --reset-kv-cache --server-profiler"
    )
    return text.replace("ORIGIN", server.origin).split()


async def test_the_quick_start_runs_with_nothing_but_the_commands_name_changed(
    tmp_path: Path,
) -> None:
    async with (
        simulated("--model", "your-model") as server,
        tare(tmp_path, *quick_start(server)) as process,
    ):
        output, log = (part.decode() for part in await process.communicate())
        counted = await server.counters()
        sent = (await server.get("/admin/requests")).json["requests"]
    assert process.returncode == 0, log
    assert "100/100" in output
    chats = [entry for entry in sent if entry["path"] == CHAT]
    probe, load = chats[0], chats[1:]
    assert len(load) == 100, "no warm-up was asked for"
    assert all(entry["stream"] for entry in load)
    assert counted["resets"] == 1
    assert (counted["profiler_starts"], counted["profiler_stops"]) == (1, 1)
    assert counted["requests_while_profiling"] == 100
    (window,) = counted["profiler_windows"]
    assert probe["arrived_ns"] < window["start_ns"]
    assert all(window["start_ns"] < entry["arrived_ns"] < window["stop_ns"] for entry in load)
    assert counted["peak_in_flight"] <= 8


async def test_hooks_reach_every_origin_once_by_the_paths_that_were_given(tmp_path: Path) -> None:
    sglang = ("--server-style", "sglang")
    async with simulated(*sglang) as first, simulated(*sglang) as second:
        urls = ("--url", f"{first.origin}/v1", "--url", first.origin, "--url", second.origin)
        hooks = ("--reset-kv-cache-path", "/flush_cache", "--server-profiler-timeout-seconds", "9")
        load = ("--model", "tiny", "--request-count", "8", "--warmup-request-count", "4")
        async with tare(tmp_path, "run", *urls, *hooks, *load) as process:
            _, log = await process.communicate()
        counted = [await server.counters() for server in (first, second)]
    assert process.returncode == 0, log.decode()
    for counters in counted:
        assert counters["resets"] == 1
        assert (counters["profiler_starts"], counters["profiler_stops"]) == (1, 1)
    assert sum(counters["requests_while_profiling"] for counters in counted) == 8


async def test_a_secret_header_opens_the_server_and_is_in_no_file_and_no_line(
    tmp_path: Path,
) -> None:
    """Files are those that the command makes: the logs of its operator and workers among them."""
    header = ("--header", f"Authorization: Bearer {SECRET}")
    load = ("--model", "tiny", "--request-count", "5000", "--osl", "4", "--reset-kv-cache")
    async with (
        simulated("--api-key", SECRET) as server,
        tare(tmp_path, "profile", "--url", server.origin, *load, *header) as process,
    ):

        async def loaded() -> bool:
            return bool((await server.counters())["requests"] >= 20)

        await eventually(loaded, 60, lambda: "no load came")
        files = {path.name: path.read_bytes() for path in written_files(tmp_path)}
        process.send_signal(signal.SIGINT)
        output, log = await process.communicate()
    assert files["operator.log"]
    assert [name for name, content in files.items() if SECRET.encode() in content] == []
    assert SECRET.encode() not in output + log


@pytest.mark.parametrize("arguments", [("--warmup-request-count", "0"), ("--isl", "0")])
async def test_a_bad_flag_ends_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, str]
) -> None:
    async with simulated() as server:
        least = ("--model", "tiny", "--url", server.origin, "--request-count", "5")
        async with tare(tmp_path, "profile", *least, *arguments) as process:
            output, log = (part.decode() for part in await process.communicate())
        assert (await server.counters())["requests"] == 0
    assert process.returncode == 2
    assert log.startswith(f"{arguments[0]}: 0")
    assert "Traceback" not in log
    assert output == ""
