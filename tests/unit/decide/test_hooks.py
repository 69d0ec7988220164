"""When hooks are sent within a trial: the second reset, and the profiler's own limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.world import REPLICAS, World, manifest, report
from tare.api.reasons import CellState, Reason
from tare.decide.attempt import ProfilerState, ResetState, weakest
from tare.decide.children import TrialKey
from tare.decide.facts import Op, OpKind, ResetResult
from tare.measure.hooks import HookKind, Replica, Replicas
from tare.measure.messages import WorkerState
from tare.plan.stretches import begins_profiling

if TYPE_CHECKING:
    from collections.abc import Sequence

FIRST = TrialKey(0, 0, 1)
PHASES = {phase["kind"]: phase for phase in manifest()["spec"]["phases"]}


def world_of(kinds: Sequence[str] = ("warmup", "profiling"), **hooks: Any) -> World:
    """One cell with phases of these kinds."""
    phases = [{**PHASES[kind], "name": f"p{n}"} for n, kind in enumerate(kinds)]
    endpoint = {**manifest()["spec"]["endpoint"], **hooks}
    return World(manifest(sweep=None, phases=phases, endpoint=endpoint))


def resets(world: World) -> list[int]:
    """Phases that resets came before, in order; -1 is the start."""
    return [op.phase for op in world.ops if op.kind is OpKind.RESET]


def run_on(world: World) -> list[int]:
    """Let a trial go to its end; the phases that resets were asked for before, in order."""
    seen: dict[int, None] = {}
    for _ in range(100):
        if not (world.step() | world.finish_ops() | world.move_workers()):
            break
        seen |= dict.fromkeys(resets(world))
    assert world.finished
    return list(seen)


W, P = "warmup", "profiling"


@pytest.mark.parametrize(
    ("at", "kinds", "asked", "done"),
    [
        ("CellStart", (W, P), [-1], 1),
        ("BeforeProfiling", (W, P), [-1, 1], 1),
        ("Both", (W, P), [-1, 1], 2),
        ("BeforeProfiling", (P,), [-1, 0], 1),
        ("Both", (P,), [-1], 1),
        ("Both", (W, P, P), [-1, 1], 2),
        ("Both", (W, W, P, W, P), [-1, 2, 4], 3),
    ],
)
def test_the_cache_is_emptied_when_the_run_asks_and_once_where_profiling_begins(
    at: str, kinds: Sequence[str], asked: list[int], done: int
) -> None:
    """Operation -1 finds the replicas in any case; the world checks each gate's cache."""
    world = world_of(kinds, resetKvCache={"at": at}, serverProfiler=False)
    assert run_on(world) == asked
    assert len(world.resets) == done
    record = world.records[0, 0]
    assert record.state is CellState.MEASURED
    assert record.reset == ("Off" if at == "BeforeProfiling" else "Confirmed")
    assert record.reset_before_profiling == ("Off" if asked == [-1] else "Confirmed")


def until_second_reset(world: World) -> World:
    world.go_on_until(lambda w: 1 in resets(w))
    return world


def test_the_second_reset_comes_after_the_warm_up_drained_and_before_the_profiler_starts() -> None:
    world = until_second_reset(world_of(resetKvCache={"at": "Both"}))
    assert {w.state for w in world.workers[FIRST].values()} == {WorkerState.DRAINED}
    attempt = world.run.attempt
    assert attempt is not None
    assert (attempt.profiler, world.starts) == (None, 0)
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED


def test_a_second_reset_that_fails_ends_the_cell_and_no_profiler_was_started() -> None:
    world = until_second_reset(world_of(resetKvCache={"at": "Both"}))
    failed = report(HookKind.RESET, ok=False, reason=Reason.RESET_REFUSED)
    world.fail[OpKind.RESET] = ResetResult(replicas=world.found, report=failed)
    world.settle()
    record = world.records[0, 0]
    assert (record.state, record.reason) == (CellState.FAILED, Reason.RESET_REFUSED)
    assert world.starts == 0


def test_a_second_reset_that_may_fail_leaves_the_cache_unverified() -> None:
    world = until_second_reset(world_of(resetKvCache={"at": "Both", "onFailure": "Continue"}))
    failed = report(HookKind.RESET, ok=False, reason=Reason.RESET_REFUSED)
    world.fail[OpKind.RESET] = ResetResult(replicas=world.found, report=failed)
    world.settle()
    record = world.records[0, 0]
    assert (record.reset, record.reset_before_profiling) == ("Confirmed", "Unverified")


OTHER = Replica(uid="u9", name="qwen-9", origin="http://10.0.0.9:8000")


@pytest.mark.parametrize(
    "found",
    [
        Replicas(ready=(REPLICAS[0], OTHER)),
        Replicas(ready=REPLICAS, terminating=("qwen-2",)),
        Replicas(ready=REPLICAS, reset=(OTHER,)),
        Replicas(ready=REPLICAS, profiler=(OTHER,)),
    ],
)
def test_other_servers_at_the_second_reset_invalidate_the_attempt(found: Replicas) -> None:
    world = until_second_reset(world_of(resetKvCache={"at": "Both"}))
    world.found = found
    world.finish_ops()
    world.step()
    attempt = world.run.attempt
    assert attempt is not None
    assert attempt.verdict is not None
    assert (attempt.verdict.reason, attempt.verdict.again) == (Reason.REPLICAS_CHANGED, True)
    assert world.starts == 0


def test_a_crash_in_the_second_reset_repeats_it() -> None:
    world = until_second_reset(world_of(resetKvCache={"at": "Both"}))
    world.crash_in_operations()
    world.settle()
    assert world.records[0, 0].reset_before_profiling == "Confirmed"
    assert len(world.resets) == 3


def test_the_outcome_of_both_resets_stands_in_the_status() -> None:
    world = until_second_reset(world_of(resetKvCache={"at": "Both"}))
    proven = replace(report(HookKind.RESET), proven=True, message="and proven by a canary")
    world.fail[OpKind.RESET] = ResetResult(replicas=world.found, report=proven)
    world.finish_ops()
    world.step()
    current = world.status["current"]
    assert current["reset"]["state"] == "Confirmed"
    assert current["resetBeforeProfiling"] == {
        "state": "Proven",
        "message": "and proven by a canary",
        "phase": 1,
    }


def test_tokens_from_before_the_reset_mark_the_cell_and_do_not_end_it() -> None:
    world = world_of()
    left = replace(report(HookKind.RESET), verified=False, reason=Reason.RESET_INCOMPLETE)
    world.fail[OpKind.RESET] = ResetResult(replicas=world.found, report=left)
    world.go_on_until(lambda w: w.run.attempt and w.run.attempt.reset)
    assert world.status["current"]["reset"]["state"] == "Incomplete"


def test_a_promise_is_as_weak_as_the_weakest() -> None:
    order = ["Incomplete", "Unverified", "Off", "Confirmed", "Proven"]
    for number, state in enumerate(order):
        assert weakest(order[number:]) == state
    assert weakest([]) is ResetState.OFF


@pytest.mark.parametrize(
    ("kinds", "begins"),
    [((P,), [0]), ((W, P), [1]), ((P, P), [0]), ((W, P, W, P), [1, 3]), ((W,), [])],
)
def test_profiling_begins_where_no_profiling_was_before(
    kinds: Sequence[str], begins: list[int]
) -> None:
    assert [n for n in range(len(kinds)) if begins_profiling(kinds, n)] == begins


def running(world: World) -> World:
    """Go on until profiling runs with its profiler on."""
    world.go_on_until(
        lambda w: (
            any(x.phase == 1 and x.state is WorkerState.RUNNING for x in w.workers[FIRST].values())
            if FIRST in w.workers
            else False
        )
    )
    return world


def mark_of(world: World) -> ProfilerState:
    attempt = world.run.attempt
    assert attempt is not None
    assert attempt.profiler is not None
    return attempt.profiler.state


def test_b82_the_profiler_is_stopped_when_its_time_is_over_and_the_phase_goes_on() -> None:
    world = running(world_of(serverProfiler={"maxSeconds": 5}))
    world.now += 4
    world.step()
    assert (world.profiler_on, world.stops) == (True, 0)
    assert world.decision is not None
    assert world.decision.again_in == pytest.approx(1)
    world.now += 1
    world.step()
    world.finish_ops()
    world.step()
    assert (world.profiler_on, world.stops) == (False, 1)
    assert mark_of(world) is ProfilerState.STOPPED
    assert {w.state for w in world.workers[FIRST].values()} == {WorkerState.RUNNING}
    world.settle()
    assert (world.starts, world.stops) == (1, 1)
    assert world.records[0, 0].state is CellState.MEASURED


def test_a_profiler_that_was_stopped_in_time_is_not_started_again_at_the_gate() -> None:
    world = world_of(serverProfiler={"maxSeconds": 5})
    world.go_on_until(lambda w: w.profiler_on and w.run.attempt is not None)
    world.step()
    for worker in world.workers[FIRST].values():
        worker.heard = False
    world.now += 60
    world.step()
    for worker in world.workers[FIRST].values():
        worker.heard = True
    world.finish_ops()
    world.step()
    world.step()
    assert Op(OpKind.PROFILER_START, FIRST, 1) in world.ops
    assert (world.starts, world.profiler_on) == (1, mark_of(world) is ProfilerState.RUNNING)


def test_the_limit_counts_on_over_a_restart_of_the_operator() -> None:
    world = running(world_of(serverProfiler={"maxSeconds": 5}))
    world.crash()
    world.move_workers()
    world.now += 6
    world.step()
    world.finish_ops()
    assert (world.profiler_on, world.stops) == (False, 1)


def test_a_phase_that_ends_earlier_stops_its_profiler_once() -> None:
    world = running(world_of(serverProfiler={"maxSeconds": 500}))
    world.settle()
    assert (world.starts, world.stops) == (1, 1)


def test_a_phase_that_drains_while_the_limit_stops_the_profiler_waits_for_that_stop() -> None:
    world = running(world_of(serverProfiler={"maxSeconds": 5}))
    world.now += 5
    world.step()
    world.move_workers()
    world.step()
    assert world.records == {}
    world.settle()
    assert (world.starts, world.stops) == (1, 1)


def test_each_of_several_profiling_phases_has_its_own_profile() -> None:
    world = world_of((W, P, P, W, P))
    world.settle()
    assert (world.starts, world.stops) == (3, 3)
    assert world.records[0, 0].state is CellState.MEASURED


def test_the_profiler_is_driven_on_the_servers_of_its_own_target() -> None:
    world = world_of()
    world.found = Replicas(ready=REPLICAS, profiler=(OTHER,))
    running(world)
    attempt = world.run.attempt
    assert attempt is not None
    assert attempt.profiled == (OTHER,)
    assert attempt.replicas == REPLICAS
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED
