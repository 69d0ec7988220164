"""Stages, that is where time passes: servers in order of arrival, delays, and shared service.

* `fifo(c)`: c servers with one job each.
* `delay`: a server for every job.
* `ps(phi)`: all jobs at once; together they are served at the rate phi(n), in equal shares. Each
  job is done when the service that every job has received since the start reaches its mark.

A stage does not know the event queue: it says which job starts or is next, and the caller
schedules. A session's number is its index in every list, as in `core.pool`; it has one job at most.
"""

from __future__ import annotations

import heapq
from typing import Final, NamedTuple

from tare.sim.core.areas import shift

__all__ = [
    "BUSY",
    "DONE",
    "NUMBER",
    "SERVED",
    "WAITED",
    "Stage",
    "add_job",
    "begin",
    "complete",
    "join",
    "leave_shared",
    "new_stage",
    "next_in_line",
    "pass_through",
    "remaining_shared",
    "serve_shared",
    "share",
]

NUMBER: Final = 0
BUSY: Final = 2
"""Places in `levels`: jobs at the stage, and 1 while there are any."""
DONE: Final = 0
RUNNING: Final = 1
TAIL: Final = 2
"""Places in `counts`: jobs done after the warm-up, servers at work."""
WAITED: Final = 0
SERVED: Final = 1
ATTAINED: Final = 2
SINCE: Final = 3
"""Places in `sums`: waiting and service of done jobs; for `ps`, service of each job, up to when."""


class Stage(NamedTuple):
    """All state of one stage."""

    levels: list[float]
    counts: list[int]
    sums: list[float]
    work: list[float]
    """Seconds of work of a session's job."""
    came: list[float]
    began: list[float]
    after: list[int]
    """Who stands behind it in line."""
    marks: list[tuple[float, int, int]]
    """Of `ps`: a heap of (mark, order of arrival, session)."""


def new_stage() -> Stage:
    """Return an empty stage."""
    marks = [(0.0, 0, 0)]
    marks.pop()
    return Stage([0.0] * 4, [0] * 3, [0.0] * 4, [0.0], [0.0], [0.0], [0], marks)


def add_job(stage: Stage) -> None:
    """Make room for the next session in every list."""
    stage.work.append(0.0)
    stage.came.append(0.0)
    stage.began.append(0.0)
    stage.after.append(0)


def join(stage: Stage, session: int, work: float, servers: int, now: float) -> bool:
    """Bring a job; True when one of the `servers` is free and takes it at once."""
    stage.work[session] = work
    stage.came[session] = now
    if stage.levels[NUMBER] == 0:
        shift(stage.levels, BUSY, 1.0, now)
    shift(stage.levels, NUMBER, 1.0, now)
    free = stage.counts[RUNNING] < servers
    if free:
        begin(stage, session, now)
    else:
        stage.after[session] = 0
        stage.after[stage.counts[TAIL]] = session
        stage.counts[TAIL] = session
    return free


def begin(stage: Stage, session: int, now: float) -> None:
    """Let a free server start the session's job."""
    stage.counts[RUNNING] += 1
    stage.began[session] = now


def next_in_line(stage: Stage) -> int:
    """Take the first waiting job out of the line; 0 when nobody waits."""
    session = stage.after[0]
    if session != 0:
        stage.after[0] = stage.after[session]
        if stage.after[0] == 0:
            stage.counts[TAIL] = 0
    return session


def complete(stage: Stage, session: int, now: float, warmup: float) -> None:
    """Let a job leave and its server rest."""
    stage.counts[RUNNING] -= 1
    shift(stage.levels, NUMBER, -1.0, now)
    if stage.levels[NUMBER] == 0:
        shift(stage.levels, BUSY, -1.0, now)
    if now >= warmup:
        stage.counts[DONE] += 1
        stage.sums[WAITED] += stage.began[session] - stage.came[session]
        stage.sums[SERVED] += now - stage.began[session]


def pass_through(stage: Stage, now: float, warmup: float) -> None:
    """Count a job without work, which neither waits nor takes time."""
    if now >= warmup:
        stage.counts[DONE] += 1


def serve_shared(stage: Stage, rate: float, now: float) -> None:
    """Credit the service since the last call, at which the total rate was `rate`."""
    number = len(stage.marks)
    if number > 0:
        stage.sums[ATTAINED] += rate / number * (now - stage.sums[SINCE])
    stage.sums[SINCE] = now


def share(stage: Stage, session: int, work: float, order: int, now: float) -> None:
    """Bring a job to a `ps` stage whose service is credited up to `now`."""
    join(stage, session, work, len(stage.work), now)
    heapq.heappush(stage.marks, (stage.sums[ATTAINED] + work, order, session))


def remaining_shared(stage: Stage, rate: float) -> float:
    """Return the seconds to the next completion at the total rate `rate`; there must be a job."""
    return max(0.0, stage.marks[0][0] - stage.sums[ATTAINED]) * len(stage.marks) / rate


def leave_shared(stage: Stage, now: float, warmup: float) -> int:
    """Complete the job with the lowest mark and return its session."""
    mark, _, session = heapq.heappop(stage.marks)
    stage.sums[ATTAINED] = max(mark, stage.sums[ATTAINED])
    complete(stage, session, now, warmup)
    return session
