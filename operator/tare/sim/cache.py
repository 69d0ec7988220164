"""Prefix cache of a simulated server: a pool of KV blocks of which prompts share equal prefixes.

A block is known by a key that hashes its tokens and its parent's key, so a key stands for the whole
prefix up to it and a prompt's hits are the leading keys that are present. Blocks in use are counted
by reference; unused ones stay, and the least recently used goes first when room is needed. The
rules are those measured on vLLM 0.32 (https://docs.vllm.ai/en/stable/design/prefix_caching/).
Time is not known here: when a block's content is computed is written on it by the engine.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Block", "BlockCache", "Lease", "block_keys"]


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


class Block:
    """One block that is in use or cached."""

    __slots__ = ("key", "ready_at", "users")

    def __init__(self, key: int) -> None:
        self.key = key
        self.users = 1
        self.ready_at = 0
        """When its content is computed, on the engine's clock."""


class Lease:
    """The blocks that one running sequence holds."""

    __slots__ = ("blocks", "hits", "new", "private")

    def __init__(self, hits: int, private: int) -> None:
        self.blocks: list[Block] = []
        """Blocks with a key, in the order of the prompt."""
        self.new: list[Block] = []
        """Those of `blocks` that were not cached before."""
        self.hits = hits
        """Leading blocks that were."""
        self.private = private
        """Blocks without a key: the unfinished end, and room for what will be generated."""


class BlockCache:
    """A pool of `capacity` blocks; blocks in use and cached ones together never exceed it."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._blocks: dict[int, Block] = {}
        self._unused: OrderedDict[int, None] = OrderedDict()
        self._private = 0

    @property
    def in_use(self) -> int:
        """Blocks that running sequences hold; a shared block counts once."""
        return len(self._blocks) - len(self._unused) + self._private

    @property
    def cached(self) -> int:
        """Blocks that nobody uses and a later prompt could find."""
        return len(self._unused)

    def take(self, keys: Sequence[int], private: int) -> Lease | None:
        """Take the blocks of a prompt and `private` more; None when they do not fit now."""
        found = [self._blocks.get(key) for key in keys]
        missing = found.count(None)
        waking = sum(1 for block in found if block is not None and not block.users)
        if self.in_use + waking + missing + private > self.capacity:
            return None
        hits = found.index(None) if missing else len(found)
        for block in found:
            if block is not None:
                self._use(block)
        self._make_room(missing + private)
        self._private += private
        lease = Lease(hits, private)
        for key, block in zip(keys, found, strict=True):
            lease.blocks.append(block or self._add(key, lease))
        return lease

    def extend(self, lease: Lease, keys: Sequence[int]) -> None:
        """Give keys to private blocks of a lease whose content is complete now."""
        for key in keys:
            lease.private -= 1
            self._private -= 1
            block = self._blocks.get(key)
            if block is None:
                block = self._add(key, lease)
            else:
                self._use(block)
            lease.blocks.append(block)

    def release(self, lease: Lease, now: int) -> None:
        """Give all blocks back; those that are computed by `now` stay cached.

        The last block of a prefix becomes the oldest, since it is useless without those before it.
        """
        self._private -= lease.private
        for block in reversed(lease.blocks):
            block.users -= 1
            if block.users:
                continue
            if block.ready_at > now:
                del self._blocks[block.key]
            else:
                self._unused[block.key] = None

    def drop_unused(self) -> None:
        """Forget every block that no running sequence holds."""
        for key in self._unused:
            del self._blocks[key]
        self._unused.clear()

    def _use(self, block: Block) -> None:
        if not block.users:
            del self._unused[block.key]
        block.users += 1

    def _make_room(self, blocks: int) -> None:
        while len(self._blocks) + self._private + blocks > self.capacity:
            oldest, _ = self._unused.popitem(last=False)
            del self._blocks[oldest]

    def _add(self, key: int, lease: Lease) -> Block:
        block = self._blocks[key] = Block(key)
        lease.new.append(block)
        return block
