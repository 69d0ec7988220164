from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.measured import histogram, phase_result, worker_result
from tare.measure.histogram import Histogram
from tare.measure.merge import merge_phase, merge_phases, merge_processes, merge_progress
from tare.measure.messages import Progress
from tare.measure.rows import Rows

if TYPE_CHECKING:
    from typing import Any

    from tare.measure.messages import PhaseResult


def _rows(numbers: set[int]) -> dict[str, Any]:
    rows = Rows(8)
    column = sorted(numbers)
    rows.add_all([*[column] * 8, [0] * len(column)])
    return rows.to_json()


KEYS = st.sampled_from(["a", "b", "c"])
COUNTS = st.dictionaries(KEYS, st.integers(0, 1000))
SECONDS = st.floats(0, 100)

RESULTS = st.builds(
    phase_result,
    planned_seconds=st.none() | SECONDS,
    seconds=SECONDS,
    drain_seconds=SECONDS,
    counts=COUNTS,
    errors=COUNTS,
    error_samples=st.dictionaries(KEYS, st.text(max_size=5)),
    token_sources=COUNTS,
    endpoints=COUNTS,
    histograms=st.dictionaries(KEYS, st.lists(st.integers(0, 10**12), max_size=30).map(histogram)),
    connections_opened=st.integers(0, 9),
    first_cached_tokens=st.none() | st.integers(0, 999),
    rows=st.just({}) | st.sets(st.integers(0, 99), max_size=20).map(_rows),
    start_skew=SECONDS,
)


@settings(deadline=None)
@given(RESULTS, RESULTS)
def test_merging_is_commutative(one: PhaseResult, two: PhaseResult) -> None:
    assert merge_phase([one, two]) == merge_phase([two, one])


@settings(deadline=None)
@given(RESULTS, RESULTS, RESULTS)
def test_merging_is_associative(one: PhaseResult, two: PhaseResult, three: PhaseResult) -> None:
    left = merge_phase([merge_phase([one, two]), three])

    assert left == merge_phase([one, merge_phase([two, three])]) == merge_phase([one, two, three])


def test_counts_add_and_times_are_those_of_the_slowest_worker() -> None:
    merged = merge_phase(
        [
            phase_result(seconds=9.0, drain_seconds=2.0, counts={"ok": 3}, errors={"http_500": 1}),
            phase_result(seconds=10.0, drain_seconds=1.0, counts={"ok": 4, "failed": 2}),
        ]
    )

    assert (merged.seconds, merged.drain_seconds) == (10.0, 2.0)
    assert merged.counts == {"failed": 2, "ok": 7}
    assert merged.errors == {"http_500": 1}


def test_the_warmest_first_request_is_the_one_that_is_kept() -> None:
    parts = [phase_result(first_cached_tokens=cached) for cached in (None, 0, 96)]

    assert merge_phase(parts).first_cached_tokens == 96


def test_phases_are_merged_by_name_also_when_a_worker_was_stopped_early() -> None:
    warmup = phase_result(name="warmup", kind="warmup", counts={"ok": 1})
    profiling = phase_result(counts={"ok": 10})

    phases = merge_phases(
        [worker_result(warmup, index=1, complete=False), worker_result(warmup, profiling)]
    )

    assert [(phase.name, phase.counts) for phase in phases] == [
        ("warmup", {"ok": 2}),
        ("profiling", {"ok": 10}),
    ]


def test_results_of_different_phases_do_not_merge() -> None:
    with pytest.raises(ValueError, match="different phases"):
        merge_phase([phase_result(), phase_result(kind="warmup")])


def test_processes_of_a_worker_become_its_result() -> None:
    calm, busy = histogram([1] * 99), histogram([1, 50, 50])
    parts = [
        worker_result(
            phase_result(counts={"ok": 3}), index=7, event_loop_lag=calm, cpu_seconds=1.0
        ),
        worker_result(
            phase_result(counts={"ok": 4}),
            index=8,
            event_loop_lag=busy,
            cpu_seconds=2.0,
            gc_pauses=histogram([9]),
        ),
    ]
    worker = worker_result(index=3).worker

    merged = merge_processes(worker, parts)

    assert (merged.worker, merged.complete, merged.cpu_seconds) == (worker, True, 3.0)
    assert merged.phases[0].counts == {"ok": 7}
    assert merged.event_loop_lag == busy
    assert Histogram.from_json(merged.gc_pauses).maximum == 9


def test_one_process_that_was_stopped_makes_its_worker_incomplete() -> None:
    parts = [worker_result(phase_result()), worker_result(phase_result(), complete=False)]

    assert not merge_processes(parts[0].worker, parts).complete


def test_progress_of_processes_adds_up() -> None:
    def progress(ok: int, lag: float) -> Progress:
        return Progress(
            worker=worker_result().worker,
            phase=1,
            elapsed=2.0 + lag,
            issued=ok + 1,
            ok=ok,
            failed=0,
            in_flight=1,
            output_tokens=10 * ok,
            time_to_first_token=histogram([ok]),
            event_loop_lag=lag,
        )

    merged = merge_progress(worker_result(index=5).worker, [progress(3, 0.1), progress(4, 0.2)])

    assert (merged.worker.index, merged.phase, merged.elapsed) == (5, 1, 2.2)
    assert (merged.issued, merged.ok, merged.in_flight, merged.output_tokens) == (9, 7, 2, 70)
    assert Histogram.from_json(merged.time_to_first_token).count == 2
    assert merged.event_loop_lag == 0.2
