"""Writing status: exactly what changed, never over somebody else's, always to the end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.stored_run import StoredRun, apply_merge_patch
from tare.kube.errors import Conflict, Forbidden, NotFound, TooLarge, Unavailable
from tare.kube.port import RUN
from tare.runtime.status_writer import StatusWriter, SupersededError, merge_patch

ME = "tare-operator-7c9d-1234abcd"
VALUES = st.recursive(
    st.booleans() | st.integers(min_value=-2, max_value=2) | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("abcd"), inner, max_size=3)
    ),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)


def run(**status: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "run",
            "namespace": "bench",
            "uid": "u1",
            "generation": 1,
            "resourceVersion": "5",
        },
        "spec": {"suspend": False},
        "status": {"operator": ME, **status},
    }


@pytest.fixture
def cluster() -> StoredRun:
    return StoredRun(run(phase="Pending"))


@pytest.fixture
def writer(cluster: StoredRun) -> StatusWriter:
    return StatusWriter(cluster, ME)


# The patch


@given(before=DOCUMENTS, after=DOCUMENTS)
def test_the_patch_turns_before_into_after(before: dict[str, Any], after: dict[str, Any]) -> None:
    assert apply_merge_patch(before, merge_patch(before, after)) == after


@given(DOCUMENTS)
def test_what_did_not_change_needs_no_patch(document: dict[str, Any]) -> None:
    assert merge_patch(document, document) == {}


def test_only_what_changed_is_in_the_patch() -> None:
    before = {"phase": "Running", "progress": {"percent": 10, "cell": "a"}, "current": {"cell": 0}}
    after = {"phase": "Running", "progress": {"percent": 20, "cell": "a"}}
    assert merge_patch(before, after) == {"progress": {"percent": 20}, "current": None}


def test_a_list_goes_whole_since_a_merge_patch_cannot_do_otherwise() -> None:
    before, after = {"cells": [1, 2, 3]}, {"cells": [1, 2, 4]}
    assert merge_patch(before, after) == {"cells": [1, 2, 4]}


# Writing


async def test_b112_status_is_written_by_its_subresource_and_nothing_else_changes(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    stored = await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    assert stored["status"] == {"operator": ME, "phase": "Running"}
    assert stored["metadata"]["generation"] == 1
    assert cluster.patches == [
        {"metadata": {"resourceVersion": "5"}, "status": {"phase": "Running"}}
    ]


async def test_a_status_that_is_stored_already_is_not_written(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    document = run(phase="Pending")
    assert await writer.write(document, document["status"]) is document
    assert cluster.patches == []


async def test_after_a_conflict_with_kopfs_finalizer_the_patch_is_repeated(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.between = [lambda d: d["metadata"].update(finalizers=["tare.dev/finalizer"])]
    stored = await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    assert stored["status"]["phase"] == "Running"
    assert stored["metadata"]["finalizers"] == ["tare.dev/finalizer"]
    assert [p["metadata"]["resourceVersion"] for p in cluster.patches] == ["5", "6"]


async def test_what_a_user_changed_meanwhile_comes_back_with_the_answer(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.between = [lambda d: d["spec"].update(cancel=True)]
    stored = await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    assert stored["spec"]["cancel"] is True


async def test_an_operator_that_took_over_stops_this_one_at_the_conflict(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.between = [lambda d: d["status"].update(operator="another")]
    with pytest.raises(SupersededError):
        await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    assert cluster.document["status"] == {"operator": "another", "phase": "Pending"}


async def test_an_operator_that_took_over_stops_this_one_also_without_a_conflict(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    """Its watch event came first, so this process would write to the version it has seen."""
    cluster.change(lambda d: d["status"].update(operator="another"))
    seen = await cluster.get(RUN, "bench", "run")
    with pytest.raises(SupersededError):
        await writer.write(seen, {"operator": "another", "phase": "Running"})
    assert cluster.patches == []


async def test_a_status_without_a_signature_is_anybodys(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.between = [lambda d: d.pop("status")]
    stored = await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    assert stored["status"] == {"operator": ME, "phase": "Running"}


async def test_a_run_that_was_created_again_is_not_written_to(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.between = [lambda d: d["metadata"].update(uid="u2")] * 2
    with pytest.raises(NotFound):
        await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    with pytest.raises(NotFound):
        await StatusWriter(cluster, "new").take_over(run(phase="Pending"))
    assert cluster.document["status"] == {"operator": ME, "phase": "Pending"}


async def test_endless_conflicts_end_with_an_error(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.between = [lambda d: d["spec"].update(n=1)] * 100
    with pytest.raises(Conflict, match="kept changing"):
        await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
    assert len(cluster.patches) < 20


@pytest.mark.parametrize("error", [Unavailable("504"), Forbidden("no right"), NotFound("gone")])
async def test_other_errors_are_the_drivers_to_judge(
    cluster: StoredRun, writer: StatusWriter, error: Exception
) -> None:
    cluster.refusals = [error]  # type: ignore[list-item]  # each is a KubeError
    with pytest.raises(type(error)):
        await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})


# Too large


LARGE = {"operator": ME, "phase": "Failed", "cells": [{"index": 0}], "summary": {"failed": 1}}


async def test_b105_a_status_that_is_too_large_is_written_without_its_rows(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.refusals = [TooLarge("etcdserver: request is too large")]
    stored = await writer.write(run(phase="Pending"), LARGE)
    assert stored["status"] == {"operator": ME, "phase": "Failed", "summary": {"failed": 1}}
    assert len(cluster.patches) == 2


async def test_once_trimmed_it_stays_trimmed_so_that_the_next_pass_finds_it_stored(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    assert writer.fitting(LARGE) == LARGE
    cluster.refusals = [TooLarge("etcdserver: request is too large")]
    stored = await writer.write(run(phase="Pending"), LARGE)
    assert writer.fitting(LARGE) == stored["status"]
    await writer.write(stored, LARGE)
    assert len(cluster.patches) == 2


async def test_a_status_that_is_too_large_without_rows_is_an_error_and_no_loop(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    cluster.refusals = [TooLarge("too large")] * 9
    with pytest.raises(TooLarge):
        await writer.write(run(phase="Pending"), LARGE)
    assert len(cluster.patches) == 2


# Taking over


async def test_taking_over_signs_the_status_and_changes_nothing_else(cluster: StoredRun) -> None:
    stored = await StatusWriter(cluster, "new").take_over(run(phase="Pending"))
    assert stored["status"] == {"operator": "new", "phase": "Pending"}
    assert cluster.patches[0]["status"] == {"operator": "new"}


async def test_taking_over_a_run_that_has_no_status_yet(cluster: StoredRun) -> None:
    cluster.change(lambda d: d.pop("status"))
    document = run()
    document["metadata"]["resourceVersion"] = "6"
    del document["status"]
    stored = await StatusWriter(cluster, "new").take_over(document)
    assert stored["status"] == {"operator": "new"}


async def test_taking_over_wins_over_a_write_that_came_between(cluster: StoredRun) -> None:
    cluster.between = [lambda d: d["status"].update(phase="Running")]
    stored = await StatusWriter(cluster, "new").take_over(run(phase="Pending"))
    assert stored["status"] == {"operator": "new", "phase": "Running"}


async def test_the_earlier_operator_notices_at_its_next_write(
    cluster: StoredRun, writer: StatusWriter
) -> None:
    await StatusWriter(cluster, "new").take_over(run(phase="Pending"))
    with pytest.raises(SupersededError):
        await writer.write(run(phase="Pending"), {"operator": ME, "phase": "Running"})
