"""When the next request of a phase may be sent; pure, in nanoseconds after the gate.

A closed loop keeps a number of requests in flight and lets the server set the pace. An open loop
sends at planned moments whether or not the server keeps up: those moments are part of the plan, so
that a request that had to wait shows how late it was instead of moving the ones behind it.
"""

from __future__ import annotations

from itertools import tee
from typing import TYPE_CHECKING, Protocol

from tare.plan.schedule import due_times, slot_openings

if TYPE_CHECKING:
    from tare.plan.order import PhaseOrder
    from tare.plan.shares import Share

__all__ = ["Arrivals", "ClosedLoop", "OpenLoop", "arrivals_of"]

_SECOND = 1_000_000_000


class Arrivals(Protocol):
    """The requests that this worker still has to send, in order."""

    @property
    def exhausted(self) -> bool:
        """Whether all of them were taken."""
        ...

    def next_due(self, elapsed: int, in_flight: int) -> int | None:
        """Return when the next one is due; None while another one has to end first."""
        ...

    def take(self) -> int:
        """Return the number of the next request and go on to the one after it."""
        ...


class ClosedLoop:
    """A fixed number of requests in flight; with a ramp, slots open one after the other."""

    def __init__(self, phase: PhaseOrder, share: Share) -> None:
        self._numbers = share.numbers()
        self._next = next(self._numbers, None)
        self._openings = [round(at * _SECOND) for at in slot_openings(phase, share)]
        self._open = 0
        self.exhausted = self._next is None
        """Part of `Arrivals`."""

    def next_due(self, elapsed: int, in_flight: int) -> int | None:
        """Part of `Arrivals`: at once when a slot is free, else when the next one opens."""
        openings = self._openings
        slots = len(openings)
        while self._open < slots and openings[self._open] <= elapsed:
            self._open += 1
        if in_flight < self._open:
            return elapsed
        return openings[self._open] if self._open < slots else None

    def take(self) -> int:
        """Part of `Arrivals`."""
        number = self._next
        assert number is not None
        self._next = next(self._numbers, None)
        self.exhausted = self._next is None
        return number


class OpenLoop:
    """Requests at planned moments, held back only where `maxConcurrency` says so."""

    def __init__(self, phase: PhaseOrder, share: Share) -> None:
        numbers, again = tee(share.numbers())
        self._planned = zip(numbers, due_times(phase, again), strict=True)
        self._slots = share.concurrency
        self._next: int | None = None
        self._due = 0
        self._advance()

    @property
    def exhausted(self) -> bool:
        """Part of `Arrivals`."""
        return self._next is None

    def next_due(self, elapsed: int, in_flight: int) -> int | None:  # noqa: ARG002 - Arrivals
        """Part of `Arrivals`: the planned moment, which may be past."""
        return None if self._slots is not None and in_flight >= self._slots else self._due

    def take(self) -> int:
        """Part of `Arrivals`."""
        number = self._next
        assert number is not None
        self._advance()
        return number

    def _advance(self) -> None:
        self._next, due = next(self._planned, (None, 0.0))
        self._due = round(due * _SECOND)


def arrivals_of(phase: PhaseOrder, share: Share) -> Arrivals:
    """Return the arrivals of this worker's share of a phase of single requests.

    Raises:
        ValueError: the phase is one of sessions (`worker.sessions`).
    """
    match phase.type:
        case "concurrency":
            return ClosedLoop(phase, share)
        case "constant" | "poisson" | "gamma":
            return OpenLoop(phase, share)
        case "sessions":
            raise ValueError(f"{phase.name}: sessions arrive as their answers do")
