"""Which sessions of long phases are alike, so that one can stand for all of them.

Every phase takes the entries in order and goes round, so a phase of n sessions is exactly the first
n. Two entries of one shape that have been sent equally often by every phase have equal numbers
everywhere in the plan, and so have two passes over an entry that the same phases have sent. There
are about as many classes as runs of equal shapes, however many sessions there are, and a plan made
from one of each is the plan of all.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import IntEnum
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Sequence

__all__ = ["Class", "Classes", "Copies", "Scope", "itself", "scope_of"]


class Copies(NamedTuple):
    """For how many requests one stands."""

    times: int
    """The very same prompt."""
    entries: int = 1
    """Entries like it."""
    passes: int = 1
    """Passes over each of these entries that make prompts of their own, by their marker."""

    @property
    def total(self) -> int:
        """All requests."""
        return self.times * self.entries * self.passes


class Scope(IntEnum):
    """Which requests of a class have the level of one in common."""

    ALL = 0
    ENTRY = 1
    """Those of one entry, whatever the pass."""
    SESSION = 2
    """Those of one entry in one pass."""


class Class(NamedTuple):
    """Sessions that are alike, by the first of them."""

    entry: int
    recycle_pass: int
    entries: int
    """Entries from `entry` on."""
    passes: int
    """Passes over each of them."""


def scope_of(key: Hashable) -> Scope:
    """Return by how much of a session the key of a level is made; `prefixes` makes the keys."""
    kinds = {part[0] for part in key if isinstance(part, tuple)} if isinstance(key, tuple) else ()
    if "rid" in kinds:
        return Scope.SESSION
    return Scope.ENTRY if "question" in kinds or "context" in kinds else Scope.ALL


def itself(key: Hashable) -> Hashable:
    """Return the key of a level where every session stands for itself."""
    return key


class Classes:
    """All sessions of the phases of a trial, in classes."""

    def __init__(self, entries: int, runs: Iterable[int], ends: Iterable[int]) -> None:
        """Divide the sessions of a dataset.

        Args:
            entries: of the dataset.
            runs: how many entries in a row have one shape each.
            ends: how many sessions each phase has sent.
        """
        self._entries = entries
        self._ends = sorted({0, *ends})
        shapes = accumulate(runs)
        cuts = {0, entries, *shapes, *(end % entries for end in self._ends)}
        self._cuts = sorted(cut for cut in cuts if cut <= entries)

    def first(self, sessions: int) -> Iterator[Class]:
        """Yield the classes of the first sessions; so many must be one of the ends."""
        ends = self._ends[: self._ends.index(sessions) + 1]
        for start, end in pairwise(self._cuts):
            for begun, done in pairwise(self._passes(start, ends)):
                if done > begun:
                    yield Class(start, begun, end - start, done - begun)

    def representative(self, key: Hashable) -> Hashable:
        """Return the key of the same level of the session that stands for the key's own."""
        if not isinstance(key, tuple):
            return key
        return tuple(self._renamed(part) if isinstance(part, tuple) else part for part in key)

    def _renamed(self, part: tuple[object, ...]) -> tuple[object, ...]:
        match part:
            case ("question" | "context" as kind, int(entry)):
                return (kind, self._start(entry))
            case ("rid", int(recycle_pass), int(entry), *scope):
                place = bisect_right(self._ends, recycle_pass * self._entries + entry) - 1
                start = self._start(entry)
                return ("rid", self._passes(start, self._ends[place : place + 1])[0], start, *scope)
            case _:
                return part

    def _start(self, entry: int) -> int:
        """Return the first entry of its class."""
        return self._cuts[bisect_right(self._cuts, entry) - 1]

    def _passes(self, entry: int, ends: Sequence[int]) -> list[int]:
        """Return how often an entry is among so many sessions."""
        return [-((entry - end) // self._entries) for end in ends]
