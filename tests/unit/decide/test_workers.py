"""Workers that come late, never, or not for long; Jobs that are refused, queued or taken back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.summaries import measured
from support.world import World, manifest
from tare.api.reasons import CellState, Reason, RunPhase
from tare.decide.actions import CreateJob, Decision, TakeBack
from tare.decide.ahead import PATIENCE
from tare.decide.children import JobView, PodView, TrialKey
from tare.decide.decision import decide
from tare.decide.facts import Facts, WorkerView
from tare.decide.workers import SILENCE_LIMIT
from tare.measure.messages import WorkerState

FIRST, SECOND = TrialKey(0, 0, 1), TrialKey(1, 0, 1)
QUOTA = "exceeded quota: compute, requested: count/jobs.batch=1, limited: count/jobs.batch=1"


def at_spawn(**spec: Any) -> World:
    """The target is ready, and the first Job was asked for."""
    world = World(manifest(**spec))
    world.step()
    world.step()
    world.finish_ops()
    world.step()
    assert world.run.attempt is not None
    assert world.run.attempt.spawned == world.now
    return world


def at_prestart() -> World:
    """The workers of the first trial have registered, those of the second are awaited."""
    world = at_spawn()
    world.move_workers()
    world.step()
    assert SECOND in world.jobs
    assert SECOND not in world.workers
    return world


def next_pass(world: World, **facts: Any) -> Decision:
    """What would be decided if some facts were others."""
    return decide(world.run, replace(world._facts(), **facts), world.status)


def condition(decision: Decision, kind: str) -> dict[str, Any]:
    return next(dict(c) for c in decision.status["conditions"] if c["type"] == kind)


def verdict(decision: Decision) -> dict[str, Any]:
    found: dict[str, Any] = decision.status["current"]["verdict"]
    return found


def worker(index: int = 0, **fields: Any) -> WorkerView:
    name = f"run-0-0-1-{index}"
    defaults: dict[str, Any] = {
        "index": index,
        "pod_uid": name,
        "pod_name": name,
        "state": WorkerState.WAITING,
        "phase": -1,
        "silent": 0.0,
    }
    return WorkerView(**{**defaults, **fields})


def registered(**first: Any) -> dict[TrialKey, dict[int, WorkerView]]:
    return {FIRST: {0: worker(0, **first), 1: worker(1)}}


def pod(index: int = 0, **fields: Any) -> PodView:
    name = f"run-0-0-1-{index}"
    return PodView(**{"name": name, "uid": name, "key": FIRST, "index": index, **fields})


# Absence


def test_while_workers_are_missing_the_first_pod_that_knows_says_why() -> None:
    world = at_spawn()
    trouble = pod(1, trouble=Reason.UNSCHEDULABLE, message="0/1 nodes: Insufficient cpu")
    decision = next_pass(world, pods=(pod(0), trouble), workers={FIRST: {0: worker()}})
    found = condition(decision, "WorkersReady")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["message"] == (
        "1 of 2 workers registered: run-0-0-1-1: 0/1 nodes: Insufficient cpu"
    )


def test_without_any_pod_the_jobs_events_say_why() -> None:
    decision = next_pass(at_spawn(), job_trouble=f"Error creating: {QUOTA}")
    assert condition(decision, "WorkersReady")["reason"] == Reason.QUOTA_EXCEEDED
    assert QUOTA in condition(decision, "WorkersReady")["message"]


def test_the_start_deadline_is_over_after_its_seconds_and_not_before() -> None:
    world = at_spawn(workers={"replicas": 2, "startTimeoutSeconds": 60})
    assert "verdict" not in next_pass(world, now=world.now + 59.9).status["current"]
    late = verdict(next_pass(world, now=world.now + 60))
    assert (late["state"], late["reason"], late["fatal"]) == ("Failed", "WorkersNotReady", True)
    assert late["message"] == "0 of 2 workers registered within 60 s"


def test_workers_that_are_late_after_something_was_measured_cost_only_their_cell() -> None:
    world = at_spawn()
    decision = next_pass(world, now=world.now + 301, records={(1, 0): measured(1)})
    assert verdict(decision)["reason"] == Reason.WORKERS_NOT_READY
    assert not verdict(decision)["fatal"]


def test_a_queued_job_waits_without_a_deadline_and_says_so() -> None:
    world = at_spawn(queueName="gpu", workers={"replicas": 2})
    queued = {FIRST: replace(world.jobs[FIRST], suspended=True)}
    decision = next_pass(world, jobs=queued, now=world.now + 86_400)
    assert condition(decision, "WorkersReady")["reason"] == Reason.QUEUED
    assert "verdict" not in decision.status["current"]


def test_an_admitted_job_has_its_whole_start_time_however_long_it_was_queued() -> None:
    world = at_spawn(queueName="gpu", workers={"replicas": 2})
    admitted = world.now + 86_400
    jobs = {FIRST: replace(world.jobs[FIRST], started=admitted)}
    assert "verdict" not in next_pass(world, jobs=jobs, now=admitted + 299).status["current"]
    assert "verdict" in next_pass(world, jobs=jobs, now=admitted + 300).status["current"]


def test_a_job_that_waits_in_a_queue_has_no_next_one_beside_it() -> None:
    world = at_spawn(queueName="gpu", workers={"replicas": 2})
    world.move_workers()
    world.step()
    assert SECOND not in world.jobs


# Refusal


def test_a_job_that_no_policy_admits_fails_its_attempt_at_once() -> None:
    refused = {FIRST: "admission webhook denied the request: no limits"}
    found = verdict(next_pass(at_spawn(), jobs={}, jobs_refused=refused))
    assert (found["reason"], found["fatal"]) == (Reason.WORKERS_NOT_READY, True)
    assert found["message"] == "Job refused: admission webhook denied the request: no limits"


def test_a_job_without_room_in_a_quota_is_tried_until_the_deadline() -> None:
    """The quota may still count an earlier Job that is going."""
    world = at_spawn()
    refused: dict[str, Any] = {"jobs": {}, "jobs_refused": {FIRST: QUOTA}}
    decision = next_pass(world, now=world.now + 299, **refused)
    assert CreateJob(FIRST) in decision.actions
    assert condition(decision, "WorkersReady")["reason"] == Reason.QUOTA_EXCEEDED
    assert "verdict" not in decision.status["current"]
    late = verdict(next_pass(world, now=world.now + 300, **refused))
    assert late["reason"] == Reason.QUOTA_EXCEEDED
    assert late["message"].endswith(f"within 300 s: Job refused: {QUOTA}")


def test_the_refusal_of_an_earlier_job_does_not_fail_this_one() -> None:
    world = at_spawn()
    decision = next_pass(world, jobs={}, jobs_refused={TrialKey(5, 0, 1): QUOTA})
    assert "verdict" not in decision.status["current"]
    assert CreateJob(FIRST) in decision.actions


def test_a_next_job_that_is_refused_does_not_hold_this_trial_up() -> None:
    world = at_prestart()
    jobs = {FIRST: world.jobs[FIRST]}
    decision = next_pass(world, jobs=jobs, jobs_refused={SECOND: QUOTA})
    assert CreateJob(SECOND) not in decision.actions
    assert decision.status["progress"]["phase"] == "the reset of the KV cache"


# Loss


@pytest.mark.parametrize(
    ("facts", "reason", "words"),
    [
        pytest.param(
            {"pods": (pod(ended=True, trouble=Reason.OOM_KILLED, message="killed"), pod(1))},
            Reason.OOM_KILLED,
            "worker 0 (run-0-0-1-0): killed",
            id="a pod died",
        ),
        pytest.param(
            {"pods": (pod(ended=True, deleting=True), pod(1))},
            Reason.WORKER_LOST,
            "the pod was deleted or ended without handing in a result",
            id="a pod vanished",
        ),
        pytest.param(
            {"workers": registered(silent=SILENCE_LIMIT + 1)},
            Reason.WORKER_LOST,
            "worker 0 (run-0-0-1-0): silent for 91 s",
            id="a worker is silent",
        ),
        pytest.param(
            {"workers": registered(state=WorkerState.STOPPED)},
            Reason.WORKER_LOST,
            "stopped by a signal",
            id="a worker got SIGTERM",
        ),
        pytest.param(
            {"workers": {FIRST: {1: worker(1)}}, "pods": (pod(ended=True), pod(1))},
            Reason.WORKER_LOST,
            "the pod ended before it registered",
            id="a pod died before it registered",
        ),
        pytest.param(
            {
                "workers": {},
                "jobs": {FIRST: JobView(name="j", uid="j", key=FIRST, failure="FailedIndexes: x")},
            },
            Reason.WORKER_LOST,
            "FailedIndexes: x",
            id="the Job failed",
        ),
        pytest.param(
            {
                "workers": {},
                "jobs": {FIRST: JobView(name="j", uid="j", key=FIRST, deleting=True)},
            },
            Reason.WORKER_LOST,
            "the Job j was deleted",
            id="somebody deleted the Job",
        ),
    ],
)
def test_a_lost_worker_ends_the_attempt_which_is_made_once_more(
    facts: dict[str, Any], reason: Reason, words: str
) -> None:
    world = at_spawn()
    decision = next_pass(world, **{"workers": registered(), **facts})
    found = verdict(decision)
    assert (found["state"], found["reason"], found["again"]) == ("Invalid", reason, True)
    assert words in found["message"]


def test_a_worker_that_handed_in_its_result_may_go() -> None:
    world = at_spawn()
    done = registered(has_result=True, silent=500.0)
    decision = next_pass(world, workers=done, pods=(pod(ended=True), pod(1)))
    assert "verdict" not in decision.status["current"]


def test_a_worker_is_not_lost_at_the_limit_of_silence() -> None:
    decision = next_pass(at_spawn(), workers=registered(silent=SILENCE_LIMIT))
    assert "verdict" not in decision.status["current"]


# Taking back


@pytest.mark.parametrize(
    ("job", "pods", "later"),
    [
        pytest.param({}, {"trouble": Reason.UNSCHEDULABLE}, 1.0, id="its pods find no room"),
        pytest.param({"suspended": True}, {}, 1.0, id="it was put into a queue"),
        pytest.param({"started": 1_000_000.0}, {}, PATIENCE + 1, id="it takes too long"),
    ],
)
def test_next_pods_that_do_not_start_are_taken_back(
    job: dict[str, Any], pods: dict[str, Any], later: float
) -> None:
    world = at_prestart()
    ahead = replace(world.jobs[SECOND], **job)
    waiting = PodView(name="n", uid="n", key=SECOND, index=0, **pods)
    decision = next_pass(
        world,
        now=world.now + later,
        jobs={**world.jobs, SECOND: ahead},
        pods=(*world.pods.values(), waiting),
    )
    assert TakeBack(ahead.name, ahead.uid) in decision.actions


def test_next_pods_get_their_time_however_long_these_workers_took() -> None:
    world = at_prestart()
    world.now += 250
    ahead = replace(world.jobs[SECOND], started=world.now - PATIENCE)
    decision = next_pass(world, jobs={**world.jobs, SECOND: ahead})
    assert not [action for action in decision.actions if isinstance(action, TakeBack)]


def test_after_a_taking_back_the_run_goes_on_without_pods_ahead() -> None:
    world = at_prestart()
    world.pods["n"] = PodView(
        name="n", uid="n", key=SECOND, index=0, trouble=Reason.UNSCHEDULABLE, message="no room"
    )
    world.step()
    assert not world.prestart
    assert SECOND not in world.jobs
    world.pods["n"] = replace(world.pods["n"], ended=True, deleting=True, job="old")
    world.settle()
    assert world.status["phase"] == RunPhase.SUCCEEDED
    assert world.records[1, 0].state is CellState.MEASURED


def test_pods_of_a_job_that_was_taken_back_are_not_this_attempts_workers() -> None:
    world = at_spawn()
    old = pod(0, job="old-uid", ended=True, deleting=True, trouble=Reason.WORKER_LOST)
    jobs = {FIRST: JobView(name="run-0-0-1", uid="new-uid", key=FIRST)}
    mine = pod(1, job="new-uid")
    decision = next_pass(world, jobs=jobs, pods=(old, mine), workers={})
    assert "verdict" not in decision.status["current"]


def test_a_job_of_the_same_name_goes_before_it_is_created_again() -> None:
    world = World()
    world.step()
    world.step()
    world.finish_ops()
    old = JobView(name="run-0-0-1", uid="old", key=FIRST, deleting=True)
    decision = next_pass(world, jobs={FIRST: old})
    assert CreateJob(FIRST) not in decision.actions
    assert decision.status["progress"]["phase"] == "the Job run-0-0-1 to go"
    assert CreateJob(FIRST) in next_pass(world, jobs={}).actions


# Errors of requests


@pytest.mark.parametrize(
    ("issued", "failed", "given_up"), [(100, 20, False), (100, 21, True), (49, 49, False)]
)
def test_a_cell_that_only_fails_is_given_up_after_enough_requests(
    issued: int, failed: int, *, given_up: bool
) -> None:
    world = at_spawn(stopOn={"errorRate": "20%", "afterRequests": 50})
    workers = {FIRST: {0: worker(0, issued=issued, failed=failed), 1: worker(1)}}
    decision = next_pass(world, workers=workers)
    assert ("verdict" in decision.status["current"]) is given_up
    if given_up:
        assert verdict(decision)["reason"] == Reason.TOO_MANY_ERRORS
        assert "21 of 100 requests failed" in verdict(decision)["message"]


def test_facts_without_anything_are_a_run_that_waits_for_its_target() -> None:
    world = World()
    world.step()
    decision = decide(world.run, Facts(now=world.now), world.status)
    assert decision.status["progress"]["phase"] == "the target to be ready"
