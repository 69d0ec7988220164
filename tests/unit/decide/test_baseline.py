"""The verdict against a baseline: when it is made, what it is when none can be, and who is told."""

from __future__ import annotations

from typing import Any

import pytest

from support.world import World, manifest
from tare.api.reasons import CellState, ConditionType, Reason, RunPhase
from tare.cli.exits import Exit, exit_of
from tare.decide.actions import Event
from tare.decide.facts import BaselineVerdict, Op, OpKind

COMPARE = Op(OpKind.COMPARE)
WORSE = BaselineVerdict(
    regression=True, reason=Reason.REGRESSION, message="Regression: concurrency=4 (+80 %)."
)
OPEN = BaselineVerdict(
    regression=None, reason=Reason.NOT_CONCLUSIVE, message="Not conclusive: concurrency=4."
)


def world(**spec: Any) -> World:
    return World(manifest(baseline={"run": "before"}, **spec))


def said(world: World) -> tuple[str, str, str]:
    """Status, reason and message of the condition."""
    [found] = [c for c in world.status["conditions"] if c["type"] == ConditionType.NO_REGRESSION]
    return found["status"], found["reason"], found["message"]


def told_to_the_end(world: World) -> list[Event]:
    events: list[Event] = []
    while world.step() | world.finish_ops() | world.move_workers():
        events += world.decision.events if world.decision else ()
    return list(dict.fromkeys(events))


def test_a_run_says_from_the_start_that_it_will_be_compared_and_with_which() -> None:
    run = world()
    run.step()
    text = "compared with before when every cell is measured"
    assert said(run) == ("Unknown", "Running", text)


@pytest.mark.parametrize(
    ("found", "status", "summary", "code"),
    [
        (WORSE, "False", "Found", Exit.REGRESSION),
        (OPEN, "Unknown", "Unknown", Exit.NOT_CONCLUSIVE),
        (None, "True", "NotFound", Exit.OK),
    ],
)
def test_the_verdict_is_a_condition_a_word_of_the_summary_and_the_exit_code(
    found: BaselineVerdict | None, status: str, summary: str, code: Exit
) -> None:
    run = world()
    if found is not None:
        run.fail[OpKind.COMPARE] = found
    run.settle()
    assert said(run)[0] == status
    assert found is None or said(run)[1:] == (found.reason, found.message)
    assert run.status["summary"]["regression"] == summary
    assert run.status["phase"] == RunPhase.SUCCEEDED
    assert exit_of(run.status) is code


@pytest.mark.parametrize(("found", "warning"), [(WORSE, True), (OPEN, False)])
def test_the_verdict_is_told_once_whatever_it_is(found: BaselineVerdict, *, warning: bool) -> None:
    run = world()
    run.fail[OpKind.COMPARE] = found
    told = [event for event in told_to_the_end(run) if event.reason == found.reason]
    assert told == [Event(reason=found.reason, message=found.message, warning=warning)]


def test_a_run_without_a_baseline_says_nothing_of_it() -> None:
    run = World(manifest())
    run.settle()
    assert ConditionType.NO_REGRESSION not in {c["type"] for c in run.status["conditions"]}
    assert "regression" not in run.status.get("summary", {})
    assert COMPARE not in run.ops


def test_what_was_measured_is_stored_before_it_is_compared() -> None:
    run = world()
    run.go_on_until(lambda world: COMPARE in world.ops)
    assert run.summary_stored
    assert len(run.records) == 2
    assert not run.finished


def test_an_operator_killed_while_it_compares_compares_again() -> None:
    run = world()
    run.fail[OpKind.COMPARE] = WORSE
    run.go_on_until(lambda world: COMPARE in world.ops)
    run.crash()
    run.settle()
    assert said(run) == ("False", "Regression", WORSE.message)


def test_a_cancelled_run_is_not_compared() -> None:
    run = world()
    run.go_on_until(lambda world: world.records)
    run.patch_spec(cancel=True)
    told = told_to_the_end(run)
    text = "not compared with before: cancelled by spec.cancel; results so far are kept"
    assert said(run) == ("Unknown", "Cancelled", text)
    assert COMPARE not in run.ops
    assert [event.reason for event in told].count("Cancelled") == 1, "the end is told, not this"


def test_a_run_that_failed_is_not_compared() -> None:
    run = world(activeDeadlineSeconds=60)
    run.go_on_until(lambda world: world.records)
    run.now += 100
    run.settle()
    assert run.status["phase"] == RunPhase.FAILED
    text = "not compared with before: activeDeadlineSeconds 60 is over"
    assert said(run) == ("Unknown", "DeadlineExceeded", text)


def test_a_run_of_which_some_cells_failed_is_compared_by_the_others() -> None:
    run = world()
    run.fail[OpKind.COMPARE] = WORSE
    run.go_on_until(lambda world: world.records)
    for _ in range(40):
        run.lose_worker()
        run.step()
        run.finish_ops()
        run.move_workers()
    run.settle()
    states = [row["state"] for row in run.status["cells"]]
    assert sorted(states) == sorted([CellState.MEASURED, CellState.INVALID])
    assert run.status["phase"] == RunPhase.PARTIALLY_FAILED
    assert said(run)[:2] == ("False", "Regression")
