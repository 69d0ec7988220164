"""Which runs can be a baseline, and what a run keeps of one."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.baselines import keep, keep_run
from support.compared import run, trial
from tare.api import names
from tare.decide.acceptance import Accepted, accept
from tare.kube.errors import Unavailable
from tare.kube.port import CONFIG_MAP
from tare.manifests.metadata import Owner
from tare.measure.comparison import Change, Method
from tare.net.allowlist import AllowList
from tare.results.baseline import BaselineError, needed_of, read_baseline, spare_memory
from tare.results.comparison import compare_runs

if TYPE_CHECKING:
    from support.memory_cluster import MemoryCluster
    from tare.results.document import RunResults
    from tare.results.store import ResultStore

CANDIDATE = Owner(name="after", namespace="bench", uid="uid-after")
RATES = {"grid": {"phases.profiling.rate": [4, 8]}}
FAST, SLOW = [trial([100.0, 110.0] * 30)] * 3, [trial([200.0, 210.0] * 30)] * 3


def swept(name: str = "before") -> RunResults:
    """Two cells."""
    return run(FAST, SLOW, name=name, sweep=RATES)


async def refusal(cluster: MemoryCluster, name: str = "before") -> str:
    with pytest.raises(BaselineError) as caught:
        await read_baseline(cluster, CANDIDATE, name)
    return str(caught.value)


async def test_a_finished_run_is_read_with_all_its_requests(cluster: MemoryCluster) -> None:
    owner = await keep(cluster, swept())
    found = await read_baseline(cluster, CANDIDATE, "before")
    assert found.summary.run == owner
    assert [t.record for t in found.trials] == [t.record for t in swept().trials]


async def test_a_run_is_not_its_own_baseline(cluster: MemoryCluster) -> None:
    assert await refusal(cluster, "after") == "'after' is this run itself; name an earlier one"


async def test_a_name_that_no_run_has_is_refused_with_what_else_to_do(
    cluster: MemoryCluster,
) -> None:
    said = await refusal(cluster, "befor")
    assert said.startswith("there is no BenchmarkRun 'befor' in namespace 'bench'; ")
    assert "`tare compare`" in said


async def test_a_run_that_is_not_over_has_to_be_waited_for(cluster: MemoryCluster) -> None:
    await keep_run(cluster, swept(), phase="Running", finished=False)
    said = await refusal(cluster)
    assert said.startswith("'before' has no results yet: its phase is Running; ")
    assert "--namespace=bench benchmarkrun/before" in said


async def test_a_run_that_ended_without_results_need_not_be_waited_for(
    cluster: MemoryCluster,
) -> None:
    await keep_run(cluster, swept(), phase="Failed", finished=True)
    assert "it ended as Failed; name a run that measured something" in await refusal(cluster)


async def test_a_run_that_measured_no_cell_is_none(cluster: MemoryCluster) -> None:
    await keep(cluster, run([], [], sweep=RATES), phase="Failed")
    assert "'before' measured no cell" in await refusal(cluster)


async def test_a_trial_that_cannot_be_read_is_damage(cluster: MemoryCluster) -> None:
    await keep(cluster, swept())
    await cluster.delete(CONFIG_MAP, "bench", "before-c1-t2-a1-p0")
    said = await refusal(cluster)
    assert "damaged: of cell rate=8 2 of 3 trials can be read; measure it again" in said


async def test_a_summary_that_cannot_be_read_is_damage(cluster: MemoryCluster) -> None:
    results = {"summary": "before-summary-p0"}
    await keep_run(cluster, swept(), phase="Succeeded", finished=True, results=results)
    assert "the results of 'before' are damaged" in await refusal(cluster)


async def test_results_of_another_version_are_refused(cluster: MemoryCluster) -> None:
    results = swept()
    later = [replace(t, schema="tare.dev/trial/v2") for t in results.trials]  # type: ignore[arg-type]
    await keep(cluster, replace(results, trials=tuple(later)))
    assert "'before' are of another version of Tare" in await refusal(cluster)


async def test_a_spec_that_is_not_understood_any_more_is_refused(cluster: MemoryCluster) -> None:
    results = swept()
    spec = {**results.run["spec"], "artifacts": {"emptyDir": {}}}
    await keep(cluster, replace(results, run={**results.run, "spec": spec}))
    assert "the spec of 'before' is not understood" in await refusal(cluster)


def test_what_a_comparison_does_not_read_is_left_out_and_nothing_else() -> None:
    results = swept()
    one = run(SLOW, name="after", sweep={"grid": {"phases.profiling.rate": [8]}})
    accepted = accept(one.run, allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted)
    kept = needed_of(results, accepted.cells)
    assert {t.cell_name for t in kept.trials} == {"rate=8"}
    assert compare_runs(kept, one) == compare_runs(results, one)


@pytest.mark.parametrize(("most", "method"), [(359, Method.TRIALS), (360, Method.PAIRED_TRIALS)])
def test_a_cell_with_too_many_requests_for_the_memory_is_compared_by_trial(
    most: int, method: Method
) -> None:
    """Sixty requests, three trials, two runs."""
    before, after = run(FAST), run(SLOW, name="after")
    [cell] = compare_runs(*spare_memory(before, after, most=most)).cells
    assert cell.primary is not None
    assert (cell.primary.method, cell.change) == (method, Change.WORSE)


async def test_a_copy_is_not_found_among_the_runs_own_results(
    cluster: MemoryCluster, store: ResultStore
) -> None:
    await store.store_baseline(CANDIDATE, swept())
    own = {names.LABEL_RUN_UID: CANDIDATE.uid}
    assert await cluster.list(CONFIG_MAP, "bench", labels=own) == []
    assert await store.load_trials(CANDIDATE) == {}
    assert await store.load_summary(CANDIDATE) is None
    [part] = await cluster.list(CONFIG_MAP, "bench")
    assert part["metadata"]["ownerReferences"][0]["uid"] == CANDIDATE.uid
    assert await store.load_baseline(CANDIDATE) == swept()


async def test_a_copy_that_broke_off_half_way_is_none_until_it_is_written_again(
    cluster: MemoryCluster, store: ResultStore
) -> None:
    noise = random.Random(3).randbytes(500_000).hex()  # noqa: S311 - incompressible, not secret
    large = replace(swept(), run={**swept().run, "noise": noise})
    cluster.failures = [None, Unavailable("connection reset")]
    with pytest.raises(Unavailable):
        await store.store_baseline(CANDIDATE, large)
    assert not await store.has_baseline(CANDIDATE)
    assert await store.load_baseline(CANDIDATE) is None
    await store.store_baseline(CANDIDATE, large)
    assert await store.has_baseline(CANDIDATE)
    assert await store.load_baseline(CANDIDATE) == large
