"""Continuous batching: iterations with a budget of tokens for many requests, as vLLM schedules.

An iteration gives one token to each request that decodes and as many prompt tokens as the budget
has to those that prefill, in the order of admission; then waiting requests are admitted with what
is left. So a long prompt slows the answers of the others, and whoever comes meanwhile waits for
the iteration's end.

A request is admitted when its whole prompt has room, and takes blocks as it needs them. When one
cannot grow, the request admitted last is preempted: its blocks stay cached until somebody needs
them, and it starts again, first in the queue, with prompt and generated tokens to be computed.
(`core.steps` has the older rules of published models: no such check, and nothing is kept.)

When all residents decode and stay in their blocks, equal iterations are made at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.sim.core.engine import Engine, EngineSettings
from tare.sim.core.generations import State
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from tare.sim.core.generations import Generation

__all__ = ["ContinuousBatching"]


class ContinuousBatching(Engine):
    """See the module."""

    def __init__(self, settings: EngineSettings) -> None:
        super().__init__(settings)
        self._residents: list[Generation] = []
        """Running requests in the order of admission."""
        self._scheduled: list[tuple[Generation, int]] = []
        """Who gets how many tokens in the running iteration."""
        self._finished: list[Generation] = []
        """Who leaves before the next iteration."""
        self._started_at = 0
        self._ends_at: int | None = None
        self._equal = 1
        """Equal iterations that run as one."""
        self._shortest = settings.cost.duration(
            decoding=0, kv_tokens=settings.block_size, prefilled=0, attended=0, tokens=1
        )
        """What every iteration takes at least."""

    @property
    @override
    def running(self) -> int:
        """Requests that hold memory."""
        return len(self._residents)

    @override
    def _ends_from(self) -> int | None:
        """Return when the next request would end if all iterations were as short as can be."""
        requests = (*self._residents, *self._waiting, *self._arriving)
        if not requests:
            return None
        left = min([request.limit - request.generated for request in requests])
        if self._ends_at is not None:
            return self._ends_at + max(left - self._equal, 0) * self._shortest
        arrival = self._next_arrival()
        return None if arrival is None else arrival + left * self._shortest

    @override
    def _due(self) -> int | None:
        return self._ends_at

    @override
    def _proceed(self, now: int, horizon: int) -> None:
        if self._ends_at is not None and self._ends_at <= now:
            self._finish_step(now)
            if self.tells_first and now + self._shortest > horizon:
                self._put_off = now
            else:
                self._start_step(now, horizon)

    @override
    def _admit(self, now: int) -> None:
        if self._ends_at is None:
            self._start_step(now, now)

    @override
    def _leave(self, now: int, generation: Generation) -> None:  # noqa: ARG002 - not by steps
        hold, generation.hold = generation.hold, None
        assert hold is not None
        self._residents.remove(generation)
        # An iteration that runs goes on, so that what it computes for this request is there for
        # whoever is admitted after it.
        self.memory.release(hold)

    @override
    def _preempt_all(self) -> None:
        while self._residents:
            self._preempt(self._residents[-1])

    def _preempt(self, generation: Generation) -> None:
        self._leave(0, generation)
        generation.state = State.WAITING
        generation.position = 0
        generation.preemptions += 1
        self.totals.preemptions += 1
        self._waiting.appendleft(generation)

    # --- an iteration

    def _finish_step(self, now: int) -> None:
        """Give a token, or several equal steps' tokens, to whoever has none left to compute."""
        count = self._equal
        first_at = self._started_at + (now - self._started_at) // count
        for generation, _ in self._scheduled:
            # Without a hold it was aborted or preempted while the iteration ran.
            if generation.hold is not None and generation.position >= generation.length:
                self._generate(generation, first_at, now, count)
                if generation.generated == generation.limit:
                    self._finished.append(generation)
        self._ends_at = None

    def _start_step(self, now: int, horizon: int) -> None:
        for generation in self._finished:
            self._leave(now, generation)
        self._finished.clear()
        self._scheduled = []
        before = self.totals.preemptions
        left = self._schedule_residents()
        stable = self.totals.preemptions == before
        if stable and self._waiting:
            self._schedule_newcomers(left)
        if not self._scheduled:
            return
        length = self._duration()
        self._equal = 1
        if stable and now + 2 * length <= horizon:
            self._equal += self._skip_equal_steps(length, horizon - now)
        self.totals.steps += self._equal
        self._started_at = now
        self._ends_at = now + self._equal * length

    def _schedule_residents(self) -> int:
        """Give residents their tokens; return what is left of the budget."""
        left = self.settings.max_num_batched_tokens
        place = 0
        while left and place < len(self._residents):
            generation = self._residents[place]
            place += 1
            tokens = min(generation.length - generation.position, left)
            if self._grow(generation, generation.position + tokens):
                self._take(generation, tokens)
                left -= tokens
        return left

    def _grow(self, generation: Generation, tokens: int) -> bool:
        """Enlarge a resident's memory; False when it had to be preempted itself."""
        hold = generation.hold
        assert hold is not None
        while not self.memory.grow(hold, tokens):
            victim = self._residents[-1]
            self._preempt(victim)
            if victim is generation:
                return False
        return True

    def _schedule_newcomers(self, left: int) -> None:
        """Admit requests in their order while they fit, with the tokens that are left."""
        waiting, memory = self._waiting, self.memory
        while waiting and left and len(self._residents) < self.settings.max_num_seqs:
            generation = waiting[0]
            length = generation.length
            found = memory.find(generation.keys, length)
            tokens = min(length - found, left)
            keys = generation.keys_between(0, found // memory.block_size)
            generation.hold = memory.hold(keys, found + tokens, room=length)
            if generation.hold is None:
                return
            waiting.popleft()
            self._residents.append(generation)
            self._start(generation, found)
            generation.position = found
            self._take(generation, tokens)
            left -= tokens

    def _take(self, generation: Generation, tokens: int) -> None:
        generation.position += tokens
        self._scheduled.append((generation, tokens))
        self._name_blocks(generation)

    def _name_blocks(self, generation: Generation) -> None:
        """Let others find the blocks that are full now."""
        hold = generation.hold
        assert hold is not None
        named, full = len(hold.path), generation.position // self.memory.block_size
        if full > named:
            self.memory.fill(hold, generation.keys_between(named, full))

    def _duration(self) -> int:
        """Return the nanoseconds of the scheduled iteration."""
        decoding = blocks = prefilled = total = 0
        attended = 0.0
        for generation, tokens in self._scheduled:
            assert generation.hold is not None
            blocks += generation.hold.blocks
            total += tokens
            if generation.generated and generation.position - tokens == generation.length - 1:
                decoding += 1
            else:
                prefilled += tokens
                attended += tokens * (generation.position - tokens) + tokens * (tokens + 1) / 2
        return self.settings.cost.duration(
            decoding=decoding,
            kv_tokens=blocks * self.memory.block_size,
            prefilled=prefilled,
            attended=attended,
            tokens=total,
        )

    def _skip_equal_steps(self, length: int, span: int) -> int:
        """Do the iterations that are equal to the scheduled one; return how many.

        In them nobody leaves its block or finishes before their end, and they end within `span`.
        """
        if len(self._scheduled) < len(self._residents):
            return 0
        size = self.memory.block_size
        most = span // length if length else max(generation.limit for generation in self._residents)
        for generation, tokens in self._scheduled:
            hold = generation.hold
            assert hold is not None
            decodes = generation.generated and tokens == 1
            if not decodes or generation.position != generation.length:
                return 0
            room = hold.blocks * size - generation.position + 1
            most = min(most, room, generation.limit - generation.generated)
        if most > 1 and self._fills_known_block(most):
            most -= 1
        if most <= 1:
            return 0
        for generation, _ in self._scheduled:
            generation.position += most - 1
            self._name_blocks(generation)
        return most - 1

    def _fills_known_block(self, steps: int) -> bool:
        """Whether the last of so many iterations fills a block that is there already.

        Its copy goes, which changes what is held and cached and may make room for who waits. Two
        requests that fill equal blocks at once are such a case too.
        """
        memory, keys = self.memory, []
        for generation, _ in self._scheduled:
            end = generation.position + steps - 1
            if end % memory.block_size == 0:
                last = end // memory.block_size
                keys += generation.keys_between(last - 1, last)
        return len(set(keys)) < len(keys) or any(memory.knows(key) for key in keys)
