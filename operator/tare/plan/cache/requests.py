"""Which prompts a phase sends: as planned, or as its records tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.measure.counts import Count
from tare.measure.rows import Row, read_rows
from tare.plan.cache.expected import Request
from tare.plan.schedule import total_requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.measure.messages import PhaseResult
    from tare.plan.cache.outline import Outline
    from tare.plan.cache.prefixes import Mark, Prefixes
    from tare.plan.order import PhaseOrder

__all__ = ["MOST_REQUESTS", "Sent", "Workload"]

MOST_REQUESTS: Final = 100_000
"""Of a trial: more are not planned one by one, and there is no other way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The requests of one phase."""

    requests: tuple[Request, ...]
    certain: bool = True
    """They are these; otherwise only about so many are."""
    unknown: str = ""
    """Why nothing can be said of them."""
    rows: tuple[tuple[Row, Request], ...] = ()
    """What became of each, where every one of them was recorded."""


class Workload:
    """The requests of all phases of a dataset."""

    def __init__(self, outline: Outline, prefixes: Prefixes, *, senders: int) -> None:
        """Take a dataset that `senders` processes share."""
        self._outline = outline
        self._prefixes = prefixes
        self._senders = senders

    def planned(self, phase: PhaseOrder) -> Sent:
        """Return what a phase will send."""
        total = total_requests(phase)
        if total is None or (phase.duration is not None and phase.rate is None):
            text = "how many requests a closed loop sends in a given time is the server's doing"
            return Sent(requests=(), unknown=text)
        return self._first(phase, total, certain=True)

    def measured(self, phase: PhaseOrder, result: PhaseResult) -> Sent:
        """Return what a phase has sent."""
        issued = result.counts.get(Count.ISSUED, 0)
        rows = list(read_rows(result.rows)) if issued <= MOST_REQUESTS else []
        if rows and len(rows) == issued:
            return self._recorded(phase, rows)
        total = total_requests(phase)
        if phase.type == "sessions":
            sent = self._sessions_of(phase, issued, total)
        else:
            exact = self._senders == 1 or issued == total
            sent = self._first(phase, issued, certain=exact)
        return sent

    def _first(self, phase: PhaseOrder, total: int, *, certain: bool) -> Sent:
        """Return the first requests, or sessions, of a phase in the order of their numbers."""
        if total > MOST_REQUESTS:
            return Sent(requests=(), unknown=f"it has more than {MOST_REQUESTS:,} requests")
        requests = tuple(
            request for number in range(total) for request in self._session(phase, number)
        )
        return self._checked(Sent(requests=requests, certain=certain))

    def _sessions_of(self, phase: PhaseOrder, issued: int, total: int | None) -> Sent:
        """Return as many sessions as have so many requests."""
        requests: list[Request] = []
        number = 0
        while len(requests) < issued <= MOST_REQUESTS:
            requests += self._session(phase, number)
            number += 1
        if issued > MOST_REQUESTS:
            return Sent(requests=(), unknown=f"it has more than {MOST_REQUESTS:,} requests")
        certain = len(requests) == issued and (self._senders == 1 or number == total)
        return self._checked(Sent(requests=tuple(requests[:issued]), certain=certain))

    def _recorded(self, phase: PhaseOrder, rows: list[Row]) -> Sent:
        if phase.type != "sessions":
            pairs = tuple((row, next(self._session(phase, row.number))) for row in rows)
        else:
            last = max(row.number for row in rows)
            if last >= MOST_REQUESTS:
                return Sent(requests=(), unknown=f"it has request numbers above {MOST_REQUESTS:,}")
            turns = self._numbered(phase, last)
            pairs = tuple((row, turns[row.number]) for row in rows)
        return self._checked(Sent(requests=tuple(request for _, request in pairs), rows=pairs))

    def _numbered(self, phase: PhaseOrder, last: int) -> list[Request]:
        """Return the requests by their numbers, up to one of them."""
        found: list[Request] = []
        session = 0
        while len(found) <= last:
            found += self._session(phase, session)
            session += 1
        return found

    def _session(self, phase: PhaseOrder, number: int) -> Iterator[Request]:
        recycle_pass, entry = divmod(number, self._outline.entries)
        mark = self._mark(phase, recycle_pass, entry)
        turns = self._prefixes.turns(entry) if phase.type == "sessions" else 1
        for turn in range(turns):
            yield Request(entry, turn, mark)

    def _mark(self, phase: PhaseOrder, recycle_pass: int, entry: int) -> Mark | None:
        """Return what the marker of a session says; `plan.markers` writes it."""
        marker = self._outline.marker
        if marker is None or (marker.kind == "warmup" and phase.kind != "warmup"):
            return None
        if marker.kind == "warmup":
            return ("warmup",)
        scope = (phase.name,) if marker.by_phase else ()
        return ("rid", recycle_pass, entry, *scope)

    def _checked(self, sent: Sent) -> Sent:
        described = self._outline.described
        if any(request.entry >= described for request in sent.requests):
            text = (
                f"only the first {described:,} of {self._outline.entries:,} entries are described"
            )
            return Sent(requests=(), unknown=text)
        return sent
