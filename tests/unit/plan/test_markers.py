from __future__ import annotations

from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.api.names import ISOLATION_TARGETS
from tare.plan.markers import (
    Marker,
    MarkerKind,
    Place,
    benchmark_id,
    digest,
    landing,
    marker_of,
    trace_id,
)
from tare.plan.order import (
    CacheBustOrder,
    DatasetOrder,
    Lengths,
    PhaseOrder,
    TargetOrder,
    WorkOrder,
)

NUMBERS = st.integers(0, 10**9)
WARMUP = PhaseOrder(name="warmup", kind="warmup", type="concurrency", concurrency=1, requests=1)
PROFILING = replace(WARMUP, name="profiling", kind="profiling")
ORDER = WorkOrder(
    run="run",
    namespace="bench",
    run_uid="uid",
    cell=0,
    trial=0,
    attempt=1,
    workers=1,
    target=TargetOrder(urls=("http://h",), model="m"),
    dataset=DatasetOrder(entries=4, isl=Lengths(value=64), osl=Lengths(value=4)),
    phases=(WARMUP, PROFILING),
)
BOTH = replace(
    ORDER, dataset=replace(ORDER.dataset, cache_bust=CacheBustOrder(scope="TrajectoryAndPhase"))
)


def test_a_digest_is_12_hex_characters_of_a_sha_256_over_its_four_parts() -> None:
    expected = sha256(b"bench:2:7:trace").hexdigest()[:12]
    assert digest("bench", recycle_pass=2, trajectory_index=7, trace="trace") == expected


@given(NUMBERS, NUMBERS, NUMBERS, NUMBERS)
def test_digests_differ_unless_replay_and_trajectory_are_the_same(
    one_pass: int, one: int, other_pass: int, other: int
) -> None:
    first = digest("b", recycle_pass=one_pass, trajectory_index=one, trace=trace_id(0, one))
    second = digest("b", recycle_pass=other_pass, trajectory_index=other, trace=trace_id(0, other))
    assert (first == second) == ((one_pass, one) == (other_pass, other))


@pytest.mark.parametrize(
    "other",
    [
        replace(ORDER, run_uid="created again"),
        replace(ORDER, cell=1),
        replace(ORDER, trial=1),
        replace(ORDER, attempt=2),
    ],
)
def test_every_measurement_has_digests_of_its_own(other: WorkOrder) -> None:
    assert benchmark_id(other, PROFILING) != benchmark_id(ORDER, PROFILING)


def test_the_scope_decides_whether_phases_have_the_same_digests() -> None:
    assert benchmark_id(ORDER, WARMUP) == benchmark_id(ORDER, PROFILING)
    assert benchmark_id(BOTH, WARMUP) != benchmark_id(BOTH, PROFILING)


def test_a_name_in_a_run_says_nothing_of_its_digests() -> None:
    assert benchmark_id(replace(ORDER, run="other"), WARMUP) == benchmark_id(ORDER, WARMUP)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place.SYSTEM_START, "[rid:a3f9b2c1d4e5]\n\n"),
        (Place.TURN_START, "[rid:a3f9b2c1d4e5]\n\n"),
        (Place.SYSTEM_END, "\n\n[rid:a3f9b2c1d4e5]"),
        (Place.TURN_END, "\n\n[rid:a3f9b2c1d4e5]"),
    ],
)
def test_a_blank_line_parts_the_marker_from_the_text(place: Place, text: str) -> None:
    assert Marker(kind=MarkerKind.RID, place=place).text("a3f9b2c1d4e5") == text


@pytest.mark.parametrize("target", ISOLATION_TARGETS)
def test_the_marker_of_a_warm_up_is_constant_and_absent_from_profiling(target: str) -> None:
    marker = marker_of(CacheBustOrder(target=target), has_system=True)  # type: ignore[arg-type]
    assert marker is not None
    assert marker.text("a3f9b2c1d4e5") == "[warmup]\n\n"
    assert (marker.stands_in("warmup"), marker.stands_in("profiling")) == (True, False)


def test_no_target_means_no_marker() -> None:
    assert marker_of(CacheBustOrder(), has_system=True) is None


def test_an_unknown_target_has_no_place() -> None:
    with pytest.raises(ValueError, match="no target with a marker"):
        landing("none", has_system=True)
