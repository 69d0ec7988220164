"""Pods of the trials to come: in batches, while nothing is measured, and not too many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.decided import Worker
from support.world import World, manifest
from tare.api.reasons import Reason, RunPhase
from tare.decide.actions import TakeBack
from tare.decide.children import PodView, TrialKey
from tare.decide.decision import decide
from tare.measure.messages import WorkerState

if TYPE_CHECKING:
    from collections.abc import Callable


def trials(count: int, **spec: Any) -> World:
    """One cell, so many trials, a profiling phase only."""
    phase = manifest()["spec"]["phases"][1]
    return World(manifest(sweep=None, phases=[phase], trials={"count": count}, **spec))


def numbers(world: World) -> list[int]:
    """The trials that have a Job."""
    return sorted(key.trial for key in world.jobs)


def everybody(key: TrialKey, replicas: int) -> dict[int, Worker]:
    """All workers of a trial."""
    return {index: Worker(pod=f"{key.trial}-{index}") for index in range(replicas)}


def measuring(trial: int) -> Callable[[World], bool]:
    """Whether the load of a trial is on its way."""

    def holds(world: World) -> bool:
        workers = world.workers.get(TrialKey(0, trial, 1), {})
        return any(worker.state is WorkerState.RUNNING for worker in workers.values())

    return holds


def test_pods_start_in_batches_and_most_trials_start_none() -> None:
    world = trials(12)
    seen = []
    for trial in range(12):
        world.go_on_until(measuring(trial))
        seen.append(numbers(world))
    assert seen[0] == [0, 1, 2, 3, 4]
    assert seen[3] == [3, 4], "nothing is started as long as the next trial's pods wait"
    assert seen[4] == [4, 5, 6, 7, 8]
    assert seen[8] == [8, 9, 10, 11]
    assert seen[11] == [11]
    world.settle()
    assert world.status["phase"] == RunPhase.SUCCEEDED
    assert {record.attempt for record in world.records.values()} == {1}


def test_no_gate_opens_while_a_pod_of_the_batch_is_starting() -> None:
    world = trials(4)
    world.go_on_until(lambda world: len(world.jobs) == 4)
    world.move_workers()
    late = TrialKey(0, 3, 1)
    facts = world._facts()
    workers = {key: found for key, found in facts.workers.items() if key != late}
    decision = decide(world.run, replace(facts, workers=workers), world.status)
    assert decision.status["progress"]["phase"] == "the next trials' workers to start"
    assert decision.commands == {}


@pytest.mark.parametrize(
    ("workers", "ahead"),
    [
        pytest.param({"replicas": 2}, 4, id="eight pods wait"),
        pytest.param({"replicas": 3}, 2, id="no more than eight"),
        pytest.param({"replicas": 20}, 1, id="one trial's may be more"),
        pytest.param(
            {"replicas": 1, "resources": {"requests": {"cpu": 1}}}, 1, id="they hold resources"
        ),
        pytest.param({"replicas": 1, "prestart": False}, 0, id="none were asked for"),
    ],
)
def test_how_many_trials_have_pods_ahead(workers: dict[str, Any], ahead: int) -> None:
    world = trials(12, workers=workers)
    asked: set[int] = set()
    world.step()
    world.finish_ops()
    for _ in range(3):
        world.step()
        asked |= {key.trial for key in world.jobs}
        registered = [key for key in world.jobs if key.trial == 0]
        world.workers |= {key: everybody(key, workers["replicas"]) for key in registered}
    assert asked == set(range(ahead + 1))


def test_when_the_pods_of_one_trial_find_no_room_all_are_taken_back() -> None:
    world = trials(6)
    world.go_on_until(lambda world: len(world.jobs) == 5)
    stuck = PodView(name="n", uid="n", key=TrialKey(0, 4, 1), index=0, trouble=Reason.UNSCHEDULABLE)
    facts = world._facts()
    decision = decide(world.run, replace(facts, pods=(*facts.pods, stuck)), world.status)
    taken = {action.name for action in decision.actions if isinstance(action, TakeBack)}
    assert taken == {job.name for key, job in world.jobs.items() if key.trial > 0}


def test_a_batch_survives_a_restart_of_the_operator() -> None:
    world = trials(6)
    world.go_on_until(measuring(1))
    before = numbers(world)
    world.crash()
    world.settle()
    assert before == [1, 2, 3, 4]
    assert {record.attempt for record in world.records.values()} == {1}


def test_a_trial_whose_pods_wait_begins_as_one_that_asked_for_them() -> None:
    """Else its status would be written once more between two cells."""
    world = trials(3)
    world.go_on_until(lambda world: world.run.attempt and world.run.attempt.key.trial == 1)
    assert world.run.attempt is not None
    assert world.run.attempt.spawned == world.run.attempt.started
