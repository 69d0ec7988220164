"""The KV memory of a serving engine: blocks that requests hold, and share by what is in them.

Rules as measured on a vLLM 0.32 (https://docs.vllm.ai/en/stable/design/prefix_caching/): the blocks
of a prompt that are there already are shared; a block gets its key, by which others find it, as
soon as the tokens that fill it are scheduled; what nobody holds stays cached until room is needed,
the least recently used first. The trie below is `core.prefixes`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.sim.core.prefixes import (
    CACHED,
    EVICTED,
    HELD,
    acquire,
    clear,
    complete,
    count_hits,
    has_room,
    hold_private,
    new_prefixes,
    release_path,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Hold", "Memory", "block_keys"]


def block_keys(
    ids: Sequence[int], size: int, *, root: int = 0, known: Sequence[int] = ()
) -> list[int]:
    """Return the chained keys of the full blocks of `ids`; a rest shorter than `size` has none.

    Args:
        ids: token ids.
        size: tokens a block.
        root: starts the chain; prompts with different roots (cache salts) share nothing.
        known: keys of the first blocks, computed before; only the keys after them are returned.
    """
    keys = []
    parent = known[-1] if known else root
    for start in range(len(known) * size, len(ids) - size + 1, size):
        # hash() of integers is the same in each process; only text is hashed with a random key.
        parent = hash((parent, tuple(ids[start : start + size])))
        keys.append(parent)
    return keys


class Hold:
    """The blocks that one running request holds."""

    __slots__ = ("blocks", "path")

    def __init__(self, path: list[int], blocks: int) -> None:
        self.path = path
        """Keys of its full blocks, from the start of the prompt."""
        self.blocks = blocks
        """All of them, with those that are not full yet."""


class Memory:
    """A pool of blocks; held and cached ones together never exceed `capacity`."""

    def __init__(self, capacity: int, block_size: int) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self._prefixes = new_prefixes()

    @property
    def held(self) -> int:
        """Blocks that running requests hold; a shared block counts once."""
        return self._prefixes.counts[HELD]

    @property
    def cached(self) -> int:
        """Blocks that nobody holds and a later prompt could find."""
        return self._prefixes.counts[CACHED]

    @property
    def evicted(self) -> int:
        """Blocks that had to go so far; a reset counts none."""
        return self._prefixes.counts[EVICTED]

    def knows(self, key: int) -> bool:
        """Whether a block of this key is there, held or cached."""
        return key in self._prefixes.blocks

    def find(self, keys: list[int], tokens: int) -> int:
        """Return how many of the first `tokens` tokens, in full blocks, are there.

        The last token of a prompt is always computed, so its block is never a hit.
        """
        hits = count_hits(self._prefixes, keys)
        return min(hits, (tokens - 1) // self.block_size) * self.block_size

    def hold(self, keys: list[int], tokens: int, room: int) -> Hold | None:
        """Hold blocks for `tokens` tokens, the first ones being those of `keys`, which are there.

        None when there would be no room for `room` tokens, even if all that is cached went.
        """
        found = len(keys)
        if not has_room(self._prefixes, keys, self.blocks(room) - found, self.capacity):
            return None
        blocks = self.blocks(tokens)
        acquire(self._prefixes, keys, blocks - found, self.capacity)
        return Hold(keys, blocks)

    def grow(self, hold: Hold, tokens: int) -> bool:
        """Enlarge a hold to `tokens` tokens; False when there is no room for more blocks."""
        if tokens <= hold.blocks * self.block_size:
            return True
        more = self.blocks(tokens) - hold.blocks
        if not hold_private(self._prefixes, more, self.capacity):
            return False
        hold.blocks += more
        return True

    def fill(self, hold: Hold, keys: Sequence[int]) -> int:
        """Let others find the next blocks of a hold, which are full; return how many are new."""
        new = 0
        for key in keys:
            new += complete(self._prefixes, key)
            hold.path.append(key)
        return new

    def release(self, hold: Hold, computed: int | None = None) -> None:
        """Give all blocks back; the full ones stay cached, or just the first `computed` ones.

        The last block of a prefix becomes the oldest, since it is useless without those before it.
        """
        full = len(hold.path)
        kept = full if computed is None else computed
        release_path(self._prefixes, hold.path, kept, hold.blocks - full)

    def clear(self) -> None:
        """Forget every block that nobody holds."""
        clear(self._prefixes)

    def blocks(self, tokens: int) -> int:
        """Return the blocks that so many tokens need."""
        return -(-tokens // self.block_size)
