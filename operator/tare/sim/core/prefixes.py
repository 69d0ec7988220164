"""Prefixes that requests share: a trie of KV blocks.

A block is known by a key that hashes its tokens and its parent's key, so a key stands for the whole
path from the root, and equal prompts share blocks without anybody declaring it. Blocks count their
readers; those without any stay cached and are evicted by their last release.

Only leaves are ever evicted, with no child to look for: a reader of a block reads all blocks before
it, and gives them back from the end to the start, so that a child always stands before its parent
in the order of eviction. The rules are those measured on vLLM 0.32. Flat lists and plain functions,
as everywhere in the core; `core.memory` is how serving engines use them.

    held + cached <= capacity          (blocks, at any time)
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = [
    "CACHED",
    "EVICTED",
    "HELD",
    "Prefixes",
    "acquire",
    "clear",
    "complete",
    "count_hits",
    "has_room",
    "hold_private",
    "new_prefixes",
    "release_path",
]

HELD: Final = 0
CACHED: Final = 1
EVICTED: Final = 2
"""Places in `counts`: blocks with readers or private, blocks without, and evictions so far."""


class Prefixes(NamedTuple):
    """All blocks; a block's number is its index in every list, and 0 is none."""

    counts: list[int]
    key: list[int]
    readers: list[int]
    older: list[int]
    newer: list[int]
    """Order of eviction among blocks without readers; `newer[0]` goes first."""
    blocks: dict[int, int]
    """Numbers by key."""
    free: list[int]
    """Numbers that can be used again."""


def new_prefixes() -> Prefixes:
    """Return an empty trie."""
    free = [0]
    free.clear()
    blocks = {0: 0}
    blocks.clear()
    return Prefixes([0, 0, 0], [0], [0], [0], [0], blocks, free)


def count_hits(prefixes: Prefixes, keys: list[int]) -> int:
    """Return how many leading blocks of a prompt are there."""
    hits = 0
    while hits < len(keys) and keys[hits] in prefixes.blocks:
        hits += 1
    return hits


def has_room(prefixes: Prefixes, keys: list[int], private: int, capacity: int) -> bool:
    """Whether a prompt's blocks and `private` more fit when every unread block may go."""
    more = private
    for key in keys:
        block = prefixes.blocks.get(key, 0)
        if block == 0 or prefixes.readers[block] == 0:
            more += 1
    return prefixes.counts[HELD] + more <= capacity


def acquire(prefixes: Prefixes, keys: list[int], private: int, capacity: int) -> int:
    """Read the blocks of a prompt, for which there is room; return how many were there already.

    All of its own blocks are safe before the first one is evicted to make room for the others.
    """
    hits = missing = 0
    for key in keys:
        block = prefixes.blocks.get(key, 0)
        if block == 0:
            missing += 1
        else:
            read_block(prefixes, block)
            if missing == 0:
                hits += 1
    make_room(prefixes, missing + private, capacity)
    prefixes.counts[HELD] += private
    for key in keys:
        if key not in prefixes.blocks:
            add_block(prefixes, key)
    return hits


def hold_private(prefixes: Prefixes, blocks: int, capacity: int) -> bool:
    """Hold more blocks without a key, as a growing answer does; False when they do not fit."""
    room = prefixes.counts[HELD] + blocks <= capacity
    if room:
        make_room(prefixes, blocks, capacity)
        prefixes.counts[HELD] += blocks
    return room


def complete(prefixes: Prefixes, key: int) -> bool:
    """Give a private block that is full now its key; whether nobody else had one of this key.

    If somebody had, the copy goes.
    """
    prefixes.counts[HELD] -= 1
    block = prefixes.blocks.get(key, 0)
    if block == 0:
        add_block(prefixes, key)
    else:
        read_block(prefixes, block)
    return block == 0


def release_path(prefixes: Prefixes, keys: list[int], computed: int, private: int) -> None:
    """Give blocks back; the first `computed` ones stay cached unless somebody reads them still."""
    prefixes.counts[HELD] -= private
    for place in range(len(keys) - 1, -1, -1):
        block = prefixes.blocks[keys[place]]
        prefixes.readers[block] -= 1
        if prefixes.readers[block] == 0:
            prefixes.counts[HELD] -= 1
            if place < computed:
                prefixes.counts[CACHED] += 1
                newest = prefixes.older[0]
                prefixes.older[block] = newest
                prefixes.newer[block] = 0
                prefixes.newer[newest] = block
                prefixes.older[0] = block
            else:
                forget(prefixes, block)


def clear(prefixes: Prefixes) -> None:
    """Forget every block that nobody reads; this is no eviction."""
    while prefixes.newer[0] != 0:
        block = prefixes.newer[0]
        unlink(prefixes, block)
        forget(prefixes, block)


def read_block(prefixes: Prefixes, block: int) -> None:
    """Add a reader; a block that had none is no longer evictable."""
    if prefixes.readers[block] == 0:
        unlink(prefixes, block)
        prefixes.counts[HELD] += 1
    prefixes.readers[block] += 1


def unlink(prefixes: Prefixes, block: int) -> None:
    """Take a block out of the order of eviction."""
    prefixes.counts[CACHED] -= 1
    older, newer = prefixes.older[block], prefixes.newer[block]
    prefixes.newer[older] = newer
    prefixes.older[newer] = older


def make_room(prefixes: Prefixes, blocks: int, capacity: int) -> None:
    """Evict until `blocks` more fit."""
    while prefixes.counts[HELD] + prefixes.counts[CACHED] + blocks > capacity:
        block = prefixes.newer[0]
        unlink(prefixes, block)
        forget(prefixes, block)
        prefixes.counts[EVICTED] += 1


def add_block(prefixes: Prefixes, key: int) -> None:
    """Add a block with one reader."""
    if len(prefixes.free) > 0:
        block = prefixes.free.pop()
    else:
        block = len(prefixes.key)
        prefixes.key.append(0)
        prefixes.readers.append(0)
        prefixes.older.append(0)
        prefixes.newer.append(0)
    prefixes.key[block] = key
    prefixes.readers[block] = 1
    prefixes.blocks[key] = block
    prefixes.counts[HELD] += 1


def forget(prefixes: Prefixes, block: int) -> None:
    """Remove a block that nobody reads and that is in no order."""
    del prefixes.blocks[prefixes.key[block]]
    prefixes.free.append(block)
