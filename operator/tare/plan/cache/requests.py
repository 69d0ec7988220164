"""Which prompts a phase sends: as planned, or as its records tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tare.measure.counts import Count
from tare.measure.rows import Row, read_rows
from tare.plan.cache.classes import Classes, Copies, itself
from tare.plan.cache.expected import Request
from tare.plan.schedule import total_requests

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tare.measure.messages import PhaseResult
    from tare.plan.cache.outline import Outline
    from tare.plan.cache.prefixes import Mark, Prefixes
    from tare.plan.order import PhaseOrder

__all__ = ["MOST_SINGLE", "Load", "Sent", "Workload"]

MOST_SINGLE: Final = 100_000
"""Requests of a phase that are planned one by one. That is needed only where another phase has left
requests out: several workers that time ends are not equally far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The requests of one phase."""

    requests: Mapping[Request, Copies]
    """Each with those that it stands for."""
    certain: bool = True
    """They are these; otherwise only about so many are."""
    unknown: str = ""
    """Why nothing can be said of them."""
    rows: tuple[tuple[Row, Request], ...] = ()
    """What became of each, where every one of them was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """The requests of all phases."""

    phases: tuple[Sent, ...]
    same: Callable[[Hashable], Hashable] = itself
    """Key of the level that stands for one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Drawn:
    """How far into the sessions of the dataset a phase has come."""

    sessions: int = 0
    turns: int = 0
    """Of one more session."""
    certain: bool = True
    unknown: str = ""
    rows: tuple[tuple[Row, Request], ...] = ()
    from_first: bool = True
    """Rows are those of the first requests, without a gap."""

    @property
    def ends(self) -> set[int]:
        """Where its sessions end."""
        return {self.sessions, self.sessions + 1} if self.turns else {self.sessions}


class Workload:
    """The requests of all phases of a dataset."""

    def __init__(self, outline: Outline, prefixes: Prefixes, *, senders: int) -> None:
        """Take a dataset that `senders` processes share."""
        self._outline = outline
        self._prefixes = prefixes
        self._senders = senders
        self._runs = outline.shape_runs()

    def planned(self, phases: Sequence[PhaseOrder]) -> Load:
        """Return what phases will send."""
        return self._load(phases, [self._planned(phase) for phase in phases])

    def measured(self, phases: Sequence[PhaseOrder], results: Sequence[PhaseResult]) -> Load:
        """Return what phases have sent."""
        pairs = zip(phases, results, strict=True)
        return self._load(phases, [self._measured(*pair) for pair in pairs])

    def _planned(self, phase: PhaseOrder) -> _Drawn:
        total = total_requests(phase)
        if total is None or (phase.duration is not None and phase.rate is None):
            text = "how many requests a closed loop sends in a given time is the server's doing"
            return _Drawn(unknown=text)
        return self._checked(_Drawn(sessions=total))

    def _measured(self, phase: PhaseOrder, result: PhaseResult) -> _Drawn:
        issued = result.counts.get(Count.ISSUED, 0)
        rows = list(read_rows(result.rows)) if issued <= MOST_SINGLE else []
        if rows and len(rows) == issued:
            return self._recorded(phase, rows)
        total = total_requests(phase)
        sessions, turns = self._sessions_of(phase, issued)
        exact = turns == 0 and (self._senders == 1 or sessions == total)
        return self._checked(_Drawn(sessions=sessions, turns=turns, certain=exact))

    def _recorded(self, phase: PhaseOrder, rows: list[Row]) -> _Drawn:
        last = max(row.number for row in rows)
        if phase.type != "sessions":
            pairs = tuple((row, next(self._session(phase, row.number))) for row in rows)
        elif last >= MOST_SINGLE:
            return _Drawn(unknown=f"it has request numbers above {MOST_SINGLE:,}")
        else:
            turns = self._numbered(phase, last)
            pairs = tuple((row, turns[row.number]) for row in rows)
        if any(request.entry >= self._outline.described for _, request in pairs):
            return _Drawn(unknown=self._undescribed())
        sessions, left = self._sessions_of(phase, last + 1)
        gapless = len({row.number for row in rows}) == last + 1
        return _Drawn(sessions=sessions, turns=left, rows=pairs, from_first=gapless)

    def _sessions_of(self, phase: PhaseOrder, requests: int) -> tuple[int, int]:
        """Return how many whole sessions so many requests are, and the turns of one more."""
        if phase.type != "sessions":
            return requests, 0
        runs = [(count, len(shape.turns)) for count, shape in self._runs]
        passes, left = divmod(requests, sum(count * turns for count, turns in runs))
        done = passes * self._outline.entries
        for count, turns in runs:
            whole = min(count, left // turns)
            done, left = done + whole, left - whole * turns
            if whole < count:
                break
        return done, left

    def _load(self, phases: Sequence[PhaseOrder], drawn: list[_Drawn]) -> Load:
        """Take the sessions by class, unless a phase has sent some and not the ones before them."""
        counted = any(not one.rows and not one.unknown for one in drawn)
        if not counted or not all(one.from_first for one in drawn):
            pairs = zip(phases, drawn, strict=True)
            return Load(phases=tuple(self._singly(*pair) for pair in pairs))
        ends = set().union(*(one.ends for one in drawn))
        classes = Classes(self._outline.entries, [count for count, _ in self._runs], ends)
        sent = [
            self._singly(phase, one)
            if one.rows or one.unknown
            else self._by_class(phase, one, classes)
            for phase, one in zip(phases, drawn, strict=True)
        ]
        return Load(phases=tuple(sent), same=classes.representative)

    def _singly(self, phase: PhaseOrder, drawn: _Drawn) -> Sent:
        """Return the requests one by one."""
        if drawn.unknown:
            return Sent(requests={}, unknown=drawn.unknown)
        if not drawn.rows and drawn.sessions > MOST_SINGLE:
            text = (
                f"it has more than {MOST_SINGLE:,} requests, and of another phase it is not known "
                "where its requests ended"
            )
            return Sent(requests={}, unknown=text)
        requests = [request for _, request in drawn.rows]
        if not drawn.rows:
            numbers = range(drawn.sessions)
            requests += [r for number in numbers for r in self._session(phase, number)]
            requests += [*self._session(phase, drawn.sessions)][: drawn.turns]
        counted = {request: Copies(times) for request, times in Counter(requests).items()}
        return Sent(requests=counted, certain=drawn.certain, rows=drawn.rows)

    def _by_class(self, phase: PhaseOrder, drawn: _Drawn, classes: Classes) -> Sent:
        """Return one request for each class, and what it stands for."""
        found: dict[Request, Copies] = {}
        for one in classes.first(drawn.sessions):
            for request in self._turns_of(phase, one.recycle_pass, one.entry):
                if request.mark is not None and request.mark[0] == "rid":
                    found[request] = Copies(1, one.entries, one.passes)
                else:
                    known = found.get(request, Copies(0)).times
                    found[request] = Copies(known + one.passes, one.entries)
        for request in [*self._session(phase, drawn.sessions)][: drawn.turns]:
            found[request] = Copies(found.get(request, Copies(0)).times + 1)
        return Sent(requests=found, certain=drawn.certain)

    def _numbered(self, phase: PhaseOrder, last: int) -> list[Request]:
        """Return the requests by their numbers, up to one of them."""
        found: list[Request] = []
        session = 0
        while len(found) <= last:
            found += self._session(phase, session)
            session += 1
        return found

    def _session(self, phase: PhaseOrder, number: int) -> Iterator[Request]:
        return self._turns_of(phase, *divmod(number, self._outline.entries))

    def _turns_of(self, phase: PhaseOrder, recycle_pass: int, entry: int) -> Iterator[Request]:
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

    def _checked(self, drawn: _Drawn) -> _Drawn:
        needed = min(drawn.sessions + bool(drawn.turns), self._outline.entries)
        return _Drawn(unknown=self._undescribed()) if needed > self._outline.described else drawn

    def _undescribed(self) -> str:
        described, entries = self._outline.described, self._outline.entries
        return f"only the first {described:,} of {entries:,} entries are described"
