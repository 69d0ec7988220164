"""What an operator does that finds a run under way: its workers have not spoken to it yet."""

from __future__ import annotations

from dataclasses import replace

from support.world import REPLICAS, World, manifest, report
from tare.api.reasons import CellState, Reason, RunPhase
from tare.decide.children import TrialKey
from tare.decide.facts import OpKind, ResetResult
from tare.measure.hooks import HookKind, Replicas
from tare.measure.messages import WorkerState

REFUSED = ResetResult(
    replicas=Replicas(ready=REPLICAS),
    report=report(HookKind.RESET, ok=False, reason=Reason.RESET_REFUSED),
)
FIRST, SECOND = TrialKey(0, 0, 1), TrialKey(1, 0, 1)


def has_verdict(world: World) -> bool:
    return "verdict" in world.status.get("current", {})


def is_profiling(world: World) -> bool:
    workers = world.workers.get(FIRST, {}).values()
    return any(w.state is WorkerState.RUNNING and w.phase == 1 for w in workers)


def is_starting_the_profiler(world: World) -> bool:
    return any(op.kind is OpKind.PROFILER_START and not v.done for op, v in world.ops.items())


def test_a_profiler_whose_start_was_interrupted_is_stopped_and_the_trial_repeated() -> None:
    world = World(manifest(sweep=None))
    world.go_on_until(is_starting_the_profiler)
    world.crash_in_operations()
    assert world.profiler_on
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].state is CellState.MEASURED
    assert (world.starts, world.stops) == (2, 2)


def test_results_that_were_not_stored_before_a_crash_are_waited_for_and_stored() -> None:
    world = World(manifest(sweep=None))
    world.go_on_until(has_verdict)
    world.crash()
    world.settle()
    assert world.records[0, 0].attempt == 1
    assert world.records[0, 0].summary is not None
    assert world.status["phase"] == RunPhase.SUCCEEDED


def test_a_result_that_died_with_its_worker_before_it_was_stored_repeats_the_trial() -> None:
    world = World(manifest(sweep=None))
    world.go_on_until(has_verdict)
    world.crash()
    world.end_pod(world.workers[FIRST][0].pod)
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].summary is not None
    assert world.status["phase"] == RunPhase.SUCCEEDED


def test_workers_get_their_time_to_register_again_after_a_restart() -> None:
    world = World(manifest(sweep=None))
    world.go_on_until(is_profiling)
    world.now += 3600
    world.crash()
    world.settle()
    assert world.records[0, 0].attempt == 1
    assert world.records[0, 0].state is CellState.MEASURED


def test_workers_that_stay_silent_after_a_restart_are_given_up() -> None:
    world = World(manifest(sweep=None))
    world.go_on_until(is_profiling)
    world.crash()
    world.step()
    world.now += 301
    world.step()
    assert world.status["current"]["verdict"]["reason"] == Reason.WORKERS_NOT_READY


def test_a_job_that_was_deleted_meanwhile_costs_the_attempt_and_is_not_created_again() -> None:
    world = World(manifest(sweep=None))
    world.go_on_until(is_profiling)
    world.crash()
    world.delete_job()
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].state is CellState.MEASURED
    assert len([pod for pod in world.pods.values() if pod.key == FIRST]) == 2


def test_workers_of_a_job_that_was_deleted_do_not_hold_up_the_end_of_the_attempt() -> None:
    """Its successor's pods find their places taken and die; nobody can send anything any more."""
    world = World(manifest(sweep=None))
    world.go_on_until(lambda world: FIRST in world.workers)
    world.delete_job()
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].state is CellState.MEASURED


def test_suspending_forgets_the_next_trials_workers_so_that_it_starts_afresh() -> None:
    world = World()
    world.go_on_until(is_profiling)
    assert SECOND in world.workers
    world.patch_spec(suspend=True)
    world.settle()
    assert world.status["phase"] == RunPhase.SUSPENDED
    assert not world.jobs
    world.patch_spec(suspend=False)
    world.settle()
    assert {key: r.attempt for key, r in world.records.items()} == {(0, 0): 2, (1, 0): 1}
    assert world.prestart, "no pods had to be taken back"


def test_workers_that_say_goodbye_to_a_new_operator_do_not_pass_for_those_of_the_next_job() -> None:
    """Their Job was deleted when the run was suspended; the operator died, and the run goes on."""
    world = World()
    world.go_on_until(is_profiling)
    leaving = world.workers[SECOND]
    world.patch_spec(suspend=True)
    world.settle()
    world.crash()
    for worker in leaving.values():
        world.pods[worker.pod] = replace(world.pods[worker.pod], ended=False, deleting=True)
        worker.state, worker.heard = WorkerState.STOPPED, True
    world.workers[SECOND] = leaving
    world.patch_spec(suspend=False)
    world.step()
    for worker in leaving.values():
        world.end_pod(worker.pod)
    world.settle()
    assert {key: r.attempt for key, r in world.records.items()} == {(0, 0): 2, (1, 0): 1}


def test_no_pods_are_started_ahead_for_a_cell_that_is_lost() -> None:
    world = World(manifest(trials={"count": 6, "order": "Interleaved"}))
    world.fail[OpKind.RESET] = REFUSED
    world.go_on_until(lambda w: w.records)
    world.fail.clear()
    lost = next(iter(world.records))[0]
    started = {pod.key for pod in world.pods.values()}
    world.settle()
    later = {pod.key for pod in world.pods.values()} - started
    assert later
    assert lost not in {key.cell for key in later}
