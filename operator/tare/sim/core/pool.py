"""A pool of memory units: requests that hold some, prefixes that stay cached, a queue before it.

Each session has at most one hold, and one cached prefix that it can find again. Only the head of
the queue is looked at, cached units never block it, and at any time

    used + cached <= capacity

Sessions and prefixes are numbers, their index in every list. 0 is nobody, and the sentinel of both
linked lists: `after[0]` is the head of the queue, `newer[0]` the prefix that was released longest
ago. Lists in a tuple instead of objects, so that numba compiles these functions unchanged.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tare.sim.core.areas import shift

__all__ = [
    "ADMISSIONS",
    "CACHED",
    "EPSILON",
    "EVICTED",
    "EVICTED_UNITS",
    "HOLDERS",
    "QUEUED",
    "REJECTED",
    "USED",
    "WAITED",
    "WAITS",
    "Pool",
    "add_session",
    "consume",
    "drop",
    "enlarge",
    "enqueue",
    "evict",
    "evict_oldest",
    "fits",
    "full_blocks",
    "keep",
    "new_pool",
    "occupy",
    "overfull",
    "push_back",
    "release",
    "shorten",
    "take_head",
    "whole_blocks",
]

EPSILON: Final = 1e-9
"""Units: tokens may be real numbers, and their sums are compared."""

USED: Final = 0
CACHED: Final = 2
QUEUED: Final = 4
HOLDERS: Final = 6
"""Places in `levels`; the areas are behind them (`core.areas`)."""

ADMISSIONS: Final = 0
WAITED: Final = 1
EVICTED: Final = 2
REJECTED: Final = 3
TAIL: Final = 4
FREE: Final = 5
"""Places in `counts`; `WAITED` counts the admissions whose waits are summed, `FREE` is a prefix
number that can be used again, with the others behind it in `newer`; 0 for none."""

EVICTED_UNITS: Final = 0
WAITS: Final = 1
"""Places in `sums`."""


class Pool(NamedTuple):
    """All state of one pool; units are tokens or whatever the model counts."""

    levels: list[float]
    counts: list[int]
    sums: list[float]
    need: list[float]
    """Units that a session asks for or holds."""
    asked: list[float]
    """When it joined the queue."""
    found: list[float]
    """Units of its own prefix that its running hold took over."""
    after: list[int]
    """Who stands behind it in the queue: 0 for nobody, -1 when it does not wait itself."""
    entry: list[int]
    """Its cached prefix, 0 for none."""
    size: list[float]
    """By prefix from here on: its units."""
    last: list[float]
    """When it was released."""
    owner: list[int]
    """Whose it is, or was: what a session did not take over stays until it is evicted."""
    older: list[int]
    newer: list[int]


def new_pool() -> Pool:
    """Return an empty pool that knows no session yet."""
    return Pool(
        [0.0] * 8, [0] * 6, [0.0] * 2, [0.0], [0.0], [0.0], [0], [0],
        [0.0], [0.0], [0], [0], [0],
    )  # fmt: skip


def add_session(pool: Pool) -> None:
    """Make room for the next session in every list."""
    pool.need.append(0.0)
    pool.asked.append(0.0)
    pool.found.append(0.0)
    pool.after.append(-1)
    pool.entry.append(0)


def whole_blocks(units: float, block: float) -> float:
    """Return `units` rounded up to whole blocks; a block of 0 stands for none."""
    return math.ceil((units - EPSILON) / block) * block if block > 0 else units


def full_blocks(units: float, block: float) -> float:
    """Return `units` rounded down to whole blocks; a block of 0 stands for none."""
    return math.floor((units + EPSILON) / block) * block if block > 0 else units


def enqueue(pool: Pool, session: int, need: float, now: float) -> None:
    """Let a session wait for `need` units; its prefix can be evicted meanwhile."""
    pool.need[session] = need
    pool.asked[session] = now
    pool.after[session] = 0
    pool.after[pool.counts[TAIL]] = session
    pool.counts[TAIL] = session
    shift(pool.levels, QUEUED, 1.0, now)


def fits(pool: Pool, need: float, capacity: float) -> bool:
    """Whether `need` units are free when every cached one goes."""
    return pool.levels[USED] + need <= capacity + EPSILON


def take_head(pool: Pool, now: float, warmup: float) -> int:
    """Take the head off the queue and return it."""
    session = pool.after[0]
    pool.after[0] = pool.after[session]
    pool.after[session] = -1
    if pool.after[0] == 0:
        pool.counts[TAIL] = 0
    pool.counts[ADMISSIONS] += 1
    if now >= warmup:
        pool.counts[WAITED] += 1
        pool.sums[WAITS] += now - pool.asked[session]
    shift(pool.levels, QUEUED, -1.0, now)
    return session


def consume(pool: Pool, session: int, most: float, block: float, now: float) -> float:
    """Take over at most `most` units of the own prefix, in whole blocks, and return how many.

    They are safe from the evictions that the hold is about to cause. The rest keeps its age, but is
    nobody's any more. A negative `most` leaves the prefix alone.
    """
    entry = pool.entry[session]
    taken = pool.size[entry]
    if most < taken:
        taken = full_blocks(max(most, 0.0), block)
    if taken > 0:
        shorten(pool, entry, taken, now)
    if most >= 0:
        pool.entry[session] = 0
    pool.found[session] = taken
    return taken


def shorten(pool: Pool, entry: int, units: float, now: float) -> None:
    """Cut `units` off the end of a prefix; it is gone when nothing is left."""
    shift(pool.levels, CACHED, -units, now)
    rest = pool.size[entry] - units
    if rest > EPSILON:
        pool.size[entry] = rest
    else:
        pool.size[entry] = 0.0
        older = pool.older[entry]
        newer = pool.newer[entry]
        pool.newer[older] = newer
        pool.older[newer] = older
        pool.newer[entry] = pool.counts[FREE]
        pool.counts[FREE] = entry
        if pool.entry[pool.owner[entry]] == entry:
            pool.entry[pool.owner[entry]] = 0


def overfull(pool: Pool, need: float, capacity: float) -> bool:
    """Whether prefixes have to go before `need` more units fit."""
    return pool.levels[USED] + pool.levels[CACHED] + need > capacity + EPSILON


def evict_oldest(pool: Pool, need: float, capacity: float, block: float, now: float) -> None:
    """Evict by last release, the oldest first, until `need` more units fit."""
    while overfull(pool, need, capacity) and pool.newer[0] != 0:
        evict(pool, pool.newer[0], need, capacity, block, now)


def evict(pool: Pool, victim: int, need: float, capacity: float, block: float, now: float) -> None:
    """Evict one prefix, whole; or, with blocks, as many of its last ones as are needed."""
    units = pool.size[victim]
    if block > 0:
        short = pool.levels[USED] + pool.levels[CACHED] + need - capacity
        units = min(whole_blocks(short, block), units)
    pool.sums[EVICTED_UNITS] += units
    shorten(pool, victim, units, now)
    if pool.size[victim] == 0:
        pool.counts[EVICTED] += 1


def occupy(pool: Pool, session: int, need: float, now: float) -> None:
    """Give a session `need` units, for which there is room."""
    pool.need[session] = need
    shift(pool.levels, USED, need, now)
    shift(pool.levels, HOLDERS, 1.0, now)


def enlarge(pool: Pool, session: int, units: float, now: float) -> None:
    """Give a holder `units` more, for which there is room."""
    pool.need[session] += units
    shift(pool.levels, USED, units, now)


def push_back(pool: Pool, session: int, now: float) -> None:
    """Let a session wait before everybody else."""
    if pool.after[0] == 0:
        pool.counts[TAIL] = session
    pool.asked[session] = now
    pool.after[session] = pool.after[0]
    pool.after[0] = session
    shift(pool.levels, QUEUED, 1.0, now)


def release(pool: Pool, session: int, now: float) -> None:
    """Take the units of a session back."""
    shift(pool.levels, USED, -pool.need[session], now)
    shift(pool.levels, HOLDERS, -1.0, now)


def keep(pool: Pool, session: int, units: float, now: float) -> None:
    """Leave `units` as the session's prefix, the newest one; it replaces an earlier one."""
    drop(pool, session, now)
    if units > 0:
        if pool.counts[FREE] == 0:
            pool.counts[FREE] = len(pool.size)
            pool.size.append(0.0)
            pool.last.append(0.0)
            pool.owner.append(0)
            pool.older.append(0)
            pool.newer.append(0)
        entry = pool.counts[FREE]
        pool.counts[FREE] = pool.newer[entry]
        pool.entry[session] = entry
        pool.owner[entry] = session
        pool.size[entry] = units
        pool.last[entry] = now
        newest = pool.older[0]
        pool.older[entry] = newest
        pool.newer[entry] = 0
        pool.newer[newest] = entry
        pool.older[0] = entry
        shift(pool.levels, CACHED, units, now)


def drop(pool: Pool, session: int, now: float) -> None:
    """Discard the session's prefix, if there is one; this is no eviction."""
    entry = pool.entry[session]
    if entry != 0:
        shorten(pool, entry, pool.size[entry], now)
