"""Events: what turned is told once, and what stayed as it was is not told at all."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from support.world import REPLICAS, World, manifest, report
from tare.api.reasons import CellState, ConditionType, Reason
from tare.decide.actions import Event
from tare.decide.events import events
from tare.decide.facts import OpKind, ResetResult
from tare.measure.hooks import HookKind, Replicas


def condition(kind: ConditionType, status: str, reason: str = "R", text: str = "why") -> Any:
    return {"type": str(kind), "status": status, "reason": reason, "message": text}


def conditions(*entries: Any, **status: Any) -> dict[str, Any]:
    return {"conditions": list(entries), **status}


def row(state: CellState, index: int = 0, **fields: Any) -> dict[str, Any]:
    return {"index": index, "name": "rate=4", "state": str(state), **fields}


def attempt(number: int = 1, **verdict: Any) -> dict[str, Any]:
    document: dict[str, Any] = {"cell": 0, "trial": 1, "attempt": number}
    if verdict:
        document["verdict"] = {"reason": "WorkerLost", "message": "died", **verdict}
    return {"current": document}


def told_by(world: World, limit: int = 300) -> list[Event]:
    """Every event of a run, from pass to pass."""
    told: list[Event] = []
    for _ in range(limit):
        moved = world.step()
        told += world.decision.events if moved and world.decision else ()
        if not (moved | world.finish_ops() | world.move_workers()):
            return told
    raise AssertionError(world.status)


def test_a_condition_is_told_when_it_turns_with_its_reason_and_message() -> None:
    after = conditions(condition(ConditionType.TARGET_READY, "True", "TargetReady", "2 replicas"))
    assert events({}, after) == (Event(reason="TargetReady", message="2 replicas"),)
    assert events(after, after) == ()


def test_a_new_message_alone_is_not_told() -> None:
    before = conditions(condition(ConditionType.GOALS_MET, "False", text="cell 0 misses"))
    after = conditions(condition(ConditionType.GOALS_MET, "False", text="cells 0 and 1 miss"))
    assert events(before, after) == ()


def test_unknown_is_not_told_but_what_follows_it_is() -> None:
    unknown = conditions(condition(ConditionType.TARGET_READY, "Unknown"))
    known = conditions(condition(ConditionType.TARGET_READY, "True", text=""))
    assert events({}, unknown) == ()
    assert events(unknown, known) == (Event(reason="R", message="TargetReady is True"),)


@pytest.mark.parametrize(
    "kind", [ConditionType.WORKERS_READY, ConditionType.PROFILING, ConditionType.RESULTS_PUBLISHED]
)
def test_conditions_that_turn_with_every_trial_are_not_told(kind: ConditionType) -> None:
    assert events({}, conditions(condition(kind, "True"))) == ()


@pytest.mark.parametrize(
    ("kind", "status", "warning"),
    [
        (ConditionType.ACCEPTED, "True", False),
        (ConditionType.ACCEPTED, "False", True),
        (ConditionType.TARGET_READY, "False", True),
        (ConditionType.MEASUREMENT_SOUND, "False", True),
        (ConditionType.CACHE_AS_PLANNED, "False", True),
        (ConditionType.GOALS_MET, "False", True),
        (ConditionType.SUSPENDED, "True", True),
        (ConditionType.SUSPENDED, "False", False),
        (ConditionType.SPEC_CHANGE_IGNORED, "True", True),
    ],
)
def test_bad_news_is_a_warning(kind: ConditionType, status: str, *, warning: bool) -> None:
    [event] = events({}, conditions(condition(kind, status)))
    assert event.warning is warning


@pytest.mark.parametrize(
    ("phase", "warning"),
    [("Succeeded", False), ("Cancelled", False), ("PartiallyFailed", True), ("Failed", True)],
)
def test_the_end_is_a_warning_when_something_failed(phase: str, *, warning: bool) -> None:
    [event] = events({}, conditions(condition(ConditionType.FINISHED, "True"), phase=phase))
    assert event.warning is warning


def test_a_measured_cell_is_told_with_its_headlines() -> None:
    metrics = {
        "time_to_first_token_p50": "0.09 ±0.001",
        "time_to_first_token_p99": "0.2",
        "request_latency_p99": "2.0",
        "request_throughput": "12.5",
        "error_rate": "0.02",
    }
    done = row(CellState.MEASURED, metrics=metrics, goals="Met")
    [event] = events({"cells": [row(CellState.RUNNING)]}, {"cells": [done]})
    assert event == Event(
        reason="CellMeasured",
        message="cell 0 (rate=4): TTFT p50 90 ms, p99 200 ms, latency p99 2000 ms, "
        "12.5 req/s, goals met",
    )
    assert events({"cells": [done]}, {"cells": [done]}) == ()


@pytest.mark.parametrize("state", [CellState.FAILED, CellState.INVALID])
def test_a_lost_cell_is_told_with_its_reason(state: CellState) -> None:
    lost = row(state, reason="ResetRefused", message="qwen-1 answered 404")
    [event] = events({"cells": [row(CellState.RUNNING)]}, {"cells": [lost]})
    assert event == Event(
        reason="CellFailed",
        message="cell 0 (rate=4): ResetRefused: qwen-1 answered 404",
        warning=True,
    )


@pytest.mark.parametrize("state", [CellState.PENDING, CellState.RUNNING, CellState.SKIPPED])
def test_a_cell_without_an_end_is_not_told(state: CellState) -> None:
    assert events({}, {"cells": [row(state)]}) == ()


def test_a_trial_that_is_repeated_is_told_once() -> None:
    repeated = attempt(again=True)
    [event] = events(attempt(), repeated)
    assert event == Event(
        reason="WorkerLost", message="cell 0 trial 1 is repeated: died", warning=True
    )
    assert events(repeated, repeated) == ()
    assert events(repeated, attempt(2)) == ()


def test_a_final_verdict_is_told_by_its_cell_and_not_twice() -> None:
    assert events(attempt(), attempt(again=False)) == ()


def test_a_run_that_goes_well_tells_each_thing_once() -> None:
    told = told_by(World(manifest(trials={"count": 2})))
    assert Counter(event.reason for event in told) == {
        Reason.ACCEPTED: 1,
        Reason.TARGET_READY: 1,
        Reason.AS_PLANNED: 1,
        "CellMeasured": 2,
        Reason.ALL_CELLS_MEASURED: 1,
    }
    assert not any(event.warning for event in told)


def test_the_loss_of_every_worker_is_told_though_none_has_to_be_stopped() -> None:
    world = World(manifest(sweep=None))
    while not world.opened:
        world.step()
        world.finish_ops()
        world.move_workers()
    world.pods = {
        uid: replace(pod, ended=True, trouble=Reason.OOM_KILLED, message="killed")
        for uid, pod in world.pods.items()
    }
    repeated = [event for event in told_by(world) if "is repeated" in event.message]
    assert [event.reason for event in repeated] == [Reason.OOM_KILLED]
    assert world.records[0, 0].attempt == 2


def test_a_refused_reset_is_told_as_a_failed_cell_and_a_failed_run() -> None:
    world = World(manifest(sweep=None))
    world.fail[OpKind.RESET] = ResetResult(
        replicas=Replicas(ready=REPLICAS),
        report=report(HookKind.RESET, ok=False, reason=Reason.RESET_REFUSED),
    )
    warnings = [event for event in told_by(world) if event.warning]
    assert [event.reason for event in warnings] == ["CellFailed", Reason.RESET_REFUSED]
    assert warnings[-1].message.startswith("Failed: 1 of 1 cells failed")


def test_suspending_and_resuming_is_told_once_each() -> None:
    world = World(manifest(sweep=None, suspend=True))
    suspended = told_by(world)
    world.patch_spec(suspend=False)
    resumed = told_by(world)
    assert [e.reason for e in suspended] == [Reason.ACCEPTED, Reason.SUSPENDED]
    assert [e.reason for e in resumed if "Suspended" in e.message] == [Reason.RESUMED]


def test_a_profiler_that_could_not_be_stopped_is_told_with_the_servers_name() -> None:
    """Also when an earlier cell is sound: the news must not be drowned by it."""
    world = World()
    while (0, 0) not in world.records:
        world.step()
        world.finish_ops()
        world.move_workers()
    world.fail[OpKind.PROFILER_STOP] = report(
        HookKind.PROFILER_STOP, ok=False, reason=Reason.PROFILER_STOP_FAILED
    )
    told = [event for event in told_by(world) if event.reason == Reason.PROFILER_STOP_FAILED]
    assert len(told) == 1
    assert told[0].message == "profiler-stop: qwen-2 answered 500"
