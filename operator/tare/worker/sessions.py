"""Sessions of several turns: when each turn may be sent, and what it says.

A session takes a slot from its first turn to its last answer, its pauses included. The history
that a turn sends back is what the server really answered, so that a prefix cache meets what it
would meet in use. When a turn is not answered well its session ends: there is nothing to go on
with, and the turns that are left are counted as unsent.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tare.plan.schedule import slot_openings
from tare.plan.turns import TurnPlan
from tare.worker.record import Status
from tare.workload.body import request_body
from tare.workload.conversation import lengths_of
from tare.workload.dataset import Signer, spelled

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tare.plan.order import PhaseOrder, WorkOrder
    from tare.plan.shares import Share
    from tare.worker.prompts import Prompt
    from tare.worker.record import Record
    from tare.workload.conversation import Conversations

__all__ = ["Sessions"]

_SECOND = 1_000_000_000


@dataclass(slots=True, kw_only=True)
class _Session:
    number: int
    entry: int
    turns: int
    turn: int = 0
    """The next one, or the one that is being answered."""
    due: int = 0
    """When it may be sent, in nanoseconds after the gate."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    answer: list[str] = field(default_factory=list)
    salt: str | None = None


class Sessions:
    """The sessions of this worker in one phase: both its `Arrivals` and its `Prompts`."""

    def __init__(
        self, order: WorkOrder, phase: PhaseOrder, share: Share, texts: Conversations
    ) -> None:
        self._target = order.target
        self._dataset = order.dataset
        self._texts = texts
        self._signer = Signer.of(order, phase)
        marker = texts.marker
        self._marker = marker if marker is not None and marker.stands_in(phase.kind) else None
        self._plan = TurnPlan(order.dataset)
        self._delay = round(order.dataset.turns.delay * _SECOND)
        self._openings = [round(at * _SECOND) for at in slot_openings(phase, share)]
        self._numbers = share.numbers()
        self._next = next(self._numbers, None)
        self._open = 0
        """Sessions begun and not ended."""
        self._with_turns = 0
        """Those of them that have a turn still to be sent."""
        self._paused: deque[_Session] = deque()
        """Sessions with a turn to send; in the order of their moments, since all pauses are one."""
        self._going_on = False
        """What is due next is a turn of a session that is open."""
        self._answering: dict[int, _Session] = {}
        """By the number of the request."""
        self.planned = None if share.total is None else self._requests(share.numbers())
        """Requests that this worker owns; None when only time ends the phase."""

    @property
    def exhausted(self) -> bool:
        """Part of `Arrivals`: the last turn of the last session was sent."""
        return self._next is None and not self._with_turns

    def next_due(self, elapsed: int, in_flight: int) -> int | None:  # noqa: ARG002 - Arrivals
        """Part of `Arrivals`: a turn whose pause is over goes before a new session."""
        self._going_on = bool(self._paused) and self._paused[0].due <= elapsed
        if self._going_on:
            return self._paused[0].due
        moments = [self._paused[0].due] if self._paused else []
        if self._next is not None and self._open < len(self._openings):
            moments.append(max(self._openings[self._open], elapsed))
        return min(moments, default=None)

    def take(self) -> int:
        """Part of `Arrivals`."""
        session = self._take()
        self._with_turns -= session.turn + 1 == session.turns
        number = self._plan.first_number(session.number) + session.turn
        self._answering[number] = session
        return number

    def request(self, number: int) -> Prompt:
        """Part of `Prompts`."""
        session = self._answering[number]
        if session.turn == 0:
            text, session.salt = spelled(self._marker, self._signer.digest(session.number))
            if self._target.type == "completions":
                return self._completion(session, text)
            session.messages = self._texts.messages(session.entry, text)
        else:
            question = self._texts.question(session.entry, session.turn)
            session.messages.append({"role": "user", "content": question})
        last = session.turn + 1 == session.turns
        session.answer = []
        return self._prompt(session, session.messages, None if last else session.answer)

    def ended(self, record: Record, elapsed: int) -> None:
        """Take in the end of a request: its session goes on after the pause, or is over."""
        session = self._answering.pop(record.number)
        session.turn += 1
        was_last = session.turn == session.turns
        if was_last or record.status is not Status.OK:
            self._open -= 1
            self._with_turns -= not was_last
            return
        session.messages.append({"role": "assistant", "content": "".join(session.answer)})
        session.due = elapsed + self._delay
        self._paused.append(session)

    def _completion(self, session: _Session, marker: str | None) -> Prompt:
        """A completion has one turn and no messages."""
        return self._prompt(session, self._texts.prompt(session.entry, marker), None)

    def _prompt(
        self, session: _Session, prompt: str | list[dict[str, Any]], answer: list[str] | None
    ) -> Prompt:
        max_tokens = lengths_of(self._dataset, session.entry, session.turn)[1]
        body = request_body(self._target, prompt=prompt, max_tokens=max_tokens, salt=session.salt)
        return session.entry, max_tokens, body, answer

    def _take(self) -> _Session:
        """The session that `next_due` spoke of, which was asked just before."""
        if self._going_on:
            return self._paused.popleft()
        number = self._next
        assert number is not None
        self._next = next(self._numbers, None)
        self._open += 1
        self._with_turns += 1
        entry = number % self._dataset.entries
        return _Session(number=number, entry=entry, turns=self._plan.turns(number))

    def _requests(self, sessions: Iterable[int]) -> int:
        return sum(map(self._plan.turns, sessions))
