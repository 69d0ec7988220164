from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.events import normal
from support.load import closed_loop, run_load, work_order
from support.scripted import Script, ScriptedServer
from tare.measure.rows import Row, Rows, read_rows
from tare.worker.columns import rows
from tare.worker.orders import OrderError
from tare.worker.record import Record, Status

if TYPE_CHECKING:
    from pathlib import Path

    from tare.measure.messages import PhaseResult

MS = 1_000_000
QUICK = Script(writes=[(0, data) for _, data in normal()])


def _row(record: Record) -> Row:
    kept = Rows()
    kept.add_all(rows([record], gate=1000 * MS))
    (row,) = read_rows(kept.to_json())
    return row


def test_a_row_holds_microseconds_after_the_gate_and_from_the_send() -> None:
    record = Record(
        number=5,
        entry=2,
        due=1010 * MS,
        sent=1012 * MS,
        first_text=1112 * MS,
        last_text=1512 * MS,
        closed=1600 * MS,
        gaps=array("q", [400 * MS]),
        status=Status.OK,
        streamed=True,
        chunks=2,
        output_tokens=8,
    )
    row = _row(record)
    assert (row.number, row.entry, row.due, row.lag) == (5, 2, 10_000, 2_000)
    assert (row.time_to_first_token, row.latency) == (100_000, 500_000)
    assert (row.output_tokens, row.cached_tokens, row.outcome) == (8, None, "ok")


def test_a_request_that_was_never_sent_has_no_times() -> None:
    row = _row(Record(number=0, entry=0, due=1000 * MS, closed=1001 * MS, status=Status.ERROR))
    assert (row.due, row.lag, row.time_to_first_token, row.latency) == (0, None, None, None)
    assert row.outcome == "error"


def _lines(path: Path) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def _measure(server: ScriptedServer, *, rows: int) -> PhaseResult:
    phases = (closed_loop(requests=40, concurrency=4), closed_loop(requests=40, concurrency=4))
    order = work_order(server, phases=phases, rows=rows, entries=7)
    return (await run_load(order)).phases[1]


async def test_profiling_phases_share_the_rows_of_a_trial() -> None:
    async with ScriptedServer(QUICK) as server:
        phase = await _measure(server, rows=40)
        none = await _measure(server, rows=0)
    kept = list(read_rows(phase.rows))
    assert 10 <= len(kept) <= 20
    assert all(row.entry == row.number % 7 for row in kept)
    assert {(row.output_tokens, row.outcome) for row in kept} == {(3, "ok")}
    assert none.rows == {}


async def test_an_order_that_names_a_folder_gets_every_request_as_a_line(tmp_path: Path) -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(server, phases=(closed_loop(requests=3),), artifacts=str(tmp_path))
        result = await run_load(order)
        url = server.url
    lines = _lines(tmp_path / "c0-t0-a0-w0.jsonl")
    assert [line["number"] for line in lines] == [0, 1, 2]
    first = lines[0]
    assert (first["phase"], first["endpoint"], first["status"]) == ("profiling", url, "ok")
    assert 0 <= first["sent"] < first["first_text"] <= first["last_text"] <= first["closed"]
    assert len(first["gaps"]) == first["chunks"] - 1 == 2
    assert "error_kind" not in first
    assert result.complete


async def test_a_folder_that_is_not_there_is_found_before_the_load(tmp_path: Path) -> None:
    async with ScriptedServer(QUICK) as server:
        order = work_order(
            server, phases=(closed_loop(requests=3),), artifacts=str(tmp_path / "none")
        )
        with pytest.raises(OrderError, match=r"artifacts: .*none.*No such file"):
            await run_load(order)
        assert server.connections == 0
