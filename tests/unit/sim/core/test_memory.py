"""The KV memory of a serving engine: what a request holds, and what stays for the next one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tare.sim.core.memory import Hold, Memory, block_keys

SIZE = 4


def take(memory: Memory, ids: list[int], tokens: int | None = None) -> tuple[int, Hold]:
    """Hold a prompt with all of its full blocks named; return what it found."""
    keys = block_keys(ids, SIZE)
    found = memory.find(keys, len(ids))
    hold = memory.hold(keys[: found // SIZE], tokens or len(ids), room=tokens or len(ids))
    assert hold is not None
    memory.fill(hold, keys[found // SIZE :])
    return found, hold


def test_only_full_blocks_have_keys() -> None:
    assert [len(block_keys(range(n), 4)) for n in (0, 3, 4, 7, 8)] == [0, 0, 1, 1, 2]


def test_a_key_stands_for_the_whole_prefix() -> None:
    one, other = block_keys([1, 2, 3, 4, 5, 6], 2), block_keys([9, 2, 3, 4, 5, 6], 2)
    assert not set(one) & set(other)
    assert block_keys([1, 2, 3, 4, 7, 8], 2)[:2] == one[:2]


def test_salted_prompts_share_nothing() -> None:
    assert not set(block_keys([1, 2], 2)) & set(block_keys([1, 2], 2, root=5))


def test_keys_can_be_continued_from_known_ones() -> None:
    ids = list(range(10))
    assert block_keys(ids, 2, known=block_keys(ids[:5], 2)) == block_keys(ids, 2)[2:]


def test_a_block_that_two_requests_hold_counts_once() -> None:
    memory = Memory(10, SIZE)
    _, first = take(memory, [*range(8), 90])
    found, second = take(memory, [*range(8), 91])
    assert (found, memory.held) == (8, 4)
    memory.release(first)
    assert (memory.held, memory.cached) == (3, 0)
    memory.release(second)
    assert (memory.held, memory.cached) == (0, 2)


def test_a_hold_is_refused_when_its_room_is_not_there_even_without_the_cached_blocks() -> None:
    memory = Memory(4, SIZE)
    _, hold = take(memory, list(range(8)))
    assert memory.hold([], 4, room=12) is None
    assert memory.held == 2
    memory.release(hold)
    assert memory.hold([], 4, room=12) is not None


def test_a_hold_grows_by_blocks_until_the_pool_is_full() -> None:
    memory = Memory(3, SIZE)
    _, hold = take(memory, list(range(5)))
    assert memory.grow(hold, 8)
    assert memory.held == 2
    assert memory.grow(hold, 9)
    assert not memory.grow(hold, 13)
    assert (memory.held, hold.blocks) == (3, 3)


def test_the_least_recently_used_goes_first_and_its_end_before_its_start() -> None:
    memory = Memory(4, SIZE)
    old, new = [*range(8), 1], [*range(100, 104), 1]
    for ids in (old, new):
        memory.release(take(memory, ids)[1])
    assert memory.cached == 3
    _, hold = take(memory, list(range(200, 208)))  # two blocks: one is free, one has to go
    memory.release(hold)
    assert memory.find(block_keys(old, SIZE), len(old)) == SIZE
    assert memory.find(block_keys(new, SIZE), len(new)) == SIZE
    assert memory.evicted == 1


def test_clearing_keeps_what_is_held_and_evicts_nothing() -> None:
    memory = Memory(10, SIZE)
    memory.release(take(memory, list(range(8)))[1])
    take(memory, list(range(100, 108)))
    memory.clear()
    assert (memory.held, memory.cached, memory.evicted) == (2, 0, 0)


def test_only_computed_blocks_stay() -> None:
    memory = Memory(10, SIZE)
    _, hold = take(memory, list(range(12)))
    memory.release(hold, computed=1)
    assert (memory.held, memory.cached) == (0, 1)


_PROMPTS = st.lists(st.integers(0, 1), min_size=1, max_size=20)
_STEPS = st.lists(st.tuples(st.sampled_from("hgrc"), _PROMPTS, st.integers(0, 9)), max_size=60)


@given(_STEPS)
def test_held_and_cached_together_never_exceed_the_pool(
    steps: list[tuple[str, list[int], int]],
) -> None:
    memory, holds = Memory(8, SIZE), list[Hold]()
    for action, ids, number in steps:
        keys = block_keys(ids, SIZE)
        if action == "h":
            found = memory.find(keys, len(ids))
            hold = memory.hold(keys[: found // SIZE], len(ids), room=len(ids) + number)
            if hold is not None:
                memory.fill(hold, keys[found // SIZE :])
                holds.append(hold)
        elif action == "c":
            memory.clear()
        elif holds and action == "g":
            hold = holds[number % len(holds)]
            memory.grow(hold, hold.blocks * SIZE + number)
        elif holds:
            memory.release(holds.pop(number % len(holds)))
        shared = {key for hold in holds for key in hold.path}
        private = sum(hold.blocks - len(hold.path) for hold in holds)
        assert memory.held == len(shared) + private
        assert memory.held + memory.cached <= memory.capacity
