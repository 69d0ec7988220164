"""Draws of a program's distributions, with the checks that constant parameters do not need."""

from __future__ import annotations

import math
from typing import Final

from tare.sim.core.streams import next_keyed, turn_key

__all__ = ["SECOND", "chance", "exponential", "next_of_turn", "start_turn", "uniform"]


SECOND: Final = 1 << 20
"""Place of the first number of a turn's second stream."""


def exponential(mean: float, number: float) -> float:
    """Return an exponential draw with this mean from a number between 0 and 1."""
    if not mean >= 0.0:
        raise ValueError("the mean of ~exp must be at least 0, and is", mean)
    return -mean * math.log(1.0 - number)


def uniform(low: float, high: float, number: float) -> float:
    """Return a uniform draw from `low` to `high`."""
    if not low <= high:
        raise ValueError("the first parameter of ~uniform must not be larger than the second:", low)
    return low + (high - low) * number


def chance(probability: float, number: float) -> bool:
    """Return True with this probability."""
    if not 0.0 <= probability <= 1.0:
        raise ValueError("a probability must be from 0 to 1, and is", probability)
    return number < probability


def start_turn(
    session_keys: list[int], keys: list[int], turns: list[int], places: list[int], session: int
) -> None:
    """Begin a turn's keyed numbers: its own key, and both streams from their start."""
    turns[session] += 1
    keys[session] = turn_key(session_keys[session], turns[session])
    places[2 * session] = 0
    places[2 * session + 1] = SECOND


def next_of_turn(keys: list[int], places: list[int], session: int, stream: int) -> float:
    """Return the turn's next number: of the workload (stream 0) or of the session (1)."""
    place = places[2 * session + stream]
    places[2 * session + stream] = place + 1
    return next_keyed(keys[session], place)
