"""How many turns a session has, and which numbers their requests have.

Both are fixed by the plan: request numbers go through the sessions in order and through the turns
of each, whoever sends them and whenever an answer lets the next turn begin.
"""

from __future__ import annotations

import math
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from tare.plan.stream import open_unit

if TYPE_CHECKING:
    from tare.plan.order import DatasetOrder

__all__ = ["MAX_TURNS", "TurnPlan"]

MAX_TURNS: Final = 1000
"""A chance of another turn gives no more than this."""


class TurnPlan:
    """The turns of the sessions of a dataset."""

    def __init__(self, dataset: DatasetOrder) -> None:
        self._turns = [_turns(dataset, entry) for entry in range(dataset.entries)]
        self._before = list(accumulate(self._turns, initial=0))
        """Requests of the entries before each, and of all."""

    def turns(self, session: int) -> int:
        """Number of turns of a session; sessions go round the entries."""
        return self._turns[session % len(self._turns)]

    def first_number(self, session: int) -> int:
        """Number of a session's first request in its phase."""
        rounds, entry = divmod(session, len(self._turns))
        return rounds * self._before[-1] + self._before[entry]


def _turns(dataset: DatasetOrder, entry: int) -> int:
    """Draw the number of turns of an entry.

    With a chance of another turn after each it is geometric; with a mean it is one of the two whole
    numbers around it.
    """
    turns = dataset.turns
    if turns.continue_probability is None and float(turns.mean).is_integer():
        return int(turns.mean)
    unit = open_unit(dataset.seed, "turns", entry)
    if turns.continue_probability is None:
        return math.floor(turns.mean) + (unit < turns.mean % 1)
    if not turns.continue_probability:
        return 1
    return min(1 + int(math.log(unit) / math.log(turns.continue_probability)), MAX_TURNS)
