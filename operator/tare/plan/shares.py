"""How much of a phase's load each worker carries.

A concurrency of C is C slots that are dealt to the workers like cards, and requests are dealt to
the slots in the same way. So a worker's part of the requests is its part of the slots: workers
finish together also when C is no multiple of their number, and a worker without a slot, as when
there are more workers than slots, owns no request. An open loop without an upper bound has no
slots; there requests go to the workers in turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Share", "share_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """One worker's part of a phase."""

    index: int
    workers: int
    slots: int | None
    """Slots of all workers together; None when requests in flight are not bounded."""
    total: int | None
    """Requests of all workers together; None when only time ends the phase."""

    @property
    def concurrency(self) -> int | None:
        """Requests that this worker may have in flight; 0 means that it stays idle."""
        return None if self.slots is None else share_of(self.slots, self.index, self.workers)

    @property
    def requests(self) -> int | None:
        """Requests that this worker owns."""
        if self.total is None:
            return None
        rounds, rest = divmod(self.total, self._period)
        owned = share_of(self._period, self.index, self.workers)
        return rounds * owned + share_of(rest, self.index, self.workers)

    def owns(self, number: int) -> bool:
        """Whether this worker sends request `number` of the phase."""
        return number % self._period % self.workers == self.index

    def numbers(self) -> Iterator[int]:
        """Yield the numbers of this worker's requests, ascending; endless when `total` is None."""
        residues = range(self.index, self._period, self.workers)
        if not residues:
            return
        for start in count(0, self._period):
            for residue in residues:
                if self.total is not None and start + residue >= self.total:
                    return
                yield start + residue

    @property
    def _period(self) -> int:
        return self.workers if self.slots is None else self.slots


def share_of(total: int, index: int, workers: int) -> int:
    """Return worker `index`'s part of `total` equal things; the first workers get the remainder."""
    return total // workers + (index < total % workers)
