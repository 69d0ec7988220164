from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tare.sim.cache import BlockCache, Lease, block_keys
from tare.sim.core.prefixes import (
    EVICTED,
    HELD,
    Prefixes,
    acquire,
    complete,
    count_hits,
    has_room,
    hold_private,
    new_prefixes,
    release_path,
)

CAPACITY = 12


def test_prompts_share_the_blocks_of_their_common_beginning() -> None:
    prefixes = new_prefixes()
    first = block_keys([1, 2, 3, 4, 5, 6], 2)
    second = block_keys([1, 2, 3, 4, 9, 9], 2)
    assert acquire(prefixes, first, 0, CAPACITY) == 0
    assert acquire(prefixes, second, 0, CAPACITY) == 2
    assert prefixes.counts[HELD] == 4


def test_the_end_of_a_prefix_is_evicted_before_its_beginning() -> None:
    prefixes = new_prefixes()
    keys = block_keys(range(8), 2)
    acquire(prefixes, keys, 0, 4)
    release_path(prefixes, keys, 4, 0)
    acquire(prefixes, [99], 1, 4)
    assert count_hits(prefixes, keys) == 2
    assert prefixes.counts[EVICTED] == 2


def test_a_block_that_somebody_reads_is_never_evicted() -> None:
    prefixes = new_prefixes()
    system, other = block_keys([1, 1], 1), block_keys([7, 7], 1)
    acquire(prefixes, system, 0, 4)
    acquire(prefixes, other, 0, 4)
    release_path(prefixes, other, 2, 0)
    assert has_room(prefixes, [50, 51], 0, 4)
    acquire(prefixes, [50, 51], 0, 4)
    assert count_hits(prefixes, system) == 2
    assert not has_room(prefixes, [60], 0, 4)


def test_only_computed_blocks_stay() -> None:
    prefixes = new_prefixes()
    keys = block_keys(range(4), 1)
    acquire(prefixes, keys, 2, CAPACITY)
    release_path(prefixes, keys, 3, 2)
    assert count_hits(prefixes, keys) == 3
    assert prefixes.counts[:2] == [0, 3]


def test_an_answer_grows_as_far_as_there_is_room() -> None:
    prefixes = new_prefixes()
    acquire(prefixes, [1, 2], 0, 4)
    assert hold_private(prefixes, 2, 4)
    assert not hold_private(prefixes, 1, 4)


@dataclass
class Pair:
    """The trie, and the server's block cache given the same requests."""

    prefixes: Prefixes = field(default_factory=new_prefixes)
    cache: BlockCache = field(default_factory=lambda: BlockCache(CAPACITY))
    running: list[tuple[list[int], int, Lease]] = field(default_factory=list)
    now: int = 0

    def take(self, keys: list[int], private: int) -> None:
        lease = self.cache.take(keys, private)
        assert has_room(self.prefixes, keys, private, CAPACITY) == (lease is not None)
        if lease is not None:
            assert acquire(self.prefixes, keys, private, CAPACITY) == lease.hits
            for block in lease.new:
                block.ready_at = self.now
            self.running.append((keys, private, lease))

    def grow(self, at: int) -> None:
        keys, private, lease = self.running[at]
        if private:
            key = hash((keys[-1], 1))
            self.cache.extend(lease, [key])
            complete(self.prefixes, key)
            self.running[at] = ([*keys, key], private - 1, lease)

    def release(self, at: int) -> None:
        keys, private, lease = self.running.pop(at)
        self.now += 1
        self.cache.release(lease, self.now)
        release_path(self.prefixes, keys, len(keys), private)


_PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.sampled_from("tttgr"), _PROMPTS, st.integers(0, 3)), max_size=60))
def test_the_trie_does_what_the_cache_of_the_simulated_server_does(
    steps: list[tuple[str, list[int], int]],
) -> None:
    pair = Pair()
    for action, prompt, number in steps:
        if action == "t":
            pair.take(block_keys(prompt, 1), number)
        elif pair.running:
            at = number % len(pair.running)
            (pair.grow if action == "g" else pair.release)(at)
        held, cached, _ = pair.prefixes.counts
        assert (held, cached) == (pair.cache.in_use, pair.cache.cached)
        assert held + cached <= CAPACITY
