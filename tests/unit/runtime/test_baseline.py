"""A run's copy of its baseline at the start, and the comparison at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.baselines import keep
from support.clock import FakeClock
from support.compared import run, trial
from support.context import context_of
from support.memory_cluster import MemoryCluster
from tare.api.reasons import Reason
from tare.decide.acceptance import Accepted, accept
from tare.kube.port import CONFIG_MAP, RUN
from tare.net.allowlist import AllowList
from tare.runtime import baseline as module
from tare.runtime.baseline import compare_with_baseline, copy_baseline
from tare.runtime.driver import Driver

if TYPE_CHECKING:
    from tare.decide.facts import BaselineVerdict
    from tare.kube.port import Document
    from tare.manifests.metadata import Owner
    from tare.measure.trial import TrialSummary
    from tare.results.document import RunResults
    from tare.runtime.context import Context

FAST, SLOW = [trial([100.0, 110.0] * 30)] * 3, [trial([200.0, 210.0] * 30)] * 3


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def context(cluster: MemoryCluster) -> Context:
    return context_of(cluster, FakeClock())


def candidate(trials: list[TrialSummary], name: str = "after", **spec: Any) -> RunResults:
    return run(trials, name=name, baseline={"run": "before"}, **spec)


def accepted_of(results: RunResults) -> Accepted:
    accepted = accept(results.run, allow_targets=AllowList.everything())
    assert isinstance(accepted, Accepted)
    return accepted


async def copied(context: Context, owner: Owner, results: RunResults, **status: Any) -> str:
    """Copy at the start of a run; what is wrong with the baseline."""
    document = {**results.run, "status": status}
    problem = await copy_baseline(context, owner, accepted_of(results), document)
    return "" if problem is None else str(problem)


async def started(
    cluster: MemoryCluster, context: Context, **spec: Any
) -> tuple[Owner, RunResults]:
    """A run that has measured the same as its baseline, and the copy that it made at its start."""
    await keep(cluster, run(FAST))
    results = candidate(FAST, **spec)
    owner = await keep(cluster, results)
    assert await copied(context, owner, results) == ""
    return owner, results


async def compared(context: Context, owner: Owner, results: RunResults) -> BaselineVerdict:
    return await compare_with_baseline(context, owner, accepted_of(results))


def copies(parts: list[Document]) -> list[str]:
    return [name for part in parts if "baseline" in (name := part["metadata"]["name"])]


@pytest.mark.parametrize(
    ("trials", "regression", "reason", "said"),
    [
        (SLOW, True, Reason.REGRESSION, "Regression: time_to_first_token mean is worse"),
        (FAST, False, Reason.NOT_WORSE, "No regression: time_to_first_token mean is not worse"),
    ],
)
async def test_a_run_is_compared_with_its_copy_after_the_original_is_gone(
    cluster: MemoryCluster, context: Context, trials: list[TrialSummary],
    regression: bool, reason: Reason, said: str,
) -> None:  # fmt: skip
    before, results = await keep(cluster, run(FAST)), candidate(trials)
    owner = await keep(cluster, results)
    assert await copied(context, owner, results) == ""
    for part in await cluster.list(CONFIG_MAP, "bench"):
        if part["metadata"]["ownerReferences"][0]["uid"] == before.uid:
            await cluster.delete(CONFIG_MAP, "bench", part["metadata"]["name"])
    await cluster.delete(RUN, "bench", "before")

    found = await compared(context, owner, results)

    assert (found.regression, found.reason) == (regression, reason)
    assert found.message.startswith(f"Against before: {said} by more than 5 %: base (")
    stored = await context.store.load_summary(owner)
    assert stored is not None
    assert stored.comparison is not None
    assert stored.comparison.regression is regression
    assert replace(stored, comparison=None) == replace(results.summary, run=owner)


async def test_what_is_not_compared_says_why(cluster: MemoryCluster, context: Context) -> None:
    owner, results = await started(
        cluster, context, dataset={"prompts": {"isl": 65, "osl": 10}, "seed": 7}
    )
    found = await compared(context, owner, results)
    assert (found.regression, found.reason) == (None, Reason.NOT_CONCLUSIVE)
    assert "base: spec.dataset.prompts.isl is 64 in the baseline and 65" in found.message


async def test_a_copy_is_written_once_and_the_original_not_read_again(
    cluster: MemoryCluster, context: Context
) -> None:
    owner, results = await started(cluster, context)
    await cluster.delete(RUN, "bench", "before")
    written = len(cluster.calls)
    assert await copied(context, owner, results) == ""
    assert len(cluster.calls) == written


async def test_a_run_that_was_accepted_is_not_refused_later(
    cluster: MemoryCluster, context: Context
) -> None:
    results = candidate(FAST)
    owner = await keep(cluster, results)
    accepted = [{"type": "Accepted", "status": "True", "lastTransitionTime": ""}]
    assert "there is no BenchmarkRun 'before'" in await copied(context, owner, results)
    assert await copied(context, owner, results, conditions=accepted) == ""


async def test_a_copy_that_is_lost_leaves_the_question_open_and_the_results_as_they_are(
    cluster: MemoryCluster, context: Context
) -> None:
    owner, results = await started(cluster, context)
    for name in copies(await cluster.list(CONFIG_MAP, "bench")):
        await cluster.delete(CONFIG_MAP, "bench", name)
    found = await compared(context, owner, results)
    assert (found.regression, found.reason) == (None, Reason.BASELINE_MISSING)
    assert found.message == "the copy of before's results is gone or damaged"
    assert await context.store.load_summary(owner) == replace(results.summary, run=owner)


async def test_a_run_that_is_deleted_while_it_is_compared_is_no_fault(
    cluster: MemoryCluster, context: Context
) -> None:
    owner, results = await started(cluster, context)
    await cluster.delete(RUN, "bench", "after")
    found = await compared(context, owner, results)
    assert (found.regression, found.reason) == (None, Reason.CANCELLED)


async def test_a_bug_in_the_comparison_loses_no_result(
    cluster: MemoryCluster, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    owner, results = await started(cluster, context)
    monkeypatch.setattr(module, "compare_runs", broken)
    found = await compared(context, owner, results)
    assert (found.regression, found.reason) == (None, Reason.NOT_DECIDABLE)
    assert "the operator's log says why" in found.message
    assert await context.store.load_summary(owner) == replace(results.summary, run=owner)


async def test_a_run_with_a_baseline_that_cannot_be_one_is_refused_before_anything_is_created(
    cluster: MemoryCluster, context: Context
) -> None:
    results = candidate(FAST)
    metadata = {**results.run["metadata"], "generation": 1, "resourceVersion": "1"}
    document = await cluster.create(RUN, "bench", {**results.run, "metadata": metadata})
    await Driver(context, document).run()
    status = (await cluster.get(RUN, "bench", "after"))["status"]
    [accepted] = [c for c in status["conditions"] if c["type"] == "Accepted"]
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidSpec")
    assert accepted["message"].startswith(
        "spec.baseline.run: there is no BenchmarkRun 'before' in namespace 'bench'; "
    )
    assert status["phase"] == "Failed"
    created = [name for verb, name in cluster.calls if verb == "create" and name != "after"]
    assert [name for name in created if not name.startswith("after.")] == [], "but for Events"
