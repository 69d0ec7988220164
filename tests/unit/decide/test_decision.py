"""A run as it is decided, pass by pass, in a world that does what it is told."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.happenings import HAPPENINGS
from support.world import REPLICAS, World, manifest, report
from tare.api.reasons import CellState, Reason, RunPhase
from tare.decide.children import TrialKey
from tare.decide.closing import STOP_PATIENCE
from tare.decide.facts import OpKind, ResetResult
from tare.measure.hooks import HookKind, PreflightReport, Replicas
from tare.measure.messages import WorkerState

REFUSED = ResetResult(
    replicas=Replicas(ready=REPLICAS),
    report=report(HookKind.RESET, ok=False, reason=Reason.RESET_REFUSED),
)


def condition(world: World, kind: str) -> dict[str, str]:
    return next(c for c in world.status["conditions"] if c["type"] == kind)


def until_running(world: World, phase: int) -> None:
    """Go on until the workers send the load of `phase`."""
    for _ in range(100):
        world.step()
        workers = [w for ws in world.workers.values() for w in ws.values()]
        if any(w.state == "running" and w.phase == phase for w in workers):
            return
        world.finish_ops()
        world.move_workers()
    raise AssertionError(f"phase {phase} never ran: {world.status}")


def test_a_run_measures_every_cell_and_ends_complete() -> None:
    world = World()
    world.settle()
    assert world.status["phase"] == RunPhase.SUCCEEDED
    assert condition(world, "Complete")["status"] == "True"
    assert condition(world, "Finished")["status"] == "True"
    assert [row["state"] for row in world.status["cells"]] == ["Measured", "Measured"]


def test_the_first_pass_announces_the_attempt_and_asks_for_its_preflight() -> None:
    world = World()
    world.step()
    assert world.status["current"]["attempt"] == 1
    assert [op.kind for op in world.ops] == [OpKind.PREFLIGHT]


def test_the_status_names_the_replicas_that_were_measured() -> None:
    world = World()
    world.settle()
    assert [row["name"] for row in world.status["target"]["replicas"]] == ["qwen-1", "qwen-2"]


def test_each_trial_has_one_reset_and_one_start_and_stop_of_the_profiler() -> None:
    world = World(manifest(trials={"count": 2}))
    world.settle()
    assert len(world.resets) == 4
    assert (world.starts, world.stops) == (4, 4)


def test_the_next_trials_pods_wait_before_the_first_gate_opens() -> None:
    world = World()
    until_running(world, 0)
    assert TrialKey(1, 0, 1) in world.workers


def test_without_prestart_the_next_pods_start_after_the_trial() -> None:
    world = World(manifest(workers={"replicas": 2, "prestart": False}))
    until_running(world, 0)
    assert TrialKey(1, 0, 1) not in world.jobs


def test_a_lost_worker_makes_the_trial_invalid_and_it_is_repeated_once() -> None:
    world = World()
    until_running(world, 1)
    assert world.lose_worker()
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].state is CellState.MEASURED


def test_a_worker_lost_twice_leaves_the_cell_invalid_with_its_reason() -> None:
    world = World()
    until_running(world, 1)
    world.lose_worker(Reason.OOM_KILLED)
    until_running(world, 0)
    world.lose_worker(Reason.OOM_KILLED)
    world.settle()
    assert world.records[0, 0].state is CellState.INVALID
    assert world.records[0, 0].reason is Reason.OOM_KILLED
    assert world.status["phase"] == RunPhase.PARTIALLY_FAILED


def test_a_refused_reset_fails_the_cell_and_no_gate_opens() -> None:
    world = World(manifest(sweep=None))
    world.fail[OpKind.RESET] = REFUSED
    world.settle()
    assert world.records[0, 0].reason is Reason.RESET_REFUSED
    assert not world.opened
    assert world.status["phase"] == RunPhase.FAILED


def test_a_refused_reset_may_be_passed_over_and_is_then_unverified() -> None:
    endpoint = {
        **manifest()["spec"]["endpoint"],
        "resetKvCache": {"onFailure": "Continue"},
        "serverProfiler": False,
    }
    world = World(manifest(sweep=None, endpoint=endpoint))
    world.fail[OpKind.RESET] = REFUSED
    world.resets.append(TrialKey(0, 0, 1))
    world.warm = False
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED
    assert condition(world, "CacheAsPlanned")["reason"] == Reason.UNVERIFIED


def test_an_unknown_model_ends_the_run_before_any_job_exists() -> None:
    world = World()
    world.fail[OpKind.PREFLIGHT] = PreflightReport(
        ok=False, reason=Reason.MODEL_NOT_SERVED, message="serves y, not x", final=True
    )
    world.settle()
    assert not world.workers
    assert world.status["phase"] == RunPhase.FAILED
    assert condition(world, "Failed")["message"] == "serves y, not x"
    assert [row["state"] for row in world.status["cells"]] == ["Failed", "Skipped"]


def test_workers_that_do_not_start_in_time_end_the_run() -> None:
    world = World()
    for _ in range(5):
        world.step()
        world.finish_ops()
    world.now += 301
    for _ in range(20):
        world.step()
        world.finish_ops()
    assert world.status["phase"] == RunPhase.FAILED
    assert condition(world, "Failed")["reason"] == Reason.WORKERS_NOT_READY


def test_a_profiler_that_does_not_start_fails_the_cell_and_is_stopped() -> None:
    world = World(manifest(sweep=None))
    world.fail[OpKind.PROFILER_START] = report(
        HookKind.PROFILER_START, ok=False, reason=Reason.PROFILER_START_FAILED
    )
    world.settle()
    assert world.records[0, 0].reason is Reason.PROFILER_START_FAILED
    assert not world.profiler_on


def test_replicas_that_changed_during_a_trial_make_it_invalid() -> None:
    world = World(manifest(sweep=None))
    world.fail[OpKind.CHECK_REPLICAS] = Replicas()
    world.settle()
    assert world.records[0, 0].state is CellState.INVALID
    assert world.records[0, 0].reason is Reason.REPLICAS_CHANGED
    assert world.records[0, 0].attempt == 2


def test_cancel_stops_the_load_and_keeps_what_was_measured() -> None:
    world = World()
    until_running(world, 1)
    world.patch_spec(cancel=True)
    world.step()
    states = [w.state for w in world.workers[TrialKey(0, 0, 1)].values()]
    assert states == ["stopped", "stopped"]
    world.settle()
    assert world.status["phase"] == RunPhase.CANCELLED
    assert condition(world, "Failed")["status"] == "False"
    assert world.records[0, 0].reason is Reason.CANCELLED


def test_cancelling_the_only_cell_is_a_cancellation_and_no_failure() -> None:
    world = World(manifest(sweep=None))
    until_running(world, 1)
    world.patch_spec(cancel=True)
    world.settle()
    assert world.status["phase"] == RunPhase.CANCELLED
    assert condition(world, "Complete")["status"] == "False"


def test_a_run_whose_target_is_busy_waits_and_its_time_does_not_run() -> None:
    world = World(blocker="bench/first")
    world.settle()
    assert world.status["phase"] == RunPhase.WAITING
    assert condition(world, "TargetReady")["reason"] == Reason.TARGET_BUSY
    assert "bench/first" in condition(world, "TargetReady")["message"]
    assert "startTime" not in world.status
    assert not world.jobs
    world.blocker = ""
    world.settle()
    assert world.status["phase"] == RunPhase.SUCCEEDED


def test_suspend_interrupts_the_trial_and_resuming_repeats_it() -> None:
    world = World()
    until_running(world, 1)
    world.patch_spec(suspend=True)
    world.settle()
    assert world.status["phase"] == RunPhase.SUSPENDED
    assert not world.jobs
    assert not world.profiler_on
    world.now += 10_000
    world.patch_spec(suspend=False)
    world.settle()
    assert world.status["phase"] == RunPhase.SUCCEEDED
    assert world.records[0, 0].attempt == 2


def test_a_deadline_ends_the_run_with_what_it_has() -> None:
    world = World(manifest(activeDeadlineSeconds=600))
    until_running(world, 1)
    world.now += 601
    world.settle()
    assert world.status["phase"] == RunPhase.FAILED
    assert condition(world, "Failed")["reason"] == Reason.DEADLINE_EXCEEDED


def test_a_deleted_run_stops_its_profiler_before_the_object_goes() -> None:
    world = World()
    until_running(world, 1)
    assert world.starts == 1
    world.delete()
    world.settle()
    assert not world.profiler_on
    assert world.document["metadata"]["finalizers"] == []


def test_after_the_first_failed_cell_the_run_stops_if_asked() -> None:
    world = World(manifest(onCellFailure="Stop"))
    world.fail[OpKind.RESET] = REFUSED
    world.settle()
    assert [row["state"] for row in world.status["cells"]] == ["Failed", "Skipped"]


def test_a_gate_that_was_half_open_at_a_crash_repeats_the_trial() -> None:
    world = World(manifest(sweep=None))
    until_running(world, 0)
    world.workers[TrialKey(0, 0, 1)][1].state = WorkerState.READY
    world.crash()
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].state is CellState.MEASURED


@pytest.mark.parametrize("phase", [0, 1])
def test_an_operator_killed_during_a_phase_goes_on_with_the_same_workers(phase: int) -> None:
    world = World(manifest(sweep=None))
    until_running(world, phase)
    world.crash()
    world.settle()
    assert world.status["phase"] == RunPhase.SUCCEEDED
    assert world.records[0, 0].attempt == 1


def test_an_edited_spec_is_told_and_does_not_change_the_run() -> None:
    world = World()
    until_running(world, 0)
    world.patch_spec(goals=[{"metric": "error_rate", "max": "1%"}])
    world.settle()
    assert condition(world, "SpecChangeIgnored")["status"] == "True"
    assert "goals" not in world.status["cells"][0]


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(happenings=st.lists(st.sampled_from(sorted(HAPPENINGS)), max_size=60))
def test_whatever_happens_no_profiler_is_left_on_and_no_trial_counts_twice(
    happenings: list[str],
) -> None:
    """The world asserts its invariants at each step; in the end the run must come to an end."""
    world = World(manifest(baseline={"run": "before"}))
    world.step()
    for name in happenings:
        HAPPENINGS[name](world)
    world.patch_spec(suspend=False)
    world.settle(limit=400)
    # A worker that registered for a Job which somebody deletes never says that it stopped.
    world.now += STOP_PATIENCE + 1
    world.settle(limit=400)
    assert not world.profiler_on
    assert not world.jobs
