"""The simulated engine: which request runs when, what it finds cached, when its tokens come.

Pure and without a clock: each call says what time it is, `next_due` says when the engine wants to
be called again, and listeners are told of new tokens. A driver with the real clock makes a server
of it, one that jumps from due time to due time makes a prediction.

The model is a number of equal slots. A request waits first come, first served, for a slot and for
the KV blocks of its prompt and whole answer. Then

    time to first token = overhead + (prompt tokens - cached tokens) / prefill rate

and each further token follows after the inter-token time. Running requests do not slow each other
down; only waiting does. Preemption and interference of prefill with decode are left out.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from tare.sim.cache import BlockCache, Lease, block_keys

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Engine", "EngineSettings", "EngineTotals", "Generation", "Listener", "Prompt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Speed and size of the simulated engine; times are in nanoseconds."""

    ttft_overhead_ns: int
    prefill_ns_per_token: float
    inter_token_ns: int
    max_num_seqs: int
    """Requests that run at a time."""
    block_size: int
    kv_blocks: int


class Listener(Protocol):
    """Who is told of a request's progress."""

    def on_tokens(self, generation: Generation, count: int) -> None:
        """`count` more tokens exist; `generation.finished` tells whether they are the last ones."""


class Prompt:
    """Token ids of a prompt with the keys of its full blocks.

    Prompts with different salts share nothing; 0 stands for none.
    """

    __slots__ = ("ids", "keys", "salt")

    def __init__(self, ids: Sequence[int], block_size: int, salt: int = 0) -> None:
        self.ids = ids
        self.salt = salt
        self.keys = block_keys(ids, block_size, root=salt)


class _State(Enum):
    WAITING = auto()
    RUNNING = auto()
    FINISHED = auto()
    ABORTED = auto()


class Generation:
    """One submitted request: what it found, and how far it is."""

    __slots__ = (
        "answer_ids",
        "cached_tokens",
        "created_cache_tokens",
        "first_token_at",
        "generated",
        "lease",
        "limit",
        "listener",
        "prompt",
        "state",
    )

    def __init__(
        self,
        prompt: Prompt,
        limit: int,
        answer_ids: Callable[[int], list[int]],
        listener: Listener,
    ) -> None:
        self.prompt = prompt
        self.limit = limit
        """Tokens that will be generated."""
        self.answer_ids = answer_ids
        self.listener = listener
        self.state = _State.WAITING
        self.generated = 0
        self.cached_tokens = 0
        """Prompt tokens found in the cache; known once the request runs."""
        self.created_cache_tokens = 0
        """Tokens of the full prompt blocks that it put into the cache."""
        self.first_token_at = 0
        self.lease: Lease | None = None

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return len(self.prompt.ids)

    @property
    def finished(self) -> bool:
        """Whether all tokens are generated."""
        return self.state is _State.FINISHED


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
    max_late_ns: int = 0
    """The longest time by which a token was told later than it was due."""


class Engine:
    """Runs requests over a shared prefix cache; see the module for the rules."""

    def __init__(self, settings: EngineSettings) -> None:
        self.settings = settings
        self.cache = BlockCache(settings.kv_blocks)
        self.totals = EngineTotals()
        self._waiting: deque[Generation] = deque()
        self._running = 0
        self._due: list[tuple[int, int, Generation]] = []
        self._order = 0

    @property
    def running(self) -> int:
        """Requests that hold a slot."""
        return self._running

    @property
    def waiting(self) -> int:
        """Requests that wait for a slot or for memory."""
        return len(self._waiting)

    def submit(
        self,
        now: int,
        prompt: Prompt,
        limit: int,
        answer_ids: Callable[[int], list[int]],
        listener: Listener,
    ) -> Generation:
        """Take a request in; it starts at once when a slot and memory are free.

        Args:
            now: the time, in nanoseconds.
            prompt: at most as long, together with `limit`, as the pool has tokens.
            limit: tokens to generate, at least 1.
            answer_ids: gives the ids of the first n tokens of the answer, for the cache.
            listener: is told of tokens, never from within this call.
        """
        generation = Generation(prompt, limit, answer_ids, listener)
        self._waiting.append(generation)
        self._admit(now)
        return generation

    def abort(self, now: int, generation: Generation) -> None:
        """End a request that nobody listens to any more; its blocks are free at once."""
        match generation.state:
            case _State.WAITING:
                self._waiting.remove(generation)
                generation.state = _State.ABORTED
            case _State.RUNNING:
                self._leave(now, generation, _State.ABORTED)
            case _State.FINISHED | _State.ABORTED:
                return
        self._admit(now)

    def reset(self, *, preempt: bool = False) -> bool:
        """Empty the prefix cache; refused, as on vLLM, while a request runs.

        With `preempt` it is granted all the same. The running requests are computed again and so
        fill the cache again, as measured: true then does not mean empty.
        """
        if self._running and not preempt:
            return False
        self.totals.preemptions += self._running
        self.cache.drop_unused()
        return True

    def next_due(self) -> int | None:
        """Return when the next token is due; None when nothing runs."""
        due = self._due
        while due and due[0][2].state is not _State.RUNNING:
            heapq.heappop(due)
        return due[0][0] if due else None

    def advance(self, now: int) -> None:
        """Generate every token that is due and tell the listeners.

        Several overdue tokens of one request are told together, as a busy server sends them.
        """
        due = self._due
        while due and due[0][0] <= now:
            at, order, generation = due[0]
            if generation.state is not _State.RUNNING:
                heapq.heappop(due)
                continue
            self._generate(now, at, order, generation)

    def _generate(self, now: int, at: int, order: int, generation: Generation) -> None:
        totals, gap = self.totals, self.settings.inter_token_ns
        if not generation.generated:
            generation.first_token_at = at
            totals.prompt_tokens += generation.prompt_tokens
            totals.cached_tokens += generation.cached_tokens
        left = generation.limit - generation.generated
        count = min(left, 1 + (now - at) // gap) if gap else left
        generation.generated += count
        totals.generated_tokens += count
        if now - at > totals.max_late_ns:  # noqa: PLR1730 - once a token, and max() is slower
            totals.max_late_ns = now - at
        last = at + (count - 1) * gap
        if count == left:
            heapq.heappop(self._due)
            self._leave(last, generation, _State.FINISHED)
            self._admit(last)
        else:
            heapq.heapreplace(self._due, (last + gap, order, generation))
        generation.listener.on_tokens(generation, count)

    def _admit(self, now: int) -> None:
        waiting = self._waiting
        while waiting and self._running < self.settings.max_num_seqs:
            lease = self._lease(waiting[0])
            if lease is None:
                return
            self._start(now, waiting.popleft(), lease)

    def _lease(self, generation: Generation) -> Lease | None:
        keys = generation.prompt.keys
        tokens = generation.prompt_tokens + generation.limit
        return self.cache.take(keys, -(-tokens // self.settings.block_size) - len(keys))

    def _start(self, now: int, generation: Generation, lease: Lease) -> None:
        size, speed = self.settings.block_size, self.settings.prefill_ns_per_token
        tokens = generation.prompt_tokens
        # The last token of a prompt is always computed, so its block is never a hit.
        hits = min(lease.hits, (tokens - 1) // size)
        cached = hits * size
        begin = now + self.settings.ttft_overhead_ns
        # A block counts as cached as soon as it is scheduled, so that equal prompts that come
        # together share it; but nobody is done before it is computed.
        shared = lease.blocks[hits - 1].ready_at if hits else 0
        for position, block in enumerate(lease.new, 1):
            block.ready_at = max(shared, begin + round(position * size * speed))
        generation.lease = lease
        generation.state = _State.RUNNING
        generation.cached_tokens = cached
        generation.created_cache_tokens = len(lease.new) * size
        self.totals.prefix_queries += tokens
        self.totals.prefix_hits += cached
        self._running += 1
        self._order += 1
        first = max(shared, begin + round((tokens - cached) * speed))
        heapq.heappush(self._due, (first, self._order, generation))

    def _keep_answer(self, generation: Generation, lease: Lease) -> None:
        """Cache the full blocks with generated tokens; the last token was never fed back."""
        prompt, size = generation.prompt, self.settings.block_size
        fed_back = generation.generated - 1
        if fed_back < 1 or (generation.prompt_tokens + fed_back) // size == len(prompt.keys):
            return
        ids = [*prompt.ids, *generation.answer_ids(fed_back)]
        keys = block_keys(ids, size, root=prompt.salt, known=prompt.keys)
        self.cache.extend(lease, keys)

    def _leave(self, now: int, generation: Generation, state: _State) -> None:
        lease, generation.lease = generation.lease, None
        assert lease is not None
        generation.state = state
        self._keep_answer(generation, lease)
        self.cache.release(lease, now)
        self._running -= 1
