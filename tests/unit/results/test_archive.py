from __future__ import annotations

import gzip

import pytest

from support.memory_cluster import MemoryCluster
from support.reports import run_document, run_results
from support.summaries import cells, measured, summary
from support.trials import trial_document
from tare.results.archive import gather, pack, unpack
from tare.results.store import ResultStore


async def test_all_results_of_a_stored_run_are_gathered() -> None:
    cluster = MemoryCluster()
    store = ResultStore(cluster)
    for trial in (1, 0):
        await store.store_trial(trial_document(0, trial))
    await store.store_summary(summary(measured(0), cells_of=cells(1)))
    run = run_document()
    run["metadata"] |= {"managedFields": [{}], "annotations": {"last-applied": "a manifest"}}
    results = await gather(cluster, run)
    assert results is not None
    assert [trial.record.trial for trial in results.trials] == [0, 1]
    assert results.run["spec"] == run["spec"]
    assert set(results.run["metadata"]) == {"name", "namespace", "uid"}


async def test_a_run_without_a_summary_has_no_results() -> None:
    assert await gather(MemoryCluster(), run_document()) is None


def test_what_is_packed_can_be_read_again() -> None:
    results = run_results()
    assert unpack(pack(results)) == results
    assert pack(results) == pack(results)


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"{}", "it is no gzip file"),
        (pack(run_results())[:-20], "it is no gzip file"),
        (gzip.compress(b"{}"), "RunResults"),
        (gzip.compress(b"no json"), "not JSON"),
        (pack(run_results()).replace(b"\x1f", b"\x00", 1), "it is no gzip file"),
    ],
)
def test_a_file_of_something_else_is_refused_with_its_reason(raw: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        unpack(raw)
