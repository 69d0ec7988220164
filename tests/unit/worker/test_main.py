from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.events import content, normal
from support.load import closed_loop, histogram, work_order
from support.scripted import Script, ScriptedServer
from support.scripted_operator import ScriptedOperator
from tare.api.names import ENV_INBOX, ENV_INDEX, ENV_ORDER, ENV_TOKEN
from tare.measure.counts import Count
from tare.measure.messages import CommandKind, WorkerResult, WorkerState
from tare.measure.wire import decode, encode
from tare.plan.order import RampOrder
from tare.worker.main import EXIT_BAD_ORDER, main

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tare.plan.order import WorkOrder

SOURCE = Path(__file__).parents[3] / "operator"
QUICK = Script(writes=[(0, data) for _, data in normal()])
ENDLESS = Script(writes=[(0, content("a"))], end="silence")
ALLOWED = {"tare", "uvloop", "httptools", "orjson"}


NEVER = RampOrder(type="exponential", seconds=1.0, start=0.0)


def _environ(**more: str) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **more}


async def _start(*arguments: str, **environ: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tare",
        "worker",
        *arguments,
        env=_environ(**environ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def test_a_worker_imports_nothing_but_its_three_libraries() -> None:
    code = (
        "import sys; before = set(sys.modules); import tare.worker.main;"
        # Modules without a spec are what Cython leaves inside a library.
        "new = {n for n, m in sys.modules.items() if n not in before"
        " and getattr(m, '__spec__', None)};"
        "print(*sorted({name.partition('.')[0] for name in new}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=_environ(), capture_output=True, text=True, check=True
    )
    foreign = set(done.stdout.split()) - sys.stdlib_module_names - ALLOWED
    assert foreign == set()


async def test_an_order_runs_without_an_operator(tmp_path: Path) -> None:
    async with ScriptedServer(QUICK) as server:
        phases = (closed_loop(requests=5), closed_loop(requests=10, concurrency=2))
        path = tmp_path / "order.json"
        path.write_bytes(encode(work_order(server, phases=phases)))
        process = await _start("--order", str(path))
        output, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    result = decode(WorkerResult, output)
    assert result.complete
    assert [phase.counts[Count.OK] for phase in result.phases] == [5, 10]
    assert histogram(result.phases[1], "time_to_first_token").count == 10


async def test_sigterm_ends_a_worker_with_a_partial_result() -> None:
    async with ScriptedOperator() as operator, ScriptedServer(ENDLESS) as server:
        order = work_order(server, phases=(closed_loop(requests=4, concurrency=2),), workers=2)
        process = await _start(
            **{
                ENV_ORDER: encode(order).decode(),
                ENV_INBOX: operator.url,
                ENV_TOKEN: "token",
                ENV_INDEX: "1",
            }
        )
        operator.tell(CommandKind.PREPARE, 0)
        await operator.until(WorkerState.READY, 0)
        operator.tell(CommandKind.START, 0)
        await operator.until(WorkerState.RUNNING, 0)
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    assert process.returncode == 143
    assert [orjson.loads(line)["message"] for line in errors.splitlines()] == [
        "worker 1 is registered",
        "phase 0: ready",
        "phase 0: running",
        "told to end by a signal",
        "the result is stored",
    ]
    assert operator.waits[-1].state is WorkerState.STOPPED
    (result,) = operator.results
    assert (result.worker.index, result.complete) == (1, False)


async def test_an_order_runs_in_several_processes(tmp_path: Path) -> None:
    async with ScriptedServer(QUICK) as server:
        path = tmp_path / "order.json"
        phases = (closed_loop(requests=30, concurrency=6),)
        path.write_bytes(encode(work_order(server, phases=phases, processes=3)))
        process = await _start("--order", str(path))
        output, errors = await process.communicate()
        assert len({seen.body for seen in server.requests}) == len(server.requests) == 30
    assert (process.returncode, errors) == (0, b"")
    result = decode(WorkerResult, output)
    assert (result.complete, result.phases[0].counts[Count.OK]) == (True, 30)
    assert result.phases[0].connections_opened == 0
    assert 0 < result.phases[0].start_skew < 0.1


@contextlib.asynccontextmanager
async def _running_crew(
    operator: ScriptedOperator, server: ScriptedServer
) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[int]]]:
    """A worker of two processes amid its phase, and the ids of the processes that it forked."""
    order = work_order(server, phases=(closed_loop(requests=4, concurrency=2),), processes=2)
    process = await _start(
        **{ENV_ORDER: encode(order).decode(), ENV_INBOX: operator.url, ENV_TOKEN: "token"}
    )
    operator.tell(CommandKind.PREPARE, 0)
    await operator.until(WorkerState.READY, 0)
    operator.tell(CommandKind.START, 0)
    await operator.until(WorkerState.RUNNING, 0)
    yield process, _children(process.pid)


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(child) for child in text.split()]


async def test_sigterm_ends_every_process_of_a_worker() -> None:
    async with (
        ScriptedOperator() as operator,
        ScriptedServer(ENDLESS) as server,
        _running_crew(operator, server) as (process, forked),
    ):
        process.send_signal(signal.SIGTERM)
        await process.communicate()
        assert (process.returncode, len(forked), server.in_flight) == (143, 2, 0)
    assert operator.waits[-1].state is WorkerState.STOPPED
    (result,) = operator.results
    assert result.phases[0].counts[Count.CANCELLED] == 2


async def test_a_worker_that_loses_a_process_ends_and_says_which() -> None:
    async with (
        ScriptedOperator() as operator,
        ScriptedServer(ENDLESS) as server,
        _running_crew(operator, server) as (process, forked),
    ):
        os.kill(forked[1], signal.SIGKILL)
        _, errors = await process.communicate()
    assert process.returncode == 1
    assert b"process 1 of 2 ended before its result" in errors


async def test_forked_processes_do_not_outlive_the_first_one() -> None:
    async with (
        ScriptedOperator() as operator,
        ScriptedServer(ENDLESS) as server,
        _running_crew(operator, server) as (process, _),
    ):
        process.kill()
        # Its output ends when no process holds the pipe any more.
        await asyncio.wait_for(process.communicate(), 5)


def _order(**more: Any) -> WorkOrder:
    server = ScriptedServer(QUICK)
    server.port = 1
    return work_order(server, phases=more.pop("phases", (closed_loop(requests=1),)), **more)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        (b"{", "WorkOrder: not JSON"),
        (b'{"run": 3}', "WorkOrder.run: 3 is no str"),
        (encode(_order(phases=())), "WorkOrder.phases is empty"),
        (encode(_order(phases=(closed_loop(),))), "phases[0] (profiling): nothing ends it"),
        (encode(_order(phases=(closed_loop(requests=1, concurrency=0),))), "concurrency of 1 or"),
        (encode(_order(goodput={"ttft": 1.0})), "goodput.ttft: unknown"),
        (encode(_order(processes=0)), "WorkOrder.processes: 0 is not allowed"),
        (encode(_order(phases=(closed_loop(requests=1, smoothness=0.0),))), "smoothness must be"),
        (
            encode(_order(phases=(closed_loop(requests=1, ramp=NEVER),))),
            "an exponential one starts above 0",
        ),
        (encode(_order(phases=(closed_loop(requests=1, cancel_share=2.0),))), "a share of 0 to 1"),
        (encode(_order(entries=0)), "dataset.entries: 0 is not allowed"),
        (encode(_order(osl=0)), "dataset.prompts.osl: entry 0 would have 0 tokens"),
        (encode(_order(target={"headers": ()})).replace(b"http://", b"ftp://"), "expected http"),
    ],
)
def test_a_bad_order_is_refused_in_one_line(
    order: bytes, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "order.json"
    path.write_bytes(order)
    assert main(["--order", str(path)]) == EXIT_BAD_ORDER
    line = capsys.readouterr().err
    assert line.startswith("tare worker: ")
    assert message in line
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({}, f"{ENV_ORDER} is not set"),
        ({ENV_INDEX: "1"}, f"{ENV_INDEX}: '1' is no index of 1 workers"),
        ({ENV_INDEX: "x"}, f"{ENV_INDEX}: 'x' is no index"),
        ({ENV_INDEX: "0"}, f"{ENV_INBOX} is not set"),
        ({ENV_INBOX: "h:80"}, f"{ENV_INBOX}: 'h:80': expected http"),
        ({ENV_INBOX: "http://h"}, f"{ENV_TOKEN} is not set"),
    ],
)
def test_what_is_missing_in_the_environment_is_named(
    environ: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if environ:
        monkeypatch.setenv(ENV_ORDER, encode(_order()).decode())
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert main([]) == EXIT_BAD_ORDER
    assert message in capsys.readouterr().err


def test_a_secret_header_comes_from_the_environment_and_must_be_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = orjson.loads(encode(_order()))
    document["target"]["headers"] = [{"name": "X-Key", "env": "TARE_HEADER_1"}]
    path = tmp_path / "order.json"
    path.write_bytes(orjson.dumps(document))
    assert main(["--order", str(path)]) == EXIT_BAD_ORDER
    assert "header X-Key: its value is missing (TARE_HEADER_1" in capsys.readouterr().err
