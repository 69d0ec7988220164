from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tare.sim.core.memory import block_keys
from tare.sim.core.prefixes import (
    EVICTED,
    HELD,
    Prefixes,
    acquire,
    clear,
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
class Plain:
    """The same pool written plainly: readers by key, and unread keys by their last release."""

    readers: dict[int, int] = field(default_factory=dict)
    unread: list[int] = field(default_factory=list)
    private: int = 0

    @property
    def held(self) -> int:
        return len(self.readers) + self.private

    def fits(self, keys: list[int], private: int) -> bool:
        return self.held + sum(key not in self.readers for key in keys) + private <= CAPACITY

    def take(self, keys: list[int], private: int) -> int:
        there = [key in self.readers or key in self.unread for key in keys]
        self.private += private
        for key in keys:
            self.read(key)
        self.unread = self.unread[max(0, self.held + len(self.unread) - CAPACITY) :]
        return [*there, False].index(False)

    def read(self, key: int) -> None:
        self.readers[key] = self.readers.get(key, 0) + 1
        if key in self.unread:
            self.unread.remove(key)

    def name(self, key: int) -> None:
        self.private -= 1
        self.read(key)

    def give_back(self, keys: list[int], private: int) -> None:
        self.private -= private
        for key in reversed(keys):
            self.readers[key] -= 1
            if not self.readers[key]:
                del self.readers[key]
                self.unread.append(key)


@dataclass
class Pair:
    """The trie, and the plain pool given the same requests."""

    prefixes: Prefixes = field(default_factory=new_prefixes)
    plain: Plain = field(default_factory=Plain)
    running: list[tuple[list[int], int]] = field(default_factory=list)

    def take(self, keys: list[int], private: int) -> None:
        fits = has_room(self.prefixes, keys, private, CAPACITY)
        assert fits == self.plain.fits(keys, private)
        if fits:
            hits = acquire(self.prefixes, keys, private, CAPACITY)
            assert hits == self.plain.take(keys, private)
            self.running.append((keys, private))

    def grow(self, at: int) -> None:
        keys, private = self.running[at]
        if private:
            key = hash((keys[-1], 1))
            self.plain.name(key)
            complete(self.prefixes, key)
            self.running[at] = ([*keys, key], private - 1)

    def release(self, at: int) -> None:
        keys, private = self.running.pop(at)
        self.plain.give_back(keys, private)
        release_path(self.prefixes, keys, len(keys), private)


_PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=6)


@given(st.lists(st.tuples(st.sampled_from("tttgrc"), _PROMPTS, st.integers(0, 3)), max_size=60))
def test_the_trie_does_what_a_plain_pool_does(steps: list[tuple[str, list[int], int]]) -> None:
    pair = Pair()
    for action, prompt, number in steps:
        if action == "t":
            pair.take(block_keys(prompt, 1), number)
        elif action == "c":
            clear(pair.prefixes)
            pair.plain.unread = []
        elif pair.running:
            at = number % len(pair.running)
            (pair.grow if action == "g" else pair.release)(at)
        held, cached, _ = pair.prefixes.counts
        assert (held, cached) == (pair.plain.held, len(pair.plain.unread))
        assert held + cached <= CAPACITY
