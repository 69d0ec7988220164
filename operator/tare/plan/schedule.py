"""Which requests a phase consists of: their number, order, prompts and due times.

The plan of a phase is the same for any number of workers; `shares` cuts it into pieces. In a closed
loop the server's answers decide when a request is sent, so that only open loops have due times.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from tare.plan.shares import Share

if TYPE_CHECKING:
    from tare.plan.order import PhaseOrder

__all__ = ["due_time", "prompt_entry", "total_requests", "worker_share"]

# 8.3/s for 30 s is 249 requests, although 8.3 * 30 is 249.00000000000003 in binary.
_DECIMALS: Final = 9


def total_requests(phase: PhaseOrder) -> int | None:
    """Return how many requests all workers send together; None when only time ends the phase.

    At a constant rate the requests due before `duration` are sent, all of them: 10/s for 10 s is
    100 requests, at 0.0 s … 9.9 s.
    """
    if phase.rate is None or phase.duration is None:
        return phase.requests
    due = math.ceil(round(phase.rate * phase.duration, _DECIMALS))
    return due if phase.requests is None else min(due, phase.requests)


def due_time(phase: PhaseOrder, number: int) -> float | None:
    """Return when request `number` is due, in seconds after the gate; None in a closed loop."""
    return None if phase.rate is None else number / phase.rate


def prompt_entry(number: int, entries: int) -> int:
    """Return the dataset entry of request `number`: every phase starts at 0 and goes in order."""
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
