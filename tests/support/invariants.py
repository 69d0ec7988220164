"""What must hold in a `World` whenever load starts, a profile ends, and at a run's end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.decide.attempt import ResetState
from tare.measure.messages import WorkerState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.decided import Worker
    from support.world import World
    from tare.decide.children import TrialKey

__all__ = ["check_end", "check_gate", "check_profile_end"]


def check_gate(world: World, key: TrialKey, phase: int) -> None:
    """What must hold whenever load is about to start, or is on its way."""
    attempt = world.run.attempt
    assert attempt is not None
    assert attempt.key == key
    assert attempt.reset is not None, "a gate opened before the reset was stored"
    mine = list(world.workers[key].values())
    others = [w for w in world.all_workers() if w not in mine and not world.ended(w)]
    assert not any(w.in_flight for w in others)
    spec, mark = world.accepted.cells[key.cell].spec, attempt.before_profiling
    first = phase == 0 and (spec.endpoint.reset is None or spec.endpoint.reset.at_start)
    assert not first or key in world.resets, "a first gate opened without a reset"
    later = mark and mark.phase == phase and mark.state is ResetState.CONFIRMED
    opened = (key, phase) in world.opened or any(
        w.phase >= phase and w.state is not WorkerState.READY for w in mine
    )
    if (first or later) and not opened:
        assert not world.warm, "a gate opened on a cache that was filled after its reset"
    if spec.endpoint.profiler is None:
        assert not world.profiler_on
        return
    wanted = spec.phases[phase].kind == "profiling" or _awaited(world, key, mine)
    if wanted and not (opened and spec.endpoint.profiler.max_seconds):
        assert world.profiler_on, "a phase of profiling is not profiled from its start"
    if not wanted and not opened:
        assert not world.profiler_on, "the profiler runs beside what is not profiling"


def check_profile_end(world: World) -> None:
    """A profile is ended when all of its answers are there, unless the attempt is given up."""
    attempt = world.run.attempt
    assert attempt is not None
    profiler = world.accepted.cells[attempt.key.cell].spec.endpoint.profiler
    assert profiler is not None
    if attempt.verdict is None and not profiler.max_seconds:
        mine = world.workers[attempt.key].values()
        assert not _awaited(world, attempt.key, mine), "a profile ended before its last answers"


def check_end(world: World) -> None:
    """What must hold when a run is over."""
    assert not world.profiler_on, "the run ended with a profiler on"
    assert not world.jobs, "the run ended with Jobs"
    assert world.stops >= world.starts
    assert world.stops <= world.starts + world.crashes, "a crash costs one extra stop at most"


def _awaited(world: World, key: TrialKey, workers: Iterable[Worker]) -> bool:
    """Whether an answer of a phase of profiling is not there yet."""
    phases = world.accepted.cells[key.cell].spec.phases
    return any(
        phases[phase].kind == "profiling"
        for worker in workers
        if worker.in_flight
        for phase in range(worker.drained + 1, worker.phase + 1)
    )
