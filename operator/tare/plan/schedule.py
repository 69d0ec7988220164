"""Which requests a phase consists of: their number, order, prompts and due times.

The plan of a phase is the same for any number of workers; `shares` cuts it into pieces. In a closed
loop the server's answers decide when a request is sent, so that only open loops have due times.
"""

from __future__ import annotations

import math
from functools import cache
from itertools import accumulate, count, islice, takewhile
from typing import TYPE_CHECKING, Final

from tare.plan.gaps import exponential_gaps, gamma_gaps
from tare.plan.pace import Pace
from tare.plan.shares import Share
from tare.plan.stream import open_unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tare.plan.order import PhaseOrder

__all__ = [
    "due_times",
    "is_cancelled",
    "most_requests",
    "prompt_entry",
    "slot_openings",
    "total_requests",
    "worker_share",
]

# 8.3/s for 30 s is 249 requests, although 8.3 * 30 is 249.00000000000003 in binary.
_DECIMALS: Final = 9
_SIGMAS: Final = 6


def total_requests(phase: PhaseOrder) -> int | None:
    """Return how many requests all workers send together; None when only time ends the phase.

    A phase of sessions is planned, and shared out, by the session: there their number is returned.

    The requests of an open loop that are due before `duration` are sent, all of them: at a constant
    10/s for 10 s that is 100 requests, at 0.0 s … 9.9 s. Random gaps are drawn to count them.
    """
    if phase.type == "sessions":
        return phase.sessions
    if phase.rate is None or phase.duration is None:
        return phase.requests
    return _due_before_the_end(phase)


def most_requests(phase: PhaseOrder) -> int | None:
    """Return a bound that hardly a seed exceeds, without drawing anything; else as above."""
    if phase.type == "sessions":
        return phase.sessions
    if phase.rate is None or phase.duration is None:
        return phase.requests
    mean = Pace.of(phase.rate, phase.ramp).area(phase.duration)
    variation = {"constant": 0.0, "gamma": 1 / math.sqrt(phase.smoothness)}.get(phase.type, 1.0)
    most = math.ceil(round(mean + _SIGMAS * variation * math.sqrt(mean), _DECIMALS))
    return most if phase.requests is None else min(most, phase.requests)


def due_times(phase: PhaseOrder, numbers: Iterable[int]) -> Iterator[float]:
    """Yield when each of the ascending `numbers` of an open loop is due, in seconds after the gate.

    The first request of a constant rate is due at the gate, that of a random process one gap later.
    """
    assert phase.rate is not None
    pace = Pace.of(phase.rate, phase.ramp)
    areas = _areas(phase)
    position = 0
    for number in numbers:
        yield pace.when(next(islice(areas, number - position, None)))
        position = number + 1


def slot_openings(phase: PhaseOrder, share: Share) -> list[float]:
    """Return when each slot of a worker in a closed loop opens, in seconds after the gate."""
    if phase.concurrency is None:
        return []
    pace = Pace.of(phase.concurrency, phase.ramp)
    return [pace.reached(s + 1) for s in range(share.index, phase.concurrency, share.workers)]


def is_cancelled(phase: PhaseOrder, number: int) -> bool:
    """Whether request `number` is one of those that are cancelled on purpose."""
    if not phase.cancel_share:
        return False
    return open_unit(phase.seed, f"cancel:{phase.name}", number) < phase.cancel_share


def prompt_entry(number: int, entries: int) -> int:
    """Return the entry of request, or session, `number`: every phase goes through them in order."""
    return number % entries


def worker_share(phase: PhaseOrder, index: int, workers: int) -> Share:
    """Return the part of `phase` that worker `index` of `workers` sends.

    Raises:
        ValueError: there is no such worker.
    """
    if not 0 <= index < workers:
        raise ValueError(f"worker {index}: allowed are 0 to {workers - 1}")
    slots = phase.concurrency if phase.rate is None else phase.max_concurrency
    return Share(index=index, workers=workers, slots=slots, total=total_requests(phase))


def _areas(phase: PhaseOrder) -> Iterator[float]:
    """Yield for each request the sum of the gaps before it, in mean gaps."""
    purpose = f"arrivals:{phase.name}"
    match phase.type:
        case "poisson":
            return accumulate(exponential_gaps(phase.seed, purpose))
        case "gamma":
            return accumulate(gamma_gaps(phase.seed, purpose, phase.smoothness))
        case _:
            return count(0.0)


@cache
def _due_before_the_end(phase: PhaseOrder) -> int:
    """Every worker asks several times, and counting costs a microsecond for four requests."""
    assert phase.rate is not None
    assert phase.duration is not None
    area = round(Pace.of(phase.rate, phase.ramp).area(phase.duration), _DECIMALS)
    if phase.type == "constant":
        due = math.ceil(area)
        return due if phase.requests is None else min(due, phase.requests)
    return sum(1 for _ in takewhile(area.__gt__, islice(_areas(phase), phase.requests)))
