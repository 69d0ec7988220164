from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from support.trials import OWNER, trial_document, trial_summary
from tare.api import names
from tare.kube.errors import AlreadyExists, Unavailable
from tare.kube.port import CONFIG_MAP

if TYPE_CHECKING:
    from support.memory_cluster import MemoryCluster
    from tare.results.document import TrialDocument
    from tare.results.store import ResultStore


def large_document() -> TrialDocument:
    """More than fits into one ConfigMap, even compressed."""
    noise = random.Random(3).randbytes(500_000).hex()  # noqa: S311 - incompressible, not secret
    return replace(trial_document(), overrides={"noise": noise})


async def test_a_stored_trial_is_loaded_as_it_was(store: ResultStore) -> None:
    document = trial_document(cell=2, trial=1)
    stored = await store.store_trial(document)
    assert stored == ("qwen-c2-t1-a1-p0",)
    assert await store.load_trials(OWNER) == {(2, 1): document}


async def test_a_config_map_belongs_to_its_run_and_says_which_trial_it_holds(
    store: ResultStore, cluster: MemoryCluster
) -> None:
    [name] = await store.store_trial(trial_document(cell=2, trial=1))
    metadata = (await cluster.get(CONFIG_MAP, "bench", name))["metadata"]
    assert metadata["ownerReferences"][0]["uid"] == OWNER.uid
    assert metadata["labels"][names.LABEL_RUN_UID] == OWNER.uid
    assert (metadata["labels"][names.LABEL_CELL], metadata["labels"][names.LABEL_TRIAL]) == (
        "2",
        "1",
    )


async def test_storing_again_writes_nothing_and_names_the_same_config_maps(
    store: ResultStore, cluster: MemoryCluster
) -> None:
    first = await store.store_trial(trial_document())
    again = replace(trial_document(), hooks=())
    assert await store.store_trial(again) == first
    assert await store.load_trials(OWNER) == {(0, 0): trial_document()}
    assert {verb for verb, _ in cluster.calls} == {"create"}


async def test_a_store_that_broke_off_half_way_is_finished_by_the_next_one(
    store: ResultStore, cluster: MemoryCluster
) -> None:
    document = large_document()
    cluster.failures = [None, Unavailable("connection reset")]
    with pytest.raises(Unavailable):
        await store.store_trial(document)
    assert await store.load_trials(OWNER) == {}, "half a document is no result"
    names_of_parts = await store.store_trial(document)
    assert len(names_of_parts) > 1
    assert await store.load_trials(OWNER) == {(0, 0): document}


async def test_an_answer_that_was_lost_is_no_failure(
    store: ResultStore, cluster: MemoryCluster
) -> None:
    await store.store_trial(trial_document())
    cluster.failures = [AlreadyExists("the first request was carried out")]
    assert await store.store_trial(trial_document()) == ("qwen-c0-t0-a1-p0",)


async def test_a_name_that_an_earlier_run_still_holds_is_not_taken_for_success(
    store: ResultStore,
) -> None:
    earlier = replace(OWNER, uid="11111111-0000-0000-0000-000000000000")
    await store.store_trial(trial_document(owner=earlier))
    with pytest.raises(AlreadyExists):
        await store.store_trial(trial_document())
    assert await store.load_trials(OWNER) == {}


async def test_labels_of_a_stranger_do_not_make_a_result(
    store: ResultStore, cluster: MemoryCluster
) -> None:
    [name] = await store.store_trial(trial_document())
    forged = await cluster.get(CONFIG_MAP, "bench", name)
    forged["metadata"] |= {"name": "forged", "ownerReferences": []}
    forged["metadata"]["labels"][names.LABEL_CELL] = "7"
    await cluster.create(CONFIG_MAP, "bench", forged)
    assert list(await store.load_trials(OWNER)) == [(0, 0)]


async def test_of_several_attempts_the_last_one_counts(store: ResultStore) -> None:
    await store.store_trial(trial_document(attempt=2))
    await store.store_trial(trial_document(attempt=10))
    await store.store_trial(trial_document(attempt=1))
    assert (await store.load_trials(OWNER))[0, 0].record.attempt == 10


async def test_a_failed_trial_without_numbers_is_stored_too(store: ResultStore) -> None:
    document = trial_document(summary=None, message="reset refused by qwen-1")
    await store.store_trial(document)
    assert (await store.load_trials(OWNER))[0, 0].record.message == "reset refused by qwen-1"


async def test_the_results_of_two_runs_do_not_mix(store: ResultStore) -> None:
    other = replace(OWNER, name="llama", uid="22222222-0000-0000-0000-000000000000")
    await store.store_trial(trial_document())
    await store.store_trial(trial_document(owner=other, summary=trial_summary(2.0)))
    assert (await store.load_trials(OWNER))[0, 0] == trial_document()


async def test_a_run_name_with_dots_gives_valid_names(store: ResultStore) -> None:
    dotted = replace(OWNER, name="qwen.v1.prefix")
    [name] = await store.store_trial(trial_document(owner=dotted))
    assert "." not in name
    assert len(name) <= 63
