"""A serving engine without a clock: which request runs when, what it finds, when its tokens come.

Each call says what time it is, `next_due` says when the engine wants to be called again, and
listeners are told of new tokens. A driver with the real clock makes a server of it, one that jumps
from due time to due time makes a prediction: the same calls give the same tokens at the same times.

Here is what all engines share: requests wait first come, first served, and only the first one is
looked at; who runs how long is in `core.batching` and `core.slots`. Times are whole nanoseconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from dataclasses import dataclass

from tare.sim.core.costs import StepCost
from tare.sim.core.generations import Generation, State
from tare.sim.core.memory import Memory

__all__ = ["Engine", "EngineSettings", "EngineTotals"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Size and speed of an engine; names are vLLM's where it has one."""

    block_size: int
    """Tokens a KV block."""
    kv_blocks: int
    max_num_seqs: int
    """Requests that run at a time."""
    max_num_batched_tokens: int
    """Tokens an iteration; engines without iterations ignore it."""
    overhead_ns: int
    """From the submission of a request until it waits for its turn."""
    start_ns: int = 0
    """`core.slots` only: from a request's turn to the first token that it computes."""
    patience_ns: int | None = None
    """`core.slots` only: who cannot be done so long after it began to wait is given up unserved
    when its turn comes; None waits for ever."""
    cost: StepCost


@dataclass(slots=True, kw_only=True)
class EngineTotals:
    """What the engine counted since its start; a reset of the cache changes none of them."""

    prefix_queries: int = 0
    """Prompt tokens looked up in the cache, counted when a request starts to run."""
    prefix_hits: int = 0
    prompt_tokens: int = 0
    """Prompt tokens of requests that had their first token."""
    cached_tokens: int = 0
    """Those of them that were found in the cache."""
    generated_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    """Iterations."""
    max_late_ns: int = 0
    """The longest time by which a token was told later than it was due."""


class Engine(ABC):
    """Runs requests over a shared prefix cache; see the module for the rules."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.memory = Memory(settings.kv_blocks, settings.block_size)
        self.totals = EngineTotals()
        self.quiet_until = 0
        """A promise of the driver: no submission and no abort comes before this time. Equal
        iterations up to then are made at once; the tokens and their times are the same."""
        self.tells_first = False
        """Set by a driver for which computing takes time: tokens are told before it is planned what
        runs next. That is planned for the same moment, from the same requests."""
        self._arriving: deque[Generation] = deque()
        self._waiting: deque[Generation] = deque()
        self._told: list[Generation] = []
        self._put_off: int | None = None
        """When that was due which waits until the tokens so far are told; see `tells_first`."""
        self._submitted = 0

    @property
    @abstractmethod
    def running(self) -> int:
        """Requests that hold memory."""

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn or for memory."""
        return len(self._waiting) + len(self._arriving)

    def submit(self, now: int, generation: Generation) -> None:
        """Take a generation in; the listener is not told from within this call.

        Args:
            now: the time, never before that of an earlier call.
            generation: a new one.

        Raises:
            ValueError: prompt and answer together are longer than the memory.
        """
        prompt, limit, memory = generation.prompt_tokens, generation.limit, self.memory
        if memory.blocks(prompt + limit) > memory.capacity:
            raise ValueError(
                f"{prompt} prompt tokens and {limit} more need more than "
                f"{memory.capacity} blocks of {memory.block_size} tokens"
            )
        self._do_all(now)
        self._submitted += 1
        generation.number = self._submitted
        generation.submitted_at = now
        if self.settings.overhead_ns:
            self._arriving.append(generation)
        else:
            self._waiting.append(generation)
            self._admit(now)

    def abort(self, now: int, generation: Generation) -> None:
        """End a request that nobody listens to any more; its blocks are free at once."""
        self._do_all(now)
        generation.untold = 0
        match generation.state:
            case State.WAITING if generation in self._arriving:
                self._arriving.remove(generation)
            case State.WAITING:
                self._waiting.remove(generation)
            case State.RUNNING:
                self._leave(now, generation)
            case State.FINISHED | State.ABORTED | State.GIVEN_UP:
                return
        generation.state = State.ABORTED
        self._admit(now)

    def reset(self, *, preempt: bool = False) -> bool:
        """Empty the prefix cache; refused, as on vLLM, while a request runs.

        With `preempt` it is granted all the same: the running requests wait again, are computed
        again and so fill the cache again. As measured, true then does not mean empty.
        """
        if self.running and not preempt:
            return False
        self._preempt_all()
        self.memory.clear()
        return True

    def next_due(self) -> int | None:
        """Return when the engine has something to do; None when nothing runs or arrives."""
        if self._told:
            return self._told[0].due_at
        return self._next_event()

    def ends_from(self) -> int | None:
        """Return a time before which no request ends or is given up; None when there is none.

        That holds while nothing is submitted: a driver of several engines, where the end of one
        request is what another one follows, knows how long nothing will come to the others.
        """
        return self._told[0].due_at if self._told else self._ends_from()

    def advance(self, now: int) -> None:
        """Do everything that is due and tell the listeners.

        Several overdue tokens of one request are told together, as a busy server sends them.
        """
        self._run(now)
        self._tell(now)
        self._catch_up(now)

    def _tell(self, now: int) -> None:
        told, self._told = self._told, []
        for generation in told:
            # Without tokens it was aborted meanwhile.
            if generation.untold or generation.state is State.GIVEN_UP:
                count, generation.untold = generation.untold, 0
                late = now - generation.due_at
                if late > self.totals.max_late_ns:  # noqa: PLR1730 - max() is slower, this is hot
                    self.totals.max_late_ns = late
                generation.listener.on_tokens(generation, count)

    def _do_all(self, now: int) -> None:
        self._catch_up(now)
        self._run(now)
        self._catch_up(now)

    def _catch_up(self, now: int) -> None:
        """Do what was put off, and what is due after it."""
        while self._put_off is not None:
            due, self._put_off = self._put_off, None
            self._admit(due)
            self._run(now)

    def _run(self, now: int) -> None:
        """Do what is due, up to where something is put off."""
        while (due := self._next_event()) is not None and due <= now:
            self._take_arrivals(due)
            horizon = max(now, self.quiet_until)
            if (arrival := self._next_arrival()) is not None:
                horizon = min(horizon, arrival)
            self._proceed(due, horizon)
            if self._put_off is not None:
                return
            self._admit(due)

    def _next_event(self) -> int | None:
        due, arrival = self._due(), self._next_arrival()
        return due if arrival is None else arrival if due is None else min(due, arrival)

    def _next_arrival(self) -> int | None:
        arriving = self._arriving
        return arriving[0].submitted_at + self.settings.overhead_ns if arriving else None

    def _take_arrivals(self, now: int) -> None:
        arriving, overhead = self._arriving, self.settings.overhead_ns
        while arriving and arriving[0].submitted_at + overhead <= now:
            self._waiting.append(arriving.popleft())

    def _start(self, generation: Generation, found: int) -> None:
        """Count what a request found when it starts for the first time."""
        generation.state = State.RUNNING
        if generation.cached_tokens < 0:
            generation.cached_tokens = found
            full = generation.prompt_tokens // self.memory.block_size * self.memory.block_size
            generation.created_cache_tokens = full - found
            self.totals.prefix_queries += generation.prompt_tokens
            self.totals.prefix_hits += found

    def _generate(self, generation: Generation, first_at: int, last_at: int, count: int) -> None:
        """Let a request have `count` more tokens; the listener is told at the end of `advance`.

        Who has all of them is finished, and has to leave before anybody is admitted.
        """
        if not generation.generated:
            generation.first_token_at = first_at
            self.totals.prompt_tokens += generation.prompt_tokens
            self.totals.cached_tokens += generation.cached_tokens
        if not generation.untold:
            generation.due_at = first_at
            self._told.append(generation)
        generation.untold += count
        generation.generated += count
        generation.length += count
        generation.last_token_at = last_at
        self.totals.generated_tokens += count
        if generation.generated == generation.limit:
            generation.state = State.FINISHED

    @abstractmethod
    def _due(self) -> int | None:
        """Return when what runs has something to do."""

    @abstractmethod
    def _ends_from(self) -> int | None:
        """Return what `ends_from` does; nobody has to be told anything."""

    @abstractmethod
    def _proceed(self, now: int, horizon: int) -> None:
        """Do what is due at `now`; nothing from outside happens before `horizon`."""

    @abstractmethod
    def _admit(self, now: int) -> None:
        """Let waiting requests start, if it is time for that."""

    @abstractmethod
    def _leave(self, now: int, generation: Generation) -> None:
        """Take a running request's place and memory back."""

    @abstractmethod
    def _preempt_all(self) -> None:
        """Let all running requests wait again, in their order, before everybody else."""
