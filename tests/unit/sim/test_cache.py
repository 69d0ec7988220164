"""The pool of KV blocks: sharing, eviction, and that it never holds more than it has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tare.sim.cache import BlockCache, Lease, block_keys


def take(cache: BlockCache, *keys: int, private: int = 0) -> Lease:
    lease = cache.take(keys, private)
    assert lease is not None
    return lease


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


def test_hits_end_at_the_first_block_that_is_missing() -> None:
    cache = BlockCache(10)
    cache.release(take(cache, 1, 2, 4), now=0)
    lease = take(cache, 1, 2, 3, 4)
    assert lease.hits == 2
    assert [block.key for block in lease.new] == [3]


def test_a_block_that_two_sequences_use_counts_once() -> None:
    cache = BlockCache(10)
    first, second = take(cache, 1, 2, private=1), take(cache, 1, 2, private=1)
    assert cache.in_use == 4
    cache.release(first, now=0)
    assert (cache.in_use, cache.cached) == (3, 0)
    cache.release(second, now=0)
    assert (cache.in_use, cache.cached) == (0, 2)


def test_the_least_recently_used_prefix_goes_first_and_its_end_before_its_start() -> None:
    cache = BlockCache(4)
    cache.release(take(cache, 1, 2), now=0)
    cache.release(take(cache, 3, 4), now=0)
    cache.release(take(cache, 1, 2), now=0)
    cache.release(take(cache, 5), now=0)
    assert take(cache, 1, 2).hits == 2
    assert take(cache, 3).hits == 1
    assert take(cache, 4).hits == 0


def test_a_sequence_that_does_not_fit_takes_nothing() -> None:
    cache = BlockCache(3)
    take(cache, 1, 2)
    assert cache.take([3], 1) is None
    assert cache.in_use == 2


def test_blocks_that_are_not_computed_yet_are_no_use_to_anybody_after_an_abort() -> None:
    cache = BlockCache(4)
    lease = take(cache, 1, 2)
    lease.new[0].ready_at, lease.new[1].ready_at = 10, 20
    cache.release(lease, now=15)
    assert take(cache, 1, 2).hits == 1


def test_private_blocks_become_shared_when_their_content_is_complete() -> None:
    cache = BlockCache(4)
    lease = take(cache, 1, private=2)
    cache.extend(lease, [2])
    cache.release(lease, now=0)
    assert cache.cached == 2
    assert take(cache, 1, 2).hits == 2


def test_dropping_the_unused_keeps_what_is_in_use() -> None:
    cache = BlockCache(4)
    cache.release(take(cache, 1), now=0)
    take(cache, 2)
    cache.drop_unused()
    assert (cache.in_use, cache.cached) == (1, 0)


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5), st.integers(0, 4), st.integers(0, 3))))
def test_use_and_cache_together_never_exceed_the_pool(
    steps: list[tuple[bool, int, int, int]],
) -> None:
    cache, leases = BlockCache(8), list[Lease]()
    for gives_back, family, blocks, private in steps:
        if gives_back and leases:
            cache.release(leases.pop(family % len(leases)), now=0)
        else:
            keys = [100 * family + number for number in range(blocks)]
            lease = cache.take(keys, private)
            if lease is not None:
                leases.append(lease)
        held = {block.key for lease in leases for block in lease.blocks}
        assert cache.in_use == len(held) + sum(lease.private for lease in leases)
        assert cache.in_use + cache.cached <= cache.capacity
    for lease in leases:
        cache.release(lease, now=0)
    assert cache.in_use == 0
