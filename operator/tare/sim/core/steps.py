"""The step engine: one iteration after the other, each with a budget of tokens for many requests.

An iteration gives one token to each request that decodes and what it still wants to each that
prefills, in the order of admission, and admits waiting requests with the budget that is left. It
takes

    max(omega + beta · KV tokens of the scheduled requests, alpha · scheduled tokens)

A request holds KV memory in whole blocks up to the position it reaches. When it cannot grow, the
request admitted last is preempted: what it has computed becomes a cached prefix, it goes to the
head of the queue and starts again from there. (vLLM also keeps the generated tokens; here they are
computed again.) Tokens are whole numbers, held in floats, which add them exactly; real numbers
work too, for models that draw them.

When every resident decodes and nothing can happen before the next event, blocks and finishes
included, equal iterations are made at once: exact, and some ten times fewer events.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from tare.sim.core.pool import (
    EPSILON,
    USED,
    Pool,
    consume,
    enlarge,
    enqueue,
    evict_oldest,
    fits,
    full_blocks,
    keep,
    occupy,
    push_back,
    release,
    take_head,
    whole_blocks,
)

__all__ = [
    "FINISHED",
    "HITS",
    "ITERATIONS",
    "LOOKUPS",
    "PREEMPTIONS",
    "PREFILLED",
    "SCHEDULED",
    "STUCK",
    "Engine",
    "Limits",
    "add_request",
    "finish_iteration",
    "new_engine",
    "start_iteration",
    "submit",
]

ITERATIONS: Final = 0
PREEMPTIONS: Final = 1
STUCK: Final = 2
HITS: Final = 3
LOOKUPS: Final = 4
SCHEDULED: Final = 5
PREFILLED: Final = 6
FINISHED: Final = 7
"""Places in `counts`; `STUCK` counts what `Engine.stuck` marks, the last three fill lists."""

_NEVER: Final = -1.0
_NO_LIMIT: Final = 1 << 40


class Limits(NamedTuple):
    """Size and speed of an engine."""

    budget: float
    """Tokens an iteration."""
    max_requests: int
    block: float
    capacity: float
    """KV tokens, a multiple of the block."""
    alpha: float
    """Seconds of computing for each scheduled token."""
    omega: float
    """Seconds to read the weights, once an iteration."""
    beta: float
    """Seconds to read the KV memory of one token."""
    jump: bool
    """Whether equal iterations are made at once; the numbers are the same."""


class Engine(NamedTuple):
    """All state of an engine beside its pool; lists are by request, 0 is nobody."""

    counts: list[int]
    prompt: list[float]
    output: list[float]
    position: list[float]
    """Tokens whose keys and values are computed."""
    work: list[float]
    """Tokens that are still to be computed in this phase."""
    decoding: list[int]
    reached: list[float]
    """Position at the last preemption."""
    stuck: list[int]
    """1 after two preemptions without progress between them."""
    residents: list[int]
    """Running requests in the order of admission."""
    scheduled: list[int]
    tokens: list[float]
    """Of the running iteration: requests and their tokens, as many as `counts` says. These lists
    are never shortened, since numba frees and allocates memory for that."""
    prefilled: list[int]
    finished: list[int]
    """Of the iteration that ended last: who had the first token, and who the last."""


def new_engine(limits: Limits) -> Engine:
    """Return an idle engine that knows no request."""
    places = [0] * limits.max_requests
    residents = [0]
    residents.clear()
    return Engine(
        [0] * 8, [0.0], [0.0], [0.0], [0.0], [0], [_NEVER], [0], residents,
        places, [0.0] * limits.max_requests, places.copy(), places.copy(),
    )  # fmt: skip


def add_request(engine: Engine) -> None:
    """Make room for the next request in every list."""
    engine.prompt.append(0.0)
    engine.output.append(0.0)
    engine.position.append(0.0)
    engine.work.append(0.0)
    engine.decoding.append(0)
    engine.reached.append(_NEVER)
    engine.stuck.append(0)


def submit(
    engine: Engine, pool: Pool, request: int, prompt: float, output: float, now: float
) -> None:
    """Let a request wait for its admission."""
    engine.prompt[request] = prompt
    engine.output[request] = output
    enqueue(pool, request, 0.0, now)


def start_iteration(
    engine: Engine, pool: Pool, limits: Limits, now: float, until: float, warmup: float
) -> float:
    """Schedule the next iteration, or several equal ones; return their seconds.

    It is negative when there is nothing to do. `until` is when the next event will happen.
    """
    engine.counts[SCHEDULED] = 0
    before = engine.counts[PREEMPTIONS]
    left = limits.budget
    place = 0
    more = True
    while more:
        if place < len(engine.residents):
            request = engine.residents[place]
            place += 1
            granted = schedule(engine, pool, limits, request, left, now)
            left -= granted
            more = left > 0
        elif engine.counts[PREEMPTIONS] == before and pool.after[0] != 0:
            more = admit(engine, pool, limits, left, now, warmup)
        else:
            more = False
    seconds = _NEVER
    if engine.counts[SCHEDULED] > 0 or engine.counts[PREEMPTIONS] > before:
        seconds = duration(engine, pool, limits)
        engine.counts[ITERATIONS] += 1
        if limits.jump and engine.counts[PREEMPTIONS] == before:
            extra = equal_iterations(engine, pool, seconds, until - now)
            engine.counts[ITERATIONS] += extra
            seconds *= 1 + extra
    return seconds


def schedule(
    engine: Engine, pool: Pool, limits: Limits, request: int, left: float, now: float
) -> float:
    """Give a resident its tokens of this iteration, and the blocks for them; return how many."""
    wanted = engine.work[request]
    if engine.decoding[request] != 0:
        wanted = min(1.0, wanted)
    tokens = min(wanted, left)
    if tokens > 0:
        missing = engine.position[request] + tokens - pool.need[request]
        if missing > EPSILON:
            target = whole_blocks(pool.need[request] + missing, limits.block)
            granted = grow(engine, pool, limits, request, target, now)
            tokens = tokens if granted else 0.0
        if tokens > 0:
            engine.position[request] += tokens
            place = engine.counts[SCHEDULED]
            engine.scheduled[place] = request
            engine.tokens[place] = tokens
            engine.counts[SCHEDULED] = place + 1
    return tokens


def grow(
    engine: Engine, pool: Pool, limits: Limits, request: int, target: float, now: float
) -> bool:
    """Enlarge a resident's memory; False when it had to be preempted itself."""
    more = target - pool.need[request]
    resident = True
    while resident and pool.levels[USED] + more > limits.capacity + EPSILON:
        victim = engine.residents[-1]
        resident = victim != request
        preempt(engine, pool, limits, victim, now)
    if resident:
        evict_oldest(pool, more, limits.capacity, limits.block, now)
        enlarge(pool, request, more, now)
    return resident


def preempt(engine: Engine, pool: Pool, limits: Limits, victim: int, now: float) -> None:
    """Take the memory of the request that was admitted last, and let it start again first."""
    position = engine.position[victim]
    again = engine.reached[victim] >= 0 and position <= engine.reached[victim] + EPSILON
    if again and engine.stuck[victim] == 0:
        engine.stuck[victim] = 1
        engine.counts[STUCK] += 1
    engine.reached[victim] = position
    engine.counts[PREEMPTIONS] += 1
    engine.residents.pop()
    leave(engine, pool, limits, victim, now)
    push_back(pool, victim, now)


def leave(engine: Engine, pool: Pool, limits: Limits, request: int, now: float) -> None:
    """Give a request's memory back; its computed full blocks stay cached."""
    computed = min(engine.prompt[request] + engine.output[request], engine.position[request])
    kept = full_blocks(computed, limits.block)
    release(pool, request, now)
    if kept > 0:
        keep(pool, request, kept, now)


def admit(
    engine: Engine, pool: Pool, limits: Limits, left: float, now: float, warmup: float
) -> bool:
    """Admit the head of the queue if it fits with the tokens that are left of the budget."""
    request = pool.after[0]
    prompt = engine.prompt[request]
    # The last token of a prompt is always computed, so its block is never a hit.
    most = math.floor((prompt - 1) / limits.block) * limits.block
    hits = min(pool.size[pool.entry[request]], most)
    need = whole_blocks(min(prompt, hits + left), limits.block)
    admitted = len(engine.residents) < limits.max_requests and fits(pool, need, limits.capacity)
    if admitted:
        first = take_head(pool, now, warmup)
        own = consume(pool, first, math.inf, limits.block, now)
        evict_oldest(pool, need, limits.capacity, limits.block, now)
        occupy(pool, request, need, now)
        if now >= warmup:
            engine.counts[LOOKUPS] += 1
            if hits > 0:
                engine.counts[HITS] += 1
        engine.position[request] = own
        engine.work[request] = prompt - hits
        engine.decoding[request] = 0
        engine.residents.append(request)
    return admitted


def duration(engine: Engine, pool: Pool, limits: Limits) -> float:
    """Return the seconds of the scheduled iteration."""
    memory = 0.0
    tokens = 0.0
    for place in range(engine.counts[SCHEDULED]):
        memory += pool.need[engine.scheduled[place]]
        tokens += engine.tokens[place]
    return max(limits.omega + limits.beta * memory, tokens * limits.alpha)


def equal_iterations(engine: Engine, pool: Pool, seconds: float, span: float) -> int:
    """Add the iterations that are equal to the scheduled one; return how many.

    Nobody leaves his block, finishes, or can be disturbed within `span` seconds before their end.
    """
    extra = 0
    if engine.counts[SCHEDULED] == len(engine.residents):
        extra = _NO_LIMIT
        for place in range(engine.counts[SCHEDULED]):
            request = engine.scheduled[place]
            if engine.decoding[request] == 0 or engine.tokens[place] != 1.0:
                extra = 0
                break
            room = math.floor(pool.need[request] - engine.position[request] + EPSILON)
            before_last = math.ceil(engine.work[request] - 1.0 - EPSILON) - 1
            extra = min(extra, room, before_last)
        if extra > 0:
            extra = max(0, min(extra, int(min(math.ceil(span / seconds) - 1.0, 1e12))))
    if extra > 0:
        for place in range(engine.counts[SCHEDULED]):
            engine.position[engine.scheduled[place]] += extra
            engine.tokens[place] += extra
    return max(extra, 0)


def finish_iteration(engine: Engine, pool: Pool, limits: Limits, now: float) -> None:
    """Count the tokens of the running iteration; fills `prefilled` and `finished`."""
    engine.counts[PREFILLED] = 0
    engine.counts[FINISHED] = 0
    for place in range(engine.counts[SCHEDULED]):
        request = engine.scheduled[place]
        engine.work[request] -= engine.tokens[place]
        if engine.work[request] <= EPSILON:
            if engine.decoding[request] == 0:
                engine.prefilled[engine.counts[PREFILLED]] = request
                engine.counts[PREFILLED] += 1
            if engine.decoding[request] == 0 and engine.output[request] > 1:
                engine.decoding[request] = 1
                engine.work[request] = engine.output[request] - 1
            else:
                engine.finished[engine.counts[FINISHED]] = request
                engine.counts[FINISHED] += 1
    for place in range(engine.counts[FINISHED]):
        request = engine.finished[place]
        engine.residents.remove(request)
        leave(engine, pool, limits, request, now)
        engine.reached[request] = _NEVER
    engine.counts[SCHEDULED] = 0
