"""Seamless phases: the next one begins while answers are awaited, and a profile ends with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.happenings import HAPPENINGS
from support.world import World, manifest
from tare.api.reasons import CellState, Reason, RunPhase
from tare.decide.children import TrialKey
from tare.decide.closing import STOP_PATIENCE
from tare.decide.facts import OpKind
from tare.measure.messages import Command, CommandKind, WorkerState

if TYPE_CHECKING:
    from collections.abc import Sequence

    from support.decided import Worker

FIRST = TrialKey(0, 0, 1)
PHASES = {phase["kind"][0]: phase for phase in manifest()["spec"]["phases"]}
"""By the first letter of their kind."""


def world_of(shape: str, **spec: Any) -> World:
    """A world of phases such as `w~p`: `~` after a phase makes it seamless."""
    parts = shape.replace("~", " ~").replace("w", " w").replace("p", " p").split()
    phases: list[dict[str, Any]] = []
    for part in parts:
        if part == "~":
            phases[-1]["seamless"] = True
        else:
            phases.append({**PHASES[part], "name": f"p{len(phases)}"})
    return World(manifest(**{"sweep": None, "phases": phases, **spec}))


def workers(world: World) -> list[Worker]:
    return list(world.workers.get(FIRST, {}).values())


def until(world: World, state: WorkerState, phase: int) -> World:
    world.go_on_until(
        lambda w: workers(w) and all((x.state, x.phase) == (state, phase) for x in workers(w))
    )
    return world


def pass_and_end_ops(world: World, times: int = 4) -> None:
    """Passes in which operations end and no worker moves."""
    for _ in range(times):
        world.step()
        world.finish_ops()


def command(world: World) -> Command:
    assert world.decision is not None
    return world.decision.commands[FIRST]


def test_the_next_phase_is_started_without_being_prepared_when_every_worker_has_sent() -> None:
    world = until(world_of("w~p", endpoint=plain()), WorkerState.RUNNING, 0)
    first, second = workers(world)
    first.state = WorkerState.SENT
    world.step()
    assert command(world) == Command(do=CommandKind.START, phase=0)
    assert second.state is WorkerState.RUNNING
    second.state = WorkerState.SENT
    world.step()
    assert command(world) == Command(do=CommandKind.START, phase=1)
    assert [(w.state, w.phase, w.drained) for w in workers(world)] == [
        (WorkerState.RUNNING, 1, -1)
    ] * 2


def plain() -> dict[str, Any]:
    """The usual endpoint without a profiler."""
    return {**manifest()["spec"]["endpoint"], "serverProfiler": False}


def test_the_progress_names_the_phase_that_was_started_last() -> None:
    world = until(world_of("w~p"), WorkerState.RUNNING, 1)
    assert world.status["progress"]["phase"] == "p1"


def test_the_profiler_of_a_phase_starts_before_it_though_the_warm_up_is_not_answered() -> None:
    world = until(world_of("w~p"), WorkerState.RUNNING, 1)
    assert world.profiler_on
    assert {w.drained for w in workers(world)} == {-1}
    world.settle()
    assert (world.starts, world.stops) == (1, 1)
    assert world.records[0, 0].state is CellState.MEASURED


def test_a_profile_ends_when_its_last_answer_came_and_not_when_its_phase_was_sent() -> None:
    world = until(world_of("p~w"), WorkerState.RUNNING, 1)
    pass_and_end_ops(world)
    assert (world.profiler_on, world.stops) == (True, 0)
    workers(world)[0].drained = 0
    pass_and_end_ops(world)
    assert world.profiler_on, "the other worker still waits for an answer"
    world.end_answers()
    pass_and_end_ops(world)
    assert (world.profiler_on, world.stops) == (False, 1)
    assert {w.state for w in workers(world)} == {WorkerState.RUNNING}
    assert world.status["progress"]["phase"] == "p1"
    world.settle()
    assert world.records[0, 0].state is CellState.MEASURED


def test_the_profiler_is_stopped_before_the_workers_are_asked_for_their_results() -> None:
    world = until(world_of("w~p"), WorkerState.DRAINED, 1)
    kinds = {op.kind for op in world.ops}
    assert OpKind.PROFILER_STOP in kinds
    assert OpKind.CHECK_REPLICAS not in kinds
    assert world.decision is not None
    assert CommandKind.FINISH not in {told.do for told in world.decision.commands.values()}


@pytest.mark.parametrize("early", [False, True])
def test_phases_of_profiling_that_follow_seamlessly_share_one_profile(early: bool) -> None:
    """Also when the answers of the first are there before the second begins."""
    world = until(world_of("p~p~p"), WorkerState.RUNNING, 0)
    for phase in (0, 1):
        for worker in workers(world):
            worker.state, worker.drained = WorkerState.SENT, phase if early else phase - 1
        pass_and_end_ops(world)
        assert {w.phase for w in workers(world)} == {phase + 1}
        assert (world.starts, world.stops) == (1, 0)
    world.settle()
    assert (world.starts, world.stops) == (1, 1)
    assert world.records[0, 0].state is CellState.MEASURED


def test_a_profiler_that_is_still_on_stays_on_for_a_later_phase_of_profiling() -> None:
    """Between them is a warm-up; what the profiler covers survives a crash at the gate."""
    world = until(world_of("p~w~p"), WorkerState.RUNNING, 1)
    for worker in workers(world):
        worker.state = WorkerState.SENT
    world.step()
    assert {(w.state, w.phase) for w in workers(world)} == {(WorkerState.RUNNING, 2)}
    world.crash()
    world.settle()
    assert (world.starts, world.stops) == (1, 1)
    assert world.records[0, 0].attempt == 1


def test_a_profiler_that_was_stopped_meanwhile_is_started_anew() -> None:
    world = until(world_of("p~w~p"), WorkerState.RUNNING, 1)
    world.end_answers()
    world.settle()
    assert (world.starts, world.stops) == (2, 2)
    assert world.records[0, 0].state is CellState.MEASURED


def test_the_gate_waits_for_a_stop_that_is_on_its_way() -> None:
    world = until(world_of("p~w~p"), WorkerState.RUNNING, 1)
    world.end_answers()
    world.step()
    for worker in workers(world):
        worker.state = WorkerState.SENT
    for _ in range(3):
        world.step()
        assert {w.phase for w in workers(world)} == {1}
    assert world.status["progress"]["phase"] == "the server's profiler to stop"
    world.settle()
    assert (world.starts, world.stops) == (2, 2)


def test_the_time_of_a_profile_runs_out_while_the_next_phase_runs() -> None:
    endpoint = {**manifest()["spec"]["endpoint"], "serverProfiler": {"maxSeconds": 5}}
    world = until(world_of("p~w", endpoint=endpoint), WorkerState.RUNNING, 1)
    world.now += 5
    pass_and_end_ops(world)
    assert (world.profiler_on, world.stops) == (False, 1)
    assert {w.drained for w in workers(world)} == {-1}
    world.settle()
    assert (world.starts, world.stops) == (1, 1)


@pytest.mark.parametrize("state", [WorkerState.SENT, WorkerState.RUNNING])
def test_a_crash_while_two_phases_overlap_costs_nothing(state: WorkerState) -> None:
    phase = 0 if state is WorkerState.SENT else 1
    world = until(world_of("p~p"), WorkerState.RUNNING, phase)
    for worker in workers(world):
        worker.state = state
    world.crash()
    world.settle()
    assert world.records[0, 0].attempt == 1
    assert (world.starts, world.stops) == (1, 1)


def test_a_gate_that_was_half_open_at_a_crash_repeats_the_trial() -> None:
    world = until(world_of("w~p"), WorkerState.RUNNING, 1)
    late = workers(world)[1]
    late.state, late.phase = WorkerState.SENT, 0
    world.crash()
    world.settle()
    assert (world.records[0, 0].attempt, world.records[0, 0].state) == (2, CellState.MEASURED)


@pytest.mark.parametrize("event", ["cancel", "suspend", "delete", "worker"])
def test_whatever_ends_the_attempt_stops_both_phases_and_the_profiler(event: str) -> None:
    world = until(world_of("p~w"), WorkerState.RUNNING, 1)
    match event:
        case "delete":
            world.delete()
        case "worker":
            assert world.lose_worker()
        case _:
            world.patch_spec(**{event: True})
    world.step()
    left = [w for w in workers(world) if not world.ended(w)]
    assert {(w.state, w.in_flight) for w in left} == {(WorkerState.STOPPED, False)}
    assert OpKind.PROFILER_STOP in {op.kind for op in world.ops}
    world.settle()
    assert not world.profiler_on
    if event == "cancel":
        assert world.status["phase"] == RunPhase.CANCELLED
        assert world.records[0, 0].reason is Reason.CANCELLED


def shapes() -> st.SearchStrategy[str]:
    """Two to four phases, seamless or not, one of them of profiling; the last is not seamless."""
    start = st.lists(st.sampled_from(["w", "w~", "p", "p~"]), min_size=1, max_size=3)
    return st.builds(_shape, start, st.sampled_from("wp"))


def _shape(start: Sequence[str], last: str) -> str:
    whole = "".join(start) + last
    return whole if "p" in whole else whole[:-1] + "p"


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
@given(shape=shapes(), happenings=st.lists(st.sampled_from(sorted(HAPPENINGS)), max_size=80))
def test_whatever_happens_every_profile_is_whole_and_none_is_left_on(
    shape: str, happenings: list[str]
) -> None:
    """The world asserts its invariants at each step; in the end the run must come to an end."""
    world = world_of(shape, trials={"count": 2})
    world.step()
    for name in happenings:
        HAPPENINGS[name](world)
    world.patch_spec(suspend=False)
    world.settle(limit=600)
    # A worker that registered for a Job which somebody deletes never says that it stopped.
    world.now += STOP_PATIENCE + 1
    world.settle(limit=600)
    assert not world.profiler_on
    assert not world.jobs


@given(shape=shapes())
def test_without_a_crash_starts_equal_stops(shape: str) -> None:
    world = world_of(shape)
    world.settle(limit=600)
    assert world.records[0, 0].state is CellState.MEASURED
    assert world.starts == world.stops >= 1
