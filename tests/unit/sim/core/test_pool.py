from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tare.sim.core.areas import average, restart
from tare.sim.core.pool import (
    CACHED,
    EPSILON,
    EVICTED,
    EVICTED_UNITS,
    HOLDERS,
    QUEUED,
    USED,
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
    push_back,
    release,
    take_head,
)

SESSIONS = 5
CAPACITY = 100.0


def pool_of(sessions: int = SESSIONS) -> Pool:
    pool = new_pool()
    for _ in range(sessions):
        add_session(pool)
    return pool


def size_of(pool: Pool, session: int) -> float:
    return pool.size[pool.entry[session]]


def cached_order(pool: Pool) -> list[int]:
    """Whose prefixes are cached, the one that would be evicted first leading."""
    order, at = [], pool.newer[0]
    while at:
        order.append(pool.owner[at])
        at = pool.newer[at]
    return order


@dataclass
class Holder:
    """Drives a pool as an event loop does: request, admission, release."""

    block: float
    pool: Pool = field(default_factory=pool_of)
    now: float = 0.0
    holding: set[int] = field(default_factory=set)
    waiting: list[int] = field(default_factory=list)

    def ask(self, session: int, need: float) -> None:
        if session not in self.holding and session not in self.waiting:
            enqueue(self.pool, session, need, self.now)
            self.waiting.append(session)
        self.admit()

    def admit(self) -> None:
        pool = self.pool
        while self.waiting and fits(pool, pool.need[pool.after[0]], CAPACITY):
            session = take_head(pool, self.now, 0.0)
            assert session == self.waiting.pop(0)
            need = pool.need[session]
            own = size_of(pool, session)
            assert consume(pool, session, math.inf, self.block, self.now) == own
            evict_oldest(pool, need, CAPACITY, self.block, self.now)
            occupy(pool, session, need, self.now)
            self.holding.add(session)

    def end(self, session: int, kept: float) -> None:
        if session in self.holding:
            self.holding.remove(session)
            release(self.pool, session, self.now)
            keep(self.pool, session, min(kept, self.pool.need[session]), self.now)
            self.admit()


_SIZES = st.integers(0, 100)
_ASK = st.tuples(st.just("ask"), st.integers(1, SESSIONS), _SIZES)
_END = st.tuples(st.just("end"), st.integers(1, SESSIONS), _SIZES)
_DROP = st.tuples(st.just("drop"), st.integers(1, SESSIONS), st.just(0))


@given(
    steps=st.lists(st.one_of(_ASK, _ASK, _END, _DROP), max_size=60),
    block=st.sampled_from([0.0, 4.0]),
)
def test_used_and_cached_units_together_never_exceed_the_capacity(
    steps: list[tuple[str, int, int]], block: float
) -> None:
    holder = Holder(block=block)
    pool = holder.pool
    for action, session, size in steps:
        holder.now += 1.0
        units = float(size) if not block else size // block * block
        match action:
            case "ask":
                holder.ask(session, units)
            case "end":
                holder.end(session, units)
            case _:
                drop(pool, session, holder.now)
        assert pool.levels[USED] + pool.levels[CACHED] <= CAPACITY + EPSILON
        assert pool.levels[USED] == pytest.approx(sum(pool.need[s] for s in holder.holding))
        assert pool.levels[CACHED] == pytest.approx(sum(pool.size))
        assert pool.levels[QUEUED] == len(holder.waiting)
        assert pool.levels[HOLDERS] == len(holder.holding)
        owners = [session for session in range(1, SESSIONS + 1) if size_of(pool, session) > 0]
        assert sorted(cached_order(pool)) == owners


def test_the_prefix_that_was_released_longest_ago_is_evicted_first_and_whole() -> None:
    pool = pool_of()
    for session in (2, 1, 3):
        keep(pool, session, 30.0, float(session))
    evict_oldest(pool, 20.0, CAPACITY, 0.0, 4.0)
    assert cached_order(pool) == [1, 3]
    assert (pool.counts[EVICTED], pool.sums[EVICTED_UNITS]) == (1, 30.0)


def test_with_blocks_only_the_tail_that_is_needed_goes_and_the_rest_keeps_its_place() -> None:
    pool = pool_of()
    keep(pool, 1, 48.0, 1.0)
    keep(pool, 2, 48.0, 2.0)
    evict_oldest(pool, 10.0, CAPACITY, 16.0, 3.0)
    assert [size_of(pool, 1), size_of(pool, 2)] == [32.0, 48.0]
    assert cached_order(pool) == [1, 2]
    assert (pool.counts[EVICTED], pool.sums[EVICTED_UNITS]) == (0, 16.0)


def test_a_session_is_not_hit_by_the_evictions_of_its_own_hold() -> None:
    pool = pool_of()
    keep(pool, 1, 60.0, 1.0)
    keep(pool, 2, 40.0, 2.0)
    assert consume(pool, 1, math.inf, 0.0, 3.0) == 60.0
    evict_oldest(pool, 70.0, CAPACITY, 0.0, 3.0)
    assert pool.found[1] == 60.0
    assert cached_order(pool) == []


@pytest.mark.parametrize(
    ("most", "block", "taken"), [(25.0, 0.0, 25.0), (25.0, 16.0, 16.0), (80.0, 16.0, 48.0)]
)
def test_reuse_takes_at_most_so_much_in_whole_blocks_and_leaves_the_rest(
    most: float, block: float, taken: float
) -> None:
    pool = pool_of()
    keep(pool, 1, 48.0, 1.0)
    assert consume(pool, 1, most, block, 2.0) == taken
    assert pool.levels[CACHED] == 48.0 - taken
    assert pool.last[pool.newer[0]] == (1.0 if taken < 48.0 else 0.0)


def test_what_a_session_did_not_reuse_is_nobodys_and_waits_for_its_eviction() -> None:
    pool = pool_of()
    keep(pool, 1, 48.0, 1.0)
    consume(pool, 1, 16.0, 16.0, 2.0)
    keep(pool, 1, 20.0, 3.0)
    assert size_of(pool, 1) == 20.0
    assert pool.levels[CACHED] == 52.0
    evict_oldest(pool, 60.0, CAPACITY, 0.0, 4.0)
    assert (size_of(pool, 1), pool.levels[CACHED]) == (20.0, 20.0)


def test_a_hold_that_does_not_cache_leaves_the_prefix_where_it_is() -> None:
    pool = pool_of()
    keep(pool, 1, 48.0, 1.0)
    assert consume(pool, 1, -1.0, 0.0, 2.0) == 0.0
    assert size_of(pool, 1) == 48.0


def test_a_dropped_or_replaced_prefix_is_no_eviction() -> None:
    pool = pool_of()
    keep(pool, 1, 10.0, 1.0)
    keep(pool, 1, 20.0, 2.0)
    drop(pool, 1, 3.0)
    assert pool.levels[CACHED] == 0
    assert pool.counts[EVICTED] == 0


def test_a_session_that_is_pushed_back_is_admitted_before_those_who_wait() -> None:
    pool = pool_of()
    enqueue(pool, 1, 5.0, 0.0)
    push_back(pool, 2, 1.0)
    enqueue(pool, 3, 5.0, 2.0)
    assert [take_head(pool, 3.0, 0.0) for _ in range(3)] == [2, 1, 3]
    push_back(pool, 4, 4.0)
    enqueue(pool, 5, 5.0, 4.0)
    assert [take_head(pool, 5.0, 0.0) for _ in range(2)] == [4, 5]


def test_time_averages_leave_out_what_was_before_the_warm_up() -> None:
    pool = pool_of()
    occupy(pool, 1, 50.0, 0.0)
    restart(pool.levels, 10.0)
    release(pool, 1, 12.0)
    assert average(pool.levels, USED, 10.0, 20.0) == pytest.approx(10.0)
