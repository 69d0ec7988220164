"""A whole trial in virtual time: the worker's prompts, the simulated server's cache, no HTTP.

Prompts, markers and digests are those that a worker would send; the caches are the simulated
server's own. Only time is made up: every request takes what a seeded generator says.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import count
from random import Random
from typing import TYPE_CHECKING, Any

from tare.measure.histogram import Histogram
from tare.measure.messages import PhaseResult
from tare.measure.rows import Rows
from tare.plan.cache.outline import Outline
from tare.plan.markers import marker_of
from tare.plan.schedule import due_times, total_requests
from tare.plan.turns import TurnPlan
from tare.sim.core.memory import Hold, Memory, block_keys
from tare.sim.tokens import Answer, encode, encode_chat
from tare.workload.conversation import Conversations, lengths_of
from tare.workload.dataset import Signer, spelled
from tare.workload.outline import measure_frame, outline_of
from tare.workload.sizes import CountedBy, TokenSizes, measure

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tare.plan.order import DatasetOrder, PhaseOrder, WorkOrder

__all__ = ["Replica", "Trial", "describe", "play"]

_SECOND = 1_000_000
"""Microseconds, the unit of all times here."""
_MANY_BLOCKS = 1 << 20


@dataclass
class Replica:
    """One cache."""

    block: int = 16
    blocks: int = _MANY_BLOCKS
    shares_in_flight: bool = True
    """A block is found as soon as it is scheduled, as on vLLM; otherwise once it is computed."""

    def __post_init__(self) -> None:
        self.memory = Memory(self.blocks, self.block)

    def begin(self, ids: Sequence[int], limit: int, root: int) -> tuple[Hold, list[int], int]:
        """Take a prompt in: its blocks, the keys of those to be computed, and its cached tokens."""
        keys = block_keys(ids, self.block, root=root)
        cached = self.memory.find(keys, len(ids))
        known = keys[: cached // self.block]
        tokens = len(ids) + limit
        hold = self.memory.hold(known, tokens, tokens)
        assert hold is not None, "the pool is too small for what is in flight"
        missing = keys[len(known) :]
        if self.shares_in_flight:
            self.compute(hold, missing)
            missing = []
        return hold, missing, cached

    def compute(self, hold: Hold, keys: Sequence[int]) -> None:
        """Let others find blocks that are computed."""
        self.memory.fill(hold, keys)

    def end(self, hold: Hold, ids: Sequence[int], answer: Sequence[int], root: int) -> None:
        """Keep the answer but its last token, which was never fed back."""
        whole = [*ids, *answer[:-1]]
        known = list(hold.path)
        self.compute(hold, block_keys(whole, self.block, root=root, known=known))
        self.memory.release(hold)


@dataclass
class Trial:
    """What happened."""

    outline: Outline
    results: list[PhaseResult] = field(default_factory=list)

    @property
    def cached(self) -> list[int]:
        """Cached prompt tokens by phase."""
        return [self._sum(result, "cached_tokens") for result in self.results]

    @property
    def prompts(self) -> list[int]:
        """Prompt tokens by phase."""
        return [self._sum(result, "prompt_tokens") for result in self.results]

    @staticmethod
    def _sum(result: PhaseResult, name: str) -> int:
        return Histogram.from_json(result.histograms[name]).sum


@cache
def describe(dataset: DatasetOrder, *, chat: bool) -> tuple[Conversations, Outline]:
    """The texts of a dataset with their sizes as the simulated server counts, and the outline."""
    marker = marker_of(dataset.cache_bust, has_system=dataset.has_system)

    async def number(text: str) -> int:
        return len(encode(text))

    async def ids(prompt: list[dict[str, str]] | str) -> list[int]:
        return _ids(prompt)

    async def sizes() -> TokenSizes:
        found = await measure(number, CountedBy.SERVER, marker)
        own = dataset.system_prompt
        system = len(encode(own)) if own is not None else None
        frame = await measure_frame(ids, dataset, found, chat=chat)
        return replace(found, system=system, frame=frame)

    texts = Conversations(dataset, asyncio.run(sizes()))
    return texts, outline_of(dataset, texts, chat=chat)


def play(
    order: WorkOrder,
    replicas: Sequence[Replica],
    *,
    reset: frozenset[str] = frozenset(),
    seed: int = 0,
    sabotage: Callable[[PhaseOrder, Sequence[Replica]], None] | None = None,
) -> Trial:
    """Play the phases of an order; `reset` names those before which the caches are emptied."""
    texts, outline = describe(order.dataset, chat=order.target.type == "chat")
    trial = Trial(outline)
    random = Random(seed)  # noqa: S311 - times, no secrets
    for phase in order.phases:
        if phase.name in reset:
            for replica in replicas:
                replica.memory.clear()
        if sabotage is not None:
            sabotage(phase, replicas)
        trial.results.append(_Phase(order, phase, texts, replicas, random).play())
    return trial


@dataclass(slots=True, kw_only=True)
class _Session:
    number: int
    entry: int
    turns: int
    first: int
    """Number of its first request."""
    turn: int = 0
    messages: list[dict[str, Any]] = field(default_factory=list)
    root: int = 0


class _Phase:
    """One phase: sends, answers and rows."""

    def __init__(
        self,
        order: WorkOrder,
        phase: PhaseOrder,
        texts: Conversations,
        replicas: Sequence[Replica],
        random: Random,
    ) -> None:
        self._order, self._phase, self._texts = order, phase, texts
        self._replicas, self._random = replicas, random
        self._signer = Signer.of(order, phase)
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._ties = count()
        self._rows: list[tuple[int, ...]] = []
        self._cached, self._prompts = Histogram(), Histogram()
        self._sent = 0
        self._waiting: deque[_Session] = deque()
        self._open = 0

    def play(self) -> PhaseResult:
        """Send everything and wait for it."""
        phase = self._phase
        if phase.rate is not None:
            total = total_requests(phase) or 0
            dues = due_times(phase, range(total))
            for session, due in zip(self._sessions(total), dues, strict=True):
                self._at(round(due * _SECOND), partial(self._arrive, session))
        else:
            closed = phase.sessions if phase.type == "sessions" else phase.requests
            self._waiting.extend(self._sessions(closed or 0))
            self._at(0, self._fill)
        while self._events:
            now, _, event = heapq.heappop(self._events)
            event(now)
        return PhaseResult(
            name=phase.name,
            kind=phase.kind,
            planned_seconds=None,
            seconds=1.0,
            drain_seconds=0.0,
            counts={"issued": self._sent, "ok": self._sent},
            histograms={
                "cached_tokens": self._cached.to_json(),
                "prompt_tokens": self._prompts.to_json(),
            },
            rows=_document(self._rows) if phase.kind == "profiling" else {},
        )

    def _sessions(self, total: int) -> Iterator[_Session]:
        plan = TurnPlan(self._order.dataset)
        many = self._phase.type == "sessions"
        for number in range(total):
            yield _Session(
                number=number,
                entry=number % self._order.dataset.entries,
                turns=plan.turns(number) if many else 1,
                first=plan.first_number(number) if many else number,
            )

    def _arrive(self, session: _Session, now: int) -> None:
        self._waiting.append(session)
        self._fill(now)

    def _fill(self, now: int) -> None:
        phase = self._phase
        most = phase.concurrency if phase.rate is None else phase.max_concurrency
        while self._waiting and (most is None or self._open < most):
            self._open += 1
            self._send(now, self._waiting.popleft())

    def _send(self, now: int, session: _Session) -> None:
        ids, limit = self._prompt(session)
        self._sent += 1
        replica = self._random.choice(self._replicas)
        ready = now + 2_000 + self._random.randrange(20_000)
        end = ready + limit * 100
        hold, missing, cached = replica.begin(ids, limit, session.root)
        if missing:
            self._at(ready, lambda _: replica.compute(hold, missing))
        answer = Answer.to(tuple(ids), 0)
        self._cached.record(cached)
        self._prompts.record(len(ids))
        number = session.first + session.turn
        row = (number, session.entry, now, 0, ready - now, end - now, limit, cached, 0)
        self._rows.append(row)

        def ended(at: int) -> None:
            replica.end(hold, ids, answer.ids(limit), session.root)
            self._go_on(at, session, answer.text(0, limit))

        self._at(end, ended)

    def _go_on(self, now: int, session: _Session, answer: str) -> None:
        session.messages.append({"role": "assistant", "content": answer})
        session.turn += 1
        if session.turn < session.turns:
            self._send(now, session)
            return
        self._open -= 1
        self._fill(now)

    def _prompt(self, session: _Session) -> tuple[list[int], int]:
        limit = lengths_of(self._order.dataset, session.entry, session.turn)[1]
        if session.turn:
            question = self._texts.question(session.entry, session.turn)
            session.messages.append({"role": "user", "content": question})
            return _ids(session.messages), limit
        marker = self._texts.marker
        shown = marker if marker is not None and marker.stands_in(self._phase.kind) else None
        text, salt = spelled(shown, self._signer.digest(session.number))
        session.root = hash(tuple(salt.encode())) if salt is not None else 0
        if self._order.target.type == "completions":
            return _ids(self._texts.prompt(session.entry, text)), limit
        session.messages = self._texts.messages(session.entry, text)
        return _ids(session.messages), limit

    def _at(self, moment: int, event: Callable[[int], None]) -> None:
        heapq.heappush(self._events, (moment, next(self._ties), event))


def _document(rows: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Rows as a worker hands them in."""
    kept = Rows()
    kept.add_all(list(zip(*rows, strict=True)))
    return kept.to_json()


def _ids(prompt: list[dict[str, str]] | str) -> list[int]:
    if isinstance(prompt, str):
        return encode(prompt)
    return encode_chat([(message["role"], message["content"]) for message in prompt])
