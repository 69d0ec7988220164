"""Multi-turn sessions before one server in order of arrival: the model of a prefix cache alone.

The same sessions as in `core.agents`, on a simpler machine. A turn waits for memory for its
context, its new tokens and its answer together, then for the server, which takes one turn at a
time, and a fixed time for each token that it computes: those of a context that is still cached are
free. Memory is held while a turn waits for the server. Whole prefixes are evicted, the oldest
first, or blocks from their ends.

A turn that needs more than all memory ends its session at once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from tare.sim.core.areas import restart, shift
from tare.sim.core.kernels import kernel
from tare.sim.core.pool import (
    EPSILON,
    REJECTED,
    Pool,
    add_session,
    consume,
    drop,
    enqueue,
    evict_oldest,
    fits,
    keep,
    new_pool,
    occupy,
    release,
    take_head,
    whole_blocks,
)
from tare.sim.core.streams import Key, ordered, read, run_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from tare.sim.core.agents import Agents

__all__ = ["ARRIVED", "ENDED", "EVENTS", "TURNS", "Server", "TurnsRun", "simulate_turns"]

EVENTS: Final = 0
ARRIVED: Final = 1
TURNS: Final = 2
ENDED: Final = 3
"""Places in `counts`."""
_TAIL: Final = 4
_NEXT: Final = 5


class Server(NamedTuple):
    """Size and speed of the server."""

    capacity: float
    """Tokens of memory."""
    block: float
    """Tokens that are held and evicted together; 0 for exact holds and whole prefixes."""
    prompt: float
    """Seconds for each token of a prompt that is not cached."""
    output: float
    """Seconds for each token of an answer."""


class TurnsRun(NamedTuple):
    """What a run counted and saw."""

    counts: list[int]
    """Events, arrivals; turns and ended sessions after the warm-up."""
    pool_levels: list[float]
    pool_counts: list[int]
    pool_sums: list[float]
    busy: list[float]
    """1 while the server works, with its area."""
    latency: list[float]
    """Seconds from a turn's start to its end, after the warm-up."""
    hits: list[int]
    """1 for each of these turns but a session's first whose context was cached, else 0."""


class Line(NamedTuple):
    """State of the sessions, and of the line before the server."""

    counts: list[int]
    context: list[float]
    fresh: list[float]
    output: list[float]
    started: list[float]
    found: list[int]
    """1 when the running turn's context was cached."""
    work: list[float]
    """Seconds of the turn at the server; for ever when it is nobody's."""
    back: list[float]
    """When it comes back from its pause; of nobody, never."""
    after: list[int]
    """Who stands behind it in the line, of which `after[0]` is next, or comes back after it."""
    free: list[int]
    """Numbers of sessions that are gone."""
    latency: list[float]
    hits: list[int]


def run_turns(
    agents: Agents, server: Server, horizon: float, warmup: float, keys: tuple[Key, Key, Key]
) -> TurnsRun:
    """Run sessions from an empty server at time 0 to the horizon.

    `keys` are those of the streams of arrivals, tokens, and sessions.
    """
    gaps = ordered(keys[0])
    sizes = ordered(keys[1])
    ways = ordered(keys[2])
    pool = new_pool()
    line = new_line()
    busy = [0.0, 0.0]
    arrival, end, serving, now = 0.0, math.inf, 0, 0.0
    warm = False
    while now <= horizon:
        now = min(arrival, end, line.back[line.counts[_NEXT]])
        if not warm and now >= warmup:
            warm = True
            begin_measuring(line, pool, busy, warmup)
        if now <= horizon:
            line.counts[EVENTS] += 1
            done = 0
            if now == end:
                done = serving
                serving = next_in_line(line, busy, now)
                end = now + line.work[serving]
                release(pool, done, now)
                keep(pool, done, pool.need[done], now)
            elif now == arrival:
                gap = read(gaps)
                arrival = now - math.log(1.0 - gap) / agents.rate
                session = arrive(line, pool)
                begin_turn(line, pool, server, agents, sizes, session, now, warm)
            else:
                session = line.counts[_NEXT]
                line.counts[_NEXT] = line.after[session]
                begin_turn(line, pool, server, agents, sizes, session, now, warm)
            while pool.after[0] != 0 and fits(pool, pool.need[pool.after[0]], server.capacity):
                head = admit(line, pool, server, now, warmup)
                if serving != 0:
                    join_line(line, head)
                else:
                    serving, end = head, now + line.work[head]
                    shift(busy, 0, 1.0, now)
            if done != 0:
                end_turn(line, pool, agents, ways, done, now, warm)
    return TurnsRun(
        line.counts, pool.levels, pool.counts, pool.sums, busy, line.latency, line.hits,
    )  # fmt: skip


def begin_measuring(line: Line, pool: Pool, busy: list[float], warmup: float) -> None:
    """End the warm-up, which is an event like others."""
    line.counts[EVENTS] += 1
    restart(pool.levels, warmup)
    restart(busy, warmup)


def join_line(line: Line, session: int) -> None:
    """Let a turn stand at the end of the line before the server."""
    line.after[session] = 0
    line.after[line.counts[_TAIL]] = session
    line.counts[_TAIL] = session


def next_in_line(line: Line, busy: list[float], now: float) -> int:
    """Take the first turn out of the line; 0, who never ends, when the server has to rest."""
    session = line.after[0]
    if session != 0:
        line.after[0] = line.after[session]
        if line.after[0] == 0:
            line.counts[_TAIL] = 0
    else:
        shift(busy, 0, -1.0, now)
    return session


def new_line() -> Line:
    """Return nobody yet."""
    times = [0.0]
    times.clear()
    places = [0]
    places.clear()
    return Line(
        [0] * 6, [0.0], [0.0], [0.0], [0.0], [0], [math.inf], [math.inf], [0],
        places.copy(), times, places,
    )  # fmt: skip


def arrive(line: Line, pool: Pool) -> int:
    """Return a new session, which may have the number of one that is gone."""
    line.counts[ARRIVED] += 1
    if len(line.free) == 0:
        line.free.append(len(line.context))
        line.context.append(0.0)
        line.fresh.append(0.0)
        line.output.append(0.0)
        line.started.append(0.0)
        line.found.append(0)
        line.work.append(0.0)
        line.back.append(0.0)
        line.after.append(0)
        add_session(pool)
    session = line.free.pop()
    line.context[session] = 0.0
    return session


def begin_turn(
    line: Line,
    pool: Pool,
    server: Server,
    agents: Agents,
    sizes: Iterator[float],
    session: int,
    now: float,
    warm: bool,
) -> None:
    """Draw a turn and let it wait for its memory; one that can never have it ends its session."""
    number = read(sizes)
    fresh = agents.first_low + (agents.first_high - agents.first_low) * number
    if line.context[session] > 0:
        fresh = -agents.later * math.log(1.0 - number)
    second = read(sizes)
    output = -agents.output * math.log(1.0 - second)
    if agents.whole:
        fresh = 0.0 + math.ceil(fresh)
        output = 0.0 + math.ceil(output)
    line.fresh[session] = fresh
    line.output[session] = output
    line.started[session] = now
    if warm:
        line.counts[TURNS] += 1
    need = whole_blocks(line.context[session] + fresh + output, server.block)
    if need > server.capacity + EPSILON:
        pool.counts[REJECTED] += 1
        leave(line, pool, session, warm)
    else:
        enqueue(pool, session, need, now)


def admit(line: Line, pool: Pool, server: Server, now: float, warmup: float) -> int:
    """Admit the head of the queue, for which there is room."""
    session = take_head(pool, now, warmup)
    found = consume(pool, session, math.inf, server.block, now)
    evict_oldest(pool, pool.need[session], server.capacity, server.block, now)
    occupy(pool, session, pool.need[session], now)
    computed = line.fresh[session]
    line.found[session] = 1 if found >= line.context[session] else 0
    if line.found[session] == 0:
        computed = line.context[session] + computed
    line.work[session] = server.prompt * computed + server.output * line.output[session]
    return session


def end_turn(
    line: Line,
    pool: Pool,
    agents: Agents,
    ways: Iterator[float],
    session: int,
    now: float,
    warm: bool,
) -> None:
    """Record a turn that is served, and let its session go on or leave."""
    if warm:
        line.latency.append(now - line.started[session])
        if line.context[session] > 0:
            line.hits.append(line.found[session])
    # The same sum as that of the prefix that was kept, or rounding would lose hits.
    line.context[session] = line.context[session] + line.fresh[session] + line.output[session]
    way = read(ways)
    if way < agents.again:
        pause = read(ways)
        come_back(line, session, now - agents.pause * math.log(1.0 - pause))
    else:
        drop(pool, session, now)
        leave(line, pool, session, warm)


def come_back(line: Line, session: int, at: float) -> None:
    """Let a session return at that time; those that pause are few, so that a list is enough."""
    line.back[session] = at
    place = line.counts[_NEXT]
    if at < line.back[place]:
        line.after[session] = place
        line.counts[_NEXT] = session
    else:
        while line.back[line.after[place]] <= at:
            place = line.after[place]
        line.after[session] = line.after[place]
        line.after[place] = session


def leave(line: Line, pool: Pool, session: int, warm: bool) -> None:
    """End a session; what it leaves in memory is nobody's."""
    pool.entry[session] = 0
    line.free.append(session)
    if warm:
        line.counts[ENDED] += 1


def simulate_turns(
    agents: Agents,
    server: Server,
    *,
    horizon: float,
    warmup: float,
    seed: int = 1,
    fast: bool = False,
) -> TurnsRun:
    """Simulate sessions before one server; `fast` compiles with numba first, same numbers."""
    keys = run_keys(seed)
    found: TurnsRun = kernel(run_turns, _TUPLES, fast=fast)(agents, server, horizon, warmup, keys)
    return found


_TUPLES: Final[Mapping[Callable[..., Any], Sequence[str]]] = {
    new_pool: Pool._fields,
    new_line: Line._fields,
}
