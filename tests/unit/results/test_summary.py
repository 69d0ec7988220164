from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

import orjson

from support.summaries import cells, failed, measured, summary
from support.trials import OWNER
from tare.api.reasons import CellState, Reason
from tare.kube.port import CONFIG_MAP
from tare.measure.goals import Verdict
from tare.results.export import to_csv, to_json
from tare.results.table import result_rows

if TYPE_CHECKING:
    from support.memory_cluster import MemoryCluster
    from tare.results.store import ResultStore


def test_a_cell_is_measured_when_each_of_its_trials_is() -> None:
    cells_of = cells(1, trials=2)
    [half] = summary(measured(0, 0), cells_of=cells_of).cells
    [whole] = summary(measured(0, 0), measured(0, 1), cells_of=cells_of).cells
    assert (half.state, half.summary, half.goals) == (CellState.PENDING, None, ())
    assert whole.state is CellState.MEASURED
    assert whole.summary
    assert whole.summary.trials == 2


def test_a_cell_with_one_lost_trial_shows_its_reason_and_no_numbers() -> None:
    [cell] = summary(measured(0, 0), failed(0, 1), cells_of=cells(1, trials=2)).cells
    assert (cell.state, cell.reason, cell.summary) == (CellState.FAILED, Reason.RESET_REFUSED, None)
    assert "VLLM_SERVER_DEV_MODE" in cell.message


def test_the_cache_state_of_a_cell_is_the_weakest_of_its_trials() -> None:
    records = (measured(0, 0), measured(0, 1, reset="Unverified"))
    [cell] = summary(*records, cells_of=cells(1, trials=2)).cells
    assert cell.reset == "Unverified"


def test_goals_are_judged_for_each_cell_and_for_the_run() -> None:
    document = summary(measured(0), measured(1, scale=2.0), cells_of=cells(2))
    assert [cell.goals[0].verdict for cell in document.cells] == [Verdict.PASS, Verdict.FAIL]
    assert document.verdict.met is False
    assert document.verdict.best == 0


def test_a_row_of_the_table_has_the_counts_beside_the_latencies() -> None:
    [row] = result_rows(summary(measured(0), cells_of=cells(1)))
    assert (row.issued, row.ok, row.failed) == (100, 98, 2)
    assert row.ttft_p99
    assert row.ttft_p99.mean == 0.2
    assert row.is_best
    assert row.goals is Verdict.PASS


def test_a_cancelled_request_counts_as_not_ok() -> None:
    record = measured(0)
    assert record.summary
    record.summary.counts["ok"] = 90  # type: ignore[index]  # made by this test
    [row] = result_rows(summary(record, cells_of=cells(1)))
    assert row.failed == 10


def test_a_row_without_numbers_says_why() -> None:
    [row] = result_rows(summary(failed(0), cells_of=cells(1)))
    assert (row.trials, row.ttft_p99, row.goals, row.is_best) == (0, None, None, False)
    assert row.message.startswith("qwen-1 answered 404")


def test_csv_has_a_row_for_each_number_with_its_unit() -> None:
    document = summary(measured(0), failed(1), cells_of=cells(2))
    rows = list(csv.DictReader(io.StringIO(to_csv(document))))
    [p99] = [r for r in rows if (r["metric"], r["statistic"]) == ("time_to_first_token", "p99")]
    assert (p99["run"], p99["cell_name"], p99["unit"]) == ("qwen", "rate=4", "seconds")
    assert (float(p99["value"]), p99["half_width"], p99["trials"]) == (0.2, "", "1")
    [issued] = [row for row in rows if row["metric"] == "issued"]
    assert issued["value"] == "100"
    assert [row["state"] for row in rows if row["cell"] == "1"] == ["Failed"]


def test_json_holds_the_schema_and_every_cell() -> None:
    document = orjson.loads(to_json(summary(measured(0), failed(1), cells_of=cells(2))))
    assert document["schema"] == "tare.dev/summary/v1"
    assert [cell["state"] for cell in document["cells"]] == ["Measured", "Failed"]


async def test_a_summary_is_loaded_as_it_was_stored(store: ResultStore) -> None:
    document = summary(measured(0), failed(1), cells_of=cells(2))
    assert await store.load_summary(OWNER) is None
    assert await store.store_summary(document) == ("qwen-summary-p0",)
    assert await store.load_summary(OWNER) == document


async def test_a_later_summary_takes_the_place_of_the_earlier_one(
    store: ResultStore, cluster: MemoryCluster
) -> None:
    await store.store_summary(summary(cells_of=cells(2)))
    document = summary(measured(0), measured(1), cells_of=cells(2))
    await store.store_summary(document)
    assert await store.load_summary(OWNER) == document
    assert len(await cluster.list(CONFIG_MAP, "bench")) == 1


async def test_a_summary_of_500_cells_fits_into_one_config_map(store: ResultStore) -> None:
    records = [measured(cell, scale=1 + cell / 7) for cell in range(500)]
    document = summary(*records, cells_of=cells(500))
    assert len(await store.store_summary(document)) == 1
    assert await store.load_summary(OWNER) == document
