"""`status` as a whole: size, progress, phase, summary, and conditions about the results."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any
from uuid import UUID

import orjson
import pytest

from support.measured import cache_verdict, phase_result
from support.summaries import failed, measured
from support.trials import trial_summary
from support.world import REPLICAS, World, manifest
from tare.api.reasons import CellState, Reason, RunPhase
from tare.api.status import ROW_LIMIT
from tare.decide.attempt import (
    Attempt,
    ProfilerMark,
    ProfilerState,
    ResetMark,
    ResetState,
    Verdict,
)
from tare.decide.children import TrialKey
from tare.decide.decision import decide
from tare.decide.facts import Facts, Op, OpKind, OpView, Run, WorkerView
from tare.decide.outcome import goals_of, outcome_of
from tare.measure.concerns import Concern
from tare.measure.hooks import Replica
from tare.measure.messages import WorkerState
from tare.measure.servers import ServerCount, ServerCounts, ServerFact

if TYPE_CHECKING:
    from tare.decide.records import TrialRecord

NOW = 1_796_040_000.0
GOALS = [
    {"metric": "time_to_first_token", "statistic": "p99", "max": "250ms"},
    {"metric": "request_throughput", "min": "3"},
]
SUMMARY_STORED = {Op(OpKind.STORE_SUMMARY): OpView(done=True)}


def sweep(cells: int) -> dict[str, Any]:
    """A grid that ends in long names."""
    rates = {"phases.profiling.concurrency": list(range(1, cells // 5 + 1))}
    return {"grid": {**rates, "dataset.prompts.isl": [128, 512, 1024, 2048, 4096]}}


@cache
def accepted_run(cells: int, trials: int) -> Run:
    run = World(manifest(sweep=sweep(cells), trials={"count": trials}, goals=GOALS)).run
    assert len(run.cells) == cells
    return replace(run, start_time=NOW - 1000)


def run_of_cells(cells: int, *, trials: int = 1, **changes: Any) -> Run:
    return replace(accepted_run(cells, trials), **changes)


def facts_of(run: Run, records: list[TrialRecord], **fields: Any) -> Facts:
    goals = goals_of(run.spec)
    return Facts(
        now=NOW,
        records={(record.cell, record.trial): record for record in records},
        outcomes={
            cell.index: outcome_of(cell, found, goals)
            for cell in run.cells
            if (found := [record for record in records if record.cell == cell.index])
        },
        **fields,
    )


def status_of(run: Run, records: list[TrialRecord], **fields: Any) -> dict[str, Any]:
    stored = {"operator": "tare-operator-7c9d-0", "startTime": "2026-11-30T11:43:20Z"}
    return dict(decide(run, facts_of(run, records, **fields), stored).status)


def condition(status: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(dict(c) for c in status["conditions"] if c["type"] == kind)


def attempt(cell: int = 0, **marks: Any) -> Attempt:
    return Attempt(key=TrialKey(cell, 0, 1), started=NOW, spawned=NOW, replicas=REPLICAS, **marks)


# Size


def stored_object(status: dict[str, Any], cells: int, trials: int) -> bytes:
    document = manifest(sweep=sweep(cells), trials={"count": trials}, goals=GOALS)
    return orjson.dumps({**document, "status": status})


@pytest.mark.parametrize("lost", [0, 60, 500])
def test_b105_500_cells_of_3_trials_stay_below_64_kib_whatever_fails(lost: int) -> None:
    words = '{"error": "' + "CUDA out of memory; " * 5000 + '"}'
    records = [
        replace(failed(cell), message=words[:1024])
        if cell < lost
        else measured(cell, trial, scale=1 + cell / 977 + trial / 71)
        for cell in range(500)
        for trial in range(1 if cell < lost else 3)
    ]
    mark = ResetMark(state=ResetState.UNVERIFIED, message=words)
    running = attempt(499, reset=mark)
    run = run_of_cells(500, trials=3, attempt=running)
    for now, facts in ((run, {}), (replace(run, attempt=None), SUMMARY_STORED)):
        status = status_of(now, records, ops=facts)
        assert len(status["cells"]) == ROW_LIMIT
        assert max(len(orjson.dumps(row)) for row in status["cells"]) <= 400
        assert len(stored_object(status, 500, 3)) < 64 * 1024


MANY_REPLICAS = 24


def test_500_cells_of_3_trials_stay_below_64_kib_with_what_many_servers_told() -> None:
    """A server as talkative as vLLM, at the moment at which both ends are known."""
    big = 123_456_789_012.0
    told = {
        **dict.fromkeys((name.value for name in ServerCount), big),
        ServerFact.STARTED.value: 1_796_040_000.123,
        ServerFact.BLOCK_SIZE.value: 16.0,
        ServerFact.BLOCKS.value: 123_456.0,
        ServerFact.ENGINES.value: 8.0,
        ServerFact.RESTARTS.value: 12.0,
    }
    names = [f"qwen3-8b-decode-7c9d5b7f4-{n:05}" for n in range(MANY_REPLICAS)]
    replicas = tuple(
        Replica(uid=str(UUID(int=n)), name=name, origin="http://10.123.123.123:8000")
        for n, name in enumerate(names)
    )
    servers = tuple(ServerCounts(replica=name, before=told, after=told) for name in names)
    verdict = Verdict(state=CellState.MEASURED, reason=Reason.AS_ASKED, message="", at=NOW)
    mark = ResetMark(state=ResetState.PROVEN, message="x" * 1024)
    running = replace(attempt(499, reset=mark, verdict=verdict), replicas=replicas, servers=servers)
    run = run_of_cells(500, trials=3, attempt=running)
    records = [measured(cell, trial) for cell in range(499) for trial in range(3)]
    status = status_of(run, records)
    assert len(status["current"]["servers"]) == MANY_REPLICAS
    assert len(stored_object(status, 500, 3)) < 64 * 1024


def test_every_message_of_a_status_is_bounded() -> None:
    huge = "x" * 100_000
    run = run_of_cells(5)
    records = [replace(failed(cell), message=huge) for cell in range(5)]
    status = status_of(run, records, ops=SUMMARY_STORED)
    assert status["phase"] == RunPhase.FAILED
    assert max(map(len, texts(status))) <= 1024


def texts(value: Any) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for item in value.values() for text in texts(item)]
        case list():
            return [text for item in value for text in texts(item)]
        case _:
            return []


def test_the_best_the_current_and_the_failed_cells_are_among_the_rows() -> None:
    run = run_of_cells(500, attempt=attempt(400))
    records = [measured(cell, scale=0.5 if cell == 3 else 1.0) for cell in range(390)]
    records += [failed(cell) for cell in range(390, 400)]
    status = status_of(run, records)
    states = {row["index"]: row["state"] for row in status["cells"]}
    assert states[3] == "Measured"
    assert states[400] == "Running"
    assert [states[cell] for cell in range(390, 400)] == ["Failed"] * 10
    assert status["summary"]["bestCell"] == run.cells[3].name


# Progress


def test_progress_counts_cells_and_requests_and_guesses_the_end() -> None:
    run = run_of_cells(10, attempt=attempt(5))
    records = [measured(cell) for cell in range(4)] + [failed(4)]
    here = [worker(0, issued=30), worker(1, issued=12)]
    status = status_of(run, records, workers={TrialKey(5, 0, 1): dict(enumerate(here))})
    assert status["progress"] == {
        "cells": "5/10",
        "cellsDone": 5,
        "cellsTotal": 10,
        "cellsFailed": 1,
        "percent": 50,
        "cell": run.cells[5].name,
        "trial": 0,
        "phase": "the target to be ready",
        "requests": 42,
        "etaSeconds": 1000,
    }


def worker(index: int, *, issued: int) -> WorkerView:
    return WorkerView(
        index=index,
        pod_uid=f"p{index}",
        pod_name=f"w{index}",
        state=WorkerState.RUNNING,
        phase=0,
        silent=0.0,
        issued=issued,
    )


def test_a_clock_that_was_set_back_gives_no_negative_estimate() -> None:
    run = replace(run_of_cells(10), start_time=NOW + 60)
    assert status_of(run, [measured(0)])["progress"]["etaSeconds"] == 0


def test_before_anything_ended_and_at_the_end_there_is_no_estimate() -> None:
    run = run_of_cells(5)
    assert "etaSeconds" not in status_of(run, [])["progress"]
    done = status_of(run, [measured(cell) for cell in range(5)], ops=SUMMARY_STORED)
    assert "etaSeconds" not in done["progress"]
    assert done["progress"]["percent"] == 100


# Phase and end


@pytest.mark.parametrize(
    ("records", "phase", "reason"),
    [
        ([measured(n) for n in range(5)], RunPhase.SUCCEEDED, Reason.ALL_CELLS_MEASURED),
        (
            [measured(n) for n in range(4)] + [failed(4)],
            RunPhase.PARTIALLY_FAILED,
            Reason.CELLS_FAILED,
        ),
        ([failed(n) for n in range(5)], RunPhase.FAILED, Reason.RESET_REFUSED),
    ],
)
def test_the_phase_at_the_end_follows_from_the_cells(
    records: list[TrialRecord], phase: RunPhase, reason: Reason
) -> None:
    status = status_of(run_of_cells(5), records, ops=SUMMARY_STORED)
    assert (status["phase"], status["reason"]) == (phase, reason)
    assert condition(status, "Complete")["status"] == str(phase is RunPhase.SUCCEEDED)
    assert condition(status, "Failed")["status"] == str(phase is not RunPhase.SUCCEEDED)
    assert condition(status, "Finished")["status"] == "True"
    assert status["finishTime"] == "2026-11-30T12:00:00Z"
    assert "current" not in status


def test_the_start_time_is_written_once_and_kept() -> None:
    assert status_of(run_of_cells(5), [measured(0)])["startTime"] == "2026-11-30T11:43:20Z"


@pytest.mark.parametrize(
    ("marks", "records", "phase"),
    [
        ({}, [], RunPhase.PREPARING),
        ({"reset": ResetMark(state=ResetState.OFF)}, [], RunPhase.RUNNING),
        ({}, [measured(1)], RunPhase.RUNNING),
    ],
)
def test_a_run_prepares_until_its_first_reset_and_then_runs(
    marks: dict[str, Any], records: list[TrialRecord], phase: RunPhase
) -> None:
    run = run_of_cells(5, attempt=attempt(0, **marks))
    assert status_of(run, records)["phase"] == phase


def test_cells_that_a_cancelled_run_did_not_reach_are_skipped() -> None:
    run = run_of_cells(5, cancel=True)
    status = status_of(run, [measured(0)], ops=SUMMARY_STORED)
    assert [row["state"] for row in status["cells"]] == ["Measured"] + ["Skipped"] * 4
    assert status["summary"] == {
        "goals": "Unknown",
        "bestCell": run.cells[0].name,
    }
    assert condition(status, "Failed")["status"] == "False"


# Results


def test_results_say_how_to_find_them() -> None:
    status = status_of(run_of_cells(5), [measured(0), measured(1)], summary_name="run-summary-p0")
    assert status["results"] == {
        "selector": "tare.dev/run-uid=run-uid",
        "stored": 2,
        "summary": "run-summary-p0",
    }
    assert "results" not in status_of(run_of_cells(5), [])


def test_goals_are_judged_over_all_cells() -> None:
    run = run_of_cells(5)
    met = status_of(run, [measured(cell) for cell in range(5)])
    assert condition(met, "GoalsMet")["status"] == "True"
    missed = status_of(run, [measured(0, scale=9.0)])
    assert condition(missed, "GoalsMet")["reason"] == Reason.GOALS_MISSED
    assert missed["summary"]["goals"] == "Missed"
    open_ = status_of(run, [measured(0)])
    assert condition(open_, "GoalsMet")["status"] == "Unknown"


def cached(cell: int, reason: Reason, message: str = "", reset: str = "Confirmed") -> TrialRecord:
    summary = replace(trial_summary(), phases=(phase_result(),))
    return measured(cell, reset=reset, summary=summary, cache=cache_verdict(reason, message))


PLANNED, TOO_WARM = Reason.AS_PLANNED, Reason.CONTAMINATED


@pytest.mark.parametrize(
    ("records", "status", "reason", "words"),
    [
        ([cached(0, PLANNED), cached(1, PLANNED)], "True", PLANNED, "every trial found"),
        ([cached(0, PLANNED), cached(1, TOO_WARM, "64 more")], "False", TOO_WARM, "cell 1: 64 mo"),
        (
            [cached(0, Reason.NOT_DECIDABLE, "30% wide"), cached(1, PLANNED)],
            "Unknown",
            Reason.NOT_DECIDABLE,
            "cell 0: 30% wide",
        ),
        (
            [cached(0, Reason.NOT_REPORTED), cached(1, Reason.WARM_CACHE, "9 more", reset="Off")],
            "False",
            Reason.WARM_CACHE,
            "cell 1: 9 more",
        ),
    ],
)
def test_the_cache_condition_is_as_bad_as_the_worst_cell(
    records: list[TrialRecord], status: str, reason: Reason, words: str
) -> None:
    found = condition(status_of(run_of_cells(5), records), "CacheAsPlanned")
    assert (found["status"], found["reason"]) == (status, reason)
    assert words in found["message"]


def test_b71_what_a_reset_left_behind_stands_in_the_condition_with_its_number() -> None:
    text = "qwen-0 took 1024 tokens from it"
    left = replace(cached(1, PLANNED, reset="Incomplete"), reset_message=text)
    status = status_of(run_of_cells(5), [cached(0, TOO_WARM), left])
    found = condition(status, "CacheAsPlanned")
    assert (found["status"], found["reason"]) == ("False", Reason.RESET_INCOMPLETE)
    assert found["message"] == f"cell 1: {text}"


def test_the_row_of_a_cell_says_of_its_cache_only_what_is_not_as_planned() -> None:
    records = [cached(0, PLANNED), cached(1, Reason.SERVER_RESTARTED)]
    status = status_of(run_of_cells(5), records)
    said = [row.get("cache") for row in status["cells"]]
    assert said == [None, "ServerRestarted", None, None, None]


def test_a_concern_of_one_cell_makes_the_measurement_unsound() -> None:
    concern = Concern(reason=Reason.CLIENT_SATURATED, message="event-loop lag p99 is 20 ms")
    worried = measured(1, summary=replace(trial_summary(), concerns=(concern,)))
    found = condition(status_of(run_of_cells(5), [measured(0), worried]), "MeasurementSound")
    assert (found["status"], found["reason"]) == ("False", Reason.CLIENT_SATURATED)
    assert found["message"] == "cell 1: Trial 0: event-loop lag p99 is 20 ms"


def test_one_concern_of_each_kind_is_told_and_the_first_gives_the_reason() -> None:
    def of(cell: int, **messages: str) -> TrialRecord:
        concerns = tuple(Concern(reason=Reason[k], message=text) for k, text in messages.items())
        return measured(cell, summary=replace(trial_summary(), concerns=concerns))

    records = [
        of(0, CLIENT_SATURATED="It lagged."),
        of(1, CLIENT_SATURATED="It lagged again.", UNEVEN_LOAD="qwen-1 got none."),
    ]
    found = condition(status_of(run_of_cells(5), records), "MeasurementSound")
    assert found["reason"] == Reason.CLIENT_SATURATED
    assert found["message"] == "cell 0: Trial 0: It lagged. cell 1: Trial 0: qwen-1 got none."


@pytest.mark.parametrize("state", [CellState.MEASURED, CellState.FAILED])
def test_a_profiler_left_on_makes_it_unsound_also_in_a_lost_cell(state: CellState) -> None:
    left_on = replace(measured(1, profiler_failed=True), state=state)
    found = condition(status_of(run_of_cells(5), [measured(0), left_on]), "MeasurementSound")
    assert (found["status"], found["reason"]) == ("False", Reason.PROFILER_STOP_FAILED)
    assert found["message"] == "cell 1: a server's profiler could not be stopped"


def test_a_profiler_that_does_not_stop_now_is_told_before_its_trial_is_stored() -> None:
    mark = ProfilerMark(
        state=ProfilerState.STOP_FAILED, phase=1, last=1, message="qwen-2 answered 500"
    )
    run = run_of_cells(5, attempt=attempt(1, profiler=mark))
    found = condition(status_of(run, [measured(0)]), "MeasurementSound")
    assert (found["status"], found["message"]) == ("False", "qwen-2 answered 500")
