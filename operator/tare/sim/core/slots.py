"""Independent slots: running requests do not slow each other down, only waiting does.

The simplest model of a server. A request waits for one of `max_num_seqs` slots and for the memory
of its prompt and whole answer; then

    time to first token = start + prefill · (prompt tokens - cached tokens)

and each further token follows after `step` nanoseconds (`core.costs`). Nobody is preempted. With a
patience, whoever could not be done in time when its turn comes is given up without being served.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from tare.sim.core.engine import Engine, EngineSettings
from tare.sim.core.generations import State
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.sim.core.generations import Generation
    from tare.sim.core.memory import Hold

__all__ = ["Slots"]


class Slots(Engine):
    """See the module."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        self._runs: dict[int, Generation] = {}
        """By number, in the order of their start."""
        self._tokens: list[tuple[int, int, Generation]] = []
        """When the next token of each is due; those of who has left are dropped when they come."""
        self._computed_at: dict[int, int] = {}
        """When blocks of prompts that are being computed are done, by key."""
        self._computing: dict[int, list[int]] = {}
        """Whose they are: keys by the number of the request."""
        self._without_room: Generation | None = None
        """The first request, when it waits for memory: nothing changes for it until one leaves."""

    @property
    @override
    def running(self) -> int:
        """Requests that hold a slot."""
        return len(self._runs)

    @override
    def _ends_from(self) -> int | None:
        """Return when the next request ends, or may be given up as its turn comes."""
        gap = round(self.settings.cost.step)
        ends = [
            due + (generation.limit - generation.generated - 1) * gap
            for due, number, generation in self._tokens
            if number in self._runs
        ]
        if (arrival := self._next_arrival()) is not None:
            ends.append(arrival)
        return min(ends, default=None)

    @override
    def _due(self) -> int | None:
        tokens = self._tokens
        while tokens and tokens[0][1] not in self._runs:
            heapq.heappop(tokens)
        return tokens[0][0] if tokens else None

    @override
    def _proceed(self, now: int, horizon: int) -> None:
        gap = round(self.settings.cost.step)
        while (due := self._due()) is not None and due <= now:
            _, number, generation = self._tokens[0]
            left = generation.limit - generation.generated
            count = 1
            # The last token is always by itself: it lets somebody else in.
            if left > 2:  # noqa: PLR2004
                count = min(left - 1, 1 + (horizon - due) // gap) if gap else left - 1
            last = due + (count - 1) * gap
            if not generation.generated:
                self._forget_computing(generation)
            heapq.heapreplace(self._tokens, (last + gap, number, generation))
            self._generate(generation, due, last, count)
            if generation.finished:
                self._leave(last, generation)

    @override
    def _admit(self, now: int) -> None:
        waiting, memory = self._waiting, self.memory
        while waiting and len(self._runs) < self.settings.max_num_seqs:
            generation = waiting[0]
            if generation is self._without_room:
                return
            tokens = generation.prompt_tokens + generation.limit
            found = memory.find(generation.keys, generation.prompt_tokens)
            if self._is_too_late(now, generation, found):
                self._give_up(now, waiting.popleft())
                continue
            generation.hold = memory.hold(
                generation.keys_between(0, found // memory.block_size), tokens, room=tokens
            )
            if generation.hold is None:
                self._without_room = generation
                return
            waiting.popleft()
            self._start(generation, found)
            self._runs[generation.number] = generation
            begin = now + self.settings.start_ns
            first_at = self._compute_prompt(begin, generation, generation.hold, found)
            heapq.heappush(self._tokens, (first_at, generation.number, generation))

    def _compute_prompt(self, now: int, generation: Generation, hold: Hold, found: int) -> int:
        """Share the prompt's blocks, and return when the first token comes.

        A block counts as cached as soon as it is scheduled, so that equal prompts that come
        together share it; but nobody is done before it is computed.
        """
        speed, size = self.settings.cost.prefill, self.memory.block_size
        shared = self._computed_at.get(hold.path[-1], 0) if hold.path else 0
        full = generation.prompt_tokens // size
        new = self.memory.fill(hold, generation.keys_between(len(hold.path), full))
        self._computing[generation.number] = hold.path[full - new : full]
        for place in range(full - new, full):
            computed = now + round(((place + 1) * size - found) * speed)
            self._computed_at[hold.path[place]] = max(shared, computed)
        return max(shared, now + round((generation.prompt_tokens - found) * speed))

    def _is_too_late(self, now: int, generation: Generation, found: int) -> bool:
        """Whether a request that starts now is done later than its patience allows."""
        settings = self.settings
        if settings.patience_ns is None:
            return False
        work = (generation.prompt_tokens - found) * settings.cost.prefill
        work += (generation.limit - 1) * settings.cost.step
        waited = now - generation.submitted_at - settings.overhead_ns
        return waited + settings.start_ns + round(work) > settings.patience_ns

    def _give_up(self, now: int, generation: Generation) -> None:
        generation.state = State.GIVEN_UP
        generation.due_at = now
        self._told.append(generation)

    def _forget_computing(self, generation: Generation) -> None:
        for key in self._computing.pop(generation.number, ()):
            del self._computed_at[key]

    @override
    def _leave(self, now: int, generation: Generation) -> None:
        hold, generation.hold = generation.hold, None
        assert hold is not None
        del self._runs[generation.number]
        self._without_room = None
        # The last token was never fed back.
        full = (generation.length - 1) // self.memory.block_size
        if generation.generated > 1 and full > len(hold.path):
            self.memory.fill(hold, generation.keys_between(len(hold.path), full))
        computed = sum(self._computed_at.get(key, 0) <= now for key in hold.path)
        self._forget_computing(generation)
        self.memory.release(hold, computed)

    @override
    def _preempt_all(self) -> None:
        """Let them run on: what they hold is in nobody's way."""
        self.totals.preemptions += len(self._runs)
