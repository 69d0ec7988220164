"""Time averages of levels that jump, such as memory in use or jobs in a queue.

The area under a level from the warm-up W to the end H is level(H)·H - level(W)·W - Σ jump·time, so
a jump costs one multiplication and nothing is done at events that change nothing. The sum's terms
are larger than the area; with doubles some nine digits of the average remain after 10⁶ jumps.

A list of levels holds pairs: the level, and Σ jump·time behind it.
"""

from __future__ import annotations

__all__ = ["average", "restart", "shift"]


def shift(levels: list[float], at: int, jump: float, now: float) -> None:
    """Change the level at index `at` (an even number) at time `now`."""
    levels[at] += jump
    levels[at + 1] += jump * now


def restart(levels: list[float], now: float) -> None:
    """Forget all areas up to `now`: the end of the warm-up."""
    for at in range(0, len(levels), 2):
        levels[at + 1] = levels[at] * now


def average(levels: list[float], at: int, start: float, end: float) -> float:
    """Return the time average from `start`, at which areas were restarted, to `end`."""
    return (levels[at] * end - levels[at + 1]) / (end - start)
