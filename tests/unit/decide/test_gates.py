"""What opens a gate, what keeps it shut, and what a restart in between costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.world import REPLICAS, World, manifest, report
from tare.api.names import FINALIZER_PROFILER
from tare.api.reasons import CellState, Reason
from tare.decide.actions import AddProfilerFinalizer, Decision, StartOp
from tare.decide.attempt import ProfilerState
from tare.decide.children import PodView, TrialKey
from tare.decide.decision import decide
from tare.decide.facts import Op, OpKind, OpView, ResetResult, WorkerView
from tare.decide.records import TrialRecord
from tare.measure.hooks import HookKind, Replica, Replicas
from tare.measure.messages import Command, CommandKind, WorkerState

FIRST, SECOND = TrialKey(0, 0, 1), TrialKey(1, 0, 1)
START_OP = Op(OpKind.PROFILER_START, FIRST, 1)


def one_cell(**spec: Any) -> World:
    return World(manifest(sweep=None, **spec))


def until(world: World, op: OpKind) -> World:
    """Go on until an operation of this kind was started and is not done."""
    for _ in range(100):
        world.step()
        if any(known.kind is op and not view.done for known, view in world.ops.items()):
            return world
        world.finish_ops()
        world.move_workers()
    raise AssertionError(world.status)


def next_pass(world: World, **facts: Any) -> Decision:
    return decide(world.run, replace(world._facts(), **facts), world.status)


def states(world: World) -> list[WorkerState]:
    return [worker.state for worker in world.workers[FIRST].values()]


def test_what_the_preflight_waits_for_stands_in_the_condition() -> None:
    world = until(one_cell(), OpKind.PREFLIGHT)
    op = Op(OpKind.PREFLIGHT, FIRST)
    for awaited in ("", "Service bench/qwen does not exist"):
        waiting = next_pass(world, ops={op: OpView(done=False, awaited=awaited)})
        (ready,) = (c for c in waiting.status["conditions"] if c["type"] == "TargetReady")
        assert (ready["status"], ready["reason"]) == ("Unknown", "Waiting")
        assert ready["message"] == (awaited or "preflight")


def test_the_reset_waits_for_pods_of_an_earlier_attempt() -> None:
    world = one_cell()
    while OpKind.PREFLIGHT not in {op.kind for op in world.ops}:
        world.step()
    world.finish_ops()
    world.step()
    world.move_workers()
    old = PodView(name="run-9-0-1-0", uid="old", key=TrialKey(9, 0, 1), index=0, deleting=True)
    noisy = next_pass(world, pods=(*world.pods.values(), old))
    assert noisy.status["progress"]["phase"] == "run-9-0-1-0 to end"
    quiet = next_pass(world, pods=(*world.pods.values(), replace(old, ended=True)))
    assert StartOp(Op(OpKind.RESET, FIRST)) in quiet.actions


@pytest.mark.parametrize(
    ("attempt", "state", "noisy"),
    [
        pytest.param(1, CellState.MEASURED, False, id="all have handed in their results"),
        pytest.param(2, CellState.MEASURED, True, id="those of another attempt have"),
        pytest.param(1, CellState.INVALID, True, id="nobody knows what they did"),
    ],
)
def test_living_pods_of_a_measured_trial_hold_nothing_up(
    attempt: int, state: CellState, *, noisy: bool
) -> None:
    """A pod that has done its work goes a second later; the next cell need not wait for that."""
    world = one_cell()
    for _ in range(3):
        world.step()
        world.finish_ops()
    world.move_workers()
    old = PodView(name="old-0", uid="old", key=TrialKey(9, 0, 1), index=0)
    record = TrialRecord(
        cell=9, trial=0, attempt=attempt, state=state, reason=Reason.AS_ASKED, message=""
    )
    decision = next_pass(world, pods=(*world.pods.values(), old), records={(9, 0): record})
    assert (decision.status["progress"]["phase"] == "old-0 to end") is noisy


@pytest.mark.parametrize(
    ("state", "noisy"),
    [
        (WorkerState.WAITING, False),
        (WorkerState.STOPPED, False),
        (WorkerState.READY, True),
        (WorkerState.RUNNING, True),
        (WorkerState.DRAINED, True),
    ],
)
def test_a_living_worker_of_another_attempt_is_quiet_only_if_it_says_so(
    state: WorkerState, *, noisy: bool
) -> None:
    world = one_cell()
    for _ in range(3):
        world.step()
        world.finish_ops()
    world.move_workers()
    key = TrialKey(9, 0, 1)
    old = PodView(name="old-0", uid="old", key=key, index=0)
    view = WorkerView(index=0, pod_uid="old", pod_name="old-0", state=state, phase=0, silent=0.0)
    facts = world._facts()
    decision = next_pass(world, pods=(*facts.pods, old), workers={**facts.workers, key: {0: view}})
    assert (decision.status["progress"]["phase"] == "old-0 to end") is noisy


def test_a_target_that_lost_its_replicas_before_the_reset_is_not_measured() -> None:
    world = one_cell()
    world.fail[OpKind.RESET] = ResetResult(replicas=Replicas(), report=None)
    world.settle()
    assert world.records[0, 0].reason is Reason.TARGET_NOT_READY
    assert not world.opened


@pytest.mark.parametrize("kind", [OpKind.RESET, OpKind.PROFILER_START])
def test_a_hook_that_met_a_pod_that_is_gone_costs_the_attempt_not_the_trial(kind: OpKind) -> None:
    world = until(one_cell(), kind)
    hook = HookKind.RESET if kind is OpKind.RESET else HookKind.PROFILER_START
    missed = report(hook, ok=False, reason=Reason.REPLICAS_CHANGED)
    reset = ResetResult(replicas=Replicas(ready=REPLICAS), report=missed)
    world.fail[kind] = reset if kind is OpKind.RESET else missed
    world.finish_ops()
    world.step()
    verdict = world.status["current"]["verdict"]
    assert (verdict["reason"], verdict["again"]) == (Reason.REPLICAS_CHANGED, True)
    world.fail.clear()
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED


def test_without_a_reset_setting_the_replicas_are_still_noted() -> None:
    endpoint = {**manifest()["spec"]["endpoint"], "resetKvCache": False}
    world = until(one_cell(endpoint=endpoint), OpKind.RESET)
    world.ops[Op(OpKind.RESET, FIRST)] = OpView(
        done=True, result=ResetResult(replicas=Replicas(ready=REPLICAS), report=None)
    )
    current = next_pass(world).status["current"]
    assert current["reset"]["state"] == "Off"
    assert [replica["uid"] for replica in current["replicas"]] == ["u1", "u2"]


def test_a_reset_that_no_answer_confirms_is_unverified() -> None:
    world = until(one_cell(), OpKind.RESET)
    unsaid = replace(report(HookKind.RESET), verified=False, message="empty body")
    world.ops[Op(OpKind.RESET, FIRST)] = OpView(
        done=True, result=ResetResult(replicas=Replicas(ready=REPLICAS), report=unsaid)
    )
    reset = next_pass(world).status["current"]["reset"]
    assert reset == {"state": "Unverified", "message": "empty body"}


def test_the_gate_opens_for_all_workers_together() -> None:
    world = until(one_cell(), OpKind.RESET)
    world.finish_ops()
    world.step()
    assert states(world) == [WorkerState.READY, WorkerState.READY]
    world.workers[FIRST][1].state = WorkerState.WAITING
    assert next_pass(world).commands == {FIRST: Command(do=CommandKind.PREPARE, phase=0)}
    world.workers[FIRST][1].state = WorkerState.READY
    assert next_pass(world).commands == {FIRST: Command(do=CommandKind.START, phase=0)}


def test_the_profilers_intent_and_our_finalizer_are_stored_before_its_first_call() -> None:
    world = until(one_cell(), OpKind.RESET)
    world.document["metadata"].pop("finalizers", None)
    while world.run.attempt is not None and world.run.attempt.profiler is None:
        decision = next_pass(world)
        assert StartOp(START_OP) not in decision.actions
        if AddProfilerFinalizer() in decision.actions:
            assert "profiler" not in decision.status["current"]
        world.step()
        world.finish_ops()
        world.move_workers()
    assert FINALIZER_PROFILER in world.run.finalizers
    assert world.run.attempt is not None
    assert world.run.attempt.profiler is not None
    assert world.run.attempt.profiler.state is ProfilerState.STARTING
    assert StartOp(START_OP) in next_pass(world).actions


def test_an_operator_killed_while_a_profiler_starts_stops_it_and_repeats_the_trial() -> None:
    """The new process meets no worker in its first pass: they register again within seconds."""
    world = until(one_cell(), OpKind.PROFILER_START)
    world.finish_ops()
    assert world.profiler_on
    world.crash()
    world.settle()
    assert world.records[0, 0].attempt == 2
    assert world.records[0, 0].state is CellState.MEASURED
    assert (world.starts, world.stops) == (2, 2)


@pytest.mark.parametrize("event", ["delete", "cancel"])
def test_a_stop_waits_for_the_start_that_is_on_its_way(event: str) -> None:
    """The server may take the start last, and nobody would stop it then."""
    world = until(one_cell(), OpKind.PROFILER_START)
    if event == "delete":
        world.delete()
    else:
        world.patch_spec(cancel=True)
    for _ in range(3):
        world.step()
    assert OpKind.PROFILER_STOP not in {op.kind for op in world.ops}
    world.finish_ops()
    assert world.profiler_on
    world.settle()
    assert (world.starts, world.stops, world.profiler_on) == (1, 1, False)


def test_the_second_profiling_phase_starts_its_profiler_anew() -> None:
    phases = manifest()["spec"]["phases"]
    world = one_cell(phases=[*phases, {**phases[1], "name": "again"}])
    world.settle()
    assert (world.starts, world.stops) == (2, 2)


def test_a_new_replica_or_one_that_goes_away_makes_the_trial_invalid() -> None:
    third = Replica(uid="u3", name="qwen-3", origin="http://10.0.0.3:8000")
    for found in (
        Replicas(ready=(*REPLICAS, third)),
        Replicas(ready=(REPLICAS[0], third)),
        Replicas(ready=REPLICAS, terminating=("qwen-0",)),
    ):
        world = one_cell()
        world.fail[OpKind.CHECK_REPLICAS] = found
        world.settle()
        assert world.records[0, 0].reason is Reason.REPLICAS_CHANGED


def test_replicas_in_another_order_are_the_same() -> None:
    world = one_cell()
    world.fail[OpKind.CHECK_REPLICAS] = Replicas(ready=REPLICAS[::-1])
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED
