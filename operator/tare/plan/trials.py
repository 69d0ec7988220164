"""In which order the trials of all cells are measured.

Servers drift: caches fill, clocks throttle, neighbours come and go. Taken one after the other, the
trials of a cell share one moment and the drift looks like a difference between cells. Interleaved,
each round meets the same drift; shuffled, position within a round does not matter either.
"""

from __future__ import annotations

from typing import Literal, assert_never

from tare.plan.stream import word

__all__ = ["TrialOrder", "schedule"]

TrialOrder = Literal["Sequential", "Interleaved", "Shuffled"]


def schedule(
    cells: int, trials: int, order: TrialOrder, seed: int = 0
) -> tuple[tuple[int, int], ...]:
    """Return every (cell, trial) once, in the order in which they are measured.

    `Sequential` finishes a cell before the next; `Interleaved` goes through all cells `trials`
    times; `Shuffled` does so in an order of its own each time, fixed by `seed`.
    """
    match order:
        case "Sequential":
            return tuple((cell, trial) for cell in range(cells) for trial in range(trials))
        case "Interleaved":
            return tuple((cell, trial) for trial in range(trials) for cell in range(cells))
        case "Shuffled":
            return tuple(
                (cell, trial)
                for trial in range(trials)
                for cell in sorted(range(cells), key=lambda cell: word(seed, "trial", trial, cell))
            )
        case _:
            assert_never(order)
