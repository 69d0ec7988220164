"""Multi-turn sessions on one step engine: agents that think, come back, and find their prefix.

Sessions arrive as a Poisson process. A turn brings new tokens to the session's context, is answered
with some more, and is followed by another one with a fixed probability after a pause. The KV pool
keeps a session's context between its turns as long as there is room.

Random numbers come from the three streams of `core.streams`, in the order of events, so that the
published runs of this model are reproduced.
"""

from __future__ import annotations

import heapq
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tare.sim.core.areas import restart, shift
from tare.sim.core.kernels import kernel
from tare.sim.core.pool import Pool, add_session, drop, new_pool
from tare.sim.core.steps import (
    FINISHED,
    PREFILLED,
    Engine,
    Limits,
    add_request,
    finish_iteration,
    new_engine,
    start_iteration,
    submit,
)
from tare.sim.core.streams import Key, ordered, read, run_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["Agents", "AgentsRun", "simulate_agents"]

_ARRIVAL: Final = 0
_ITERATION: Final = 1
_TURN: Final = 2
_WARM: Final = 3

_EVENTS: Final = 0
_ARRIVALS: Final = 1
_TURNS: Final = 2
_ENDED: Final = 3
_ORDER: Final = 4


class Agents(NamedTuple):
    """What sessions do."""

    rate: float
    """Sessions a second."""
    first_low: float
    first_high: float
    """Tokens of the first turn, uniform."""
    later: float
    """Mean new tokens of each later turn, exponential."""
    output: float
    """Mean tokens of an answer, exponential, with one more on top."""
    again: float
    """Probability of another turn."""
    pause: float
    """Mean seconds between an answer and the next turn, exponential."""
    whole: bool
    """Whole tokens, rounded up, as real engines have them; real-valued ones are for comparison
    with published runs."""


class AgentsRun(NamedTuple):
    """What a run counted and saw."""

    counts: list[int]
    """Events, arrivals; turns and ended sessions after the warm-up."""
    engine_counts: list[int]
    pool_levels: list[float]
    pool_counts: list[int]
    pool_sums: list[float]
    busy: list[float]
    """1 while anybody runs or waits, with its area."""
    first_token: list[float]
    """Seconds from a turn's start to its first token, after the warm-up."""
    latency: list[float]


class Sessions(NamedTuple):
    """State of the sessions."""

    counts: list[int]
    heap: list[tuple[float, int, int, int]]
    context: list[float]
    """Tokens so far."""
    started: list[float]
    """When the turn began."""
    first_token: list[float]
    latency: list[float]


def run_agents(
    agents: Agents, limits: Limits, horizon: float, warmup: float, keys: tuple[Key, Key, Key]
) -> AgentsRun:
    """Run sessions from an empty engine at time 0 to the horizon.

    `keys` are those of the streams of arrivals, tokens, and sessions.
    """
    gaps = ordered(keys[0])
    sizes = ordered(keys[1])
    ways = ordered(keys[2])
    pool = new_pool()
    engine = new_engine(limits)
    sessions = new_sessions(warmup)
    busy = [0.0, 0.0]
    # The iteration's end is no event of the heap: there is one at most, and nearly all events are.
    end, end_order, now = math.inf, 0, 0.0
    while now <= horizon:
        following = sessions.heap[0][0]
        if end < following or (end == following and end_order < sessions.heap[0][1]):
            now, kind, session = end, _ITERATION, 0
        else:
            now, _, kind, session = heapq.heappop(sessions.heap)
        if now <= horizon:
            sessions.counts[_EVENTS] += 1
            if kind == _ITERATION:
                finish_iteration(engine, pool, limits, now)
                end = math.inf
                answer(sessions, engine, pool, agents, ways, now, warmup)
            elif kind == _WARM:
                restart(pool.levels, now)
                restart(busy, now)
            else:
                if kind == _ARRIVAL:
                    gap = read(gaps)
                    push(sessions, now - math.log(1.0 - gap) / agents.rate, _ARRIVAL, 0)
                    session = arrive(sessions, engine, pool)
                begin_turn(sessions, engine, pool, agents, sizes, session, now, warmup)
            if end == math.inf and sessions.heap[0][0] > now:
                end = next_iteration(sessions, engine, pool, limits, busy, now, horizon, warmup)
                end_order = sessions.counts[_ORDER]
    return AgentsRun(
        sessions.counts, engine.counts, pool.levels, pool.counts, pool.sums, busy,
        sessions.first_token, sessions.latency,
    )  # fmt: skip


def next_iteration(
    sessions: Sessions,
    engine: Engine,
    pool: Pool,
    limits: Limits,
    busy: list[float],
    now: float,
    horizon: float,
    warmup: float,
) -> float:
    """Start an iteration, all events of this instant being handled; return when it ends.

    That is never when there is nothing to do.
    """
    until = min(sessions.heap[0][0], horizon)
    seconds = start_iteration(engine, pool, limits, now, until, warmup)
    works = seconds >= 0
    if works:
        sessions.counts[_ORDER] += 1
    if works != (busy[0] > 0):
        shift(busy, 0, 1.0 - 2.0 * busy[0], now)
    return now + seconds if works else math.inf


def new_sessions(warmup: float) -> Sessions:
    """Return nobody yet; the warm-up's end and the first arrival are due."""
    times = [0.0]
    times.clear()
    heap = [(0.0, 1, _ARRIVAL, 0), (warmup, 0, _WARM, 0)]
    heapq.heapify(heap)
    return Sessions([0, 0, 0, 0, 1], heap, [0.0], [0.0], times, times.copy())


def push(sessions: Sessions, at: float, kind: int, session: int) -> None:
    """Schedule an event; equal times happen in the order of scheduling."""
    sessions.counts[_ORDER] += 1
    heapq.heappush(sessions.heap, (at, sessions.counts[_ORDER], kind, session))


def arrive(sessions: Sessions, engine: Engine, pool: Pool) -> int:
    """Make room for a new session and return it."""
    sessions.counts[_ARRIVALS] += 1
    sessions.context.append(0.0)
    sessions.started.append(0.0)
    add_request(engine)
    add_session(pool)
    return sessions.counts[_ARRIVALS]


def begin_turn(
    sessions: Sessions,
    engine: Engine,
    pool: Pool,
    agents: Agents,
    sizes: Iterator[float],
    session: int,
    now: float,
    warmup: float,
) -> None:
    """Draw a turn and submit its request."""
    number = read(sizes)
    fresh = agents.first_low + (agents.first_high - agents.first_low) * number
    if sessions.context[session] > 0:
        fresh = -agents.later * math.log(1.0 - number)
    second = read(sizes)
    output = -agents.output * math.log(1.0 - second) + 1
    if agents.whole:
        fresh = 0.0 + math.ceil(fresh)
        output = 0.0 + math.ceil(output)
    sessions.started[session] = now
    if now >= warmup:
        sessions.counts[_TURNS] += 1
    submit(engine, pool, session, sessions.context[session] + fresh, output, now)


def answer(
    sessions: Sessions,
    engine: Engine,
    pool: Pool,
    agents: Agents,
    ways: Iterator[float],
    now: float,
    warmup: float,
) -> None:
    """Record the tokens of the iteration that has ended, and let finished sessions go on."""
    if now >= warmup:
        for place in range(engine.counts[PREFILLED]):
            session = engine.prefilled[place]
            sessions.first_token.append(now - sessions.started[session])
    for place in range(engine.counts[FINISHED]):
        session = engine.finished[place]
        if now >= warmup:
            sessions.latency.append(now - sessions.started[session])
        sessions.context[session] = engine.prompt[session] + engine.output[session]
        way = read(ways)
        if way < agents.again:
            pause = read(ways)
            push(sessions, now - agents.pause * math.log(1.0 - pause), _TURN, session)
        else:
            drop(pool, session, now)
            if now >= warmup:
                sessions.counts[_ENDED] += 1


def simulate_agents(
    agents: Agents,
    limits: Limits,
    *,
    horizon: float,
    warmup: float,
    seed: int = 1,
    fast: bool = False,
) -> AgentsRun:
    """Simulate sessions on one engine; `fast` compiles with numba first, with the same numbers."""
    keys = run_keys(seed)
    found: AgentsRun = kernel(run_agents, _TUPLES, fast=fast)(agents, limits, horizon, warmup, keys)
    return found


_TUPLES: Final[Mapping[Callable[..., Any], Sequence[str]]] = {
    new_pool: Pool._fields,
    new_engine: Engine._fields,
    new_sessions: Sessions._fields,
}
