"""A service in virtual time, sent the bodies that a worker sends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tare.sim.models.load import load_server_model
from tare.sim.predict.clock import VirtualClock
from tare.sim.predict.service import Flight, Service

MS = 1_000_000
SMALL = "chapter-5@kv_blocks=40,max_num_seqs=4,max_num_batched_tokens=64"


@dataclass
class Asker:
    """Sends requests and writes down what comes back, as (milliseconds, tokens)."""

    model: str = "chapter-5"
    replicas: int = 1
    clock: VirtualClock = field(default_factory=VirtualClock)
    flights: list[Flight | None] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.service = Service(
            load_server_model(self.model), replicas=self.replicas, clock=self.clock
        )
        self.service.begin_watching()

    def ask(self, tokens: int, answer: int = 1, *, first: str = "a", replica: int = 0) -> Heard:
        prompt = " ".join([first, *["word"] * (tokens - 1)])
        body = json.dumps({"prompt": prompt, "max_tokens": answer, "stream": True}).encode()
        heard = Heard()
        self.heard.append(heard)
        self.flights.append(self.service.submit(body, heard, chat=False, replica=replica))
        return heard

    def has_answers(self, count: int) -> bool:
        return len(self.heard) == count and all(heard.over for heard in self.heard)

    def wait(self) -> None:
        self.service.run(until=partial(self.has_answers, len(self.heard)))


@dataclass
class Heard:
    """A client."""

    tokens: list[tuple[int, int, int]] = field(default_factory=list)
    """First and last moment, and how many."""
    refused: tuple[int, str] | None = None
    cached: int = -1
    over: bool = False
    then: Callable[[], None] = lambda: None
    """Called at the end."""

    def on_tokens(self, flight: Flight, first_at: int, last_at: int, count: int) -> None:
        self.tokens.append((first_at, last_at, count))
        self.cached = flight.generation.cached_tokens
        if flight.generation.finished:
            self.end()

    def on_refused(self, status: int, message: str) -> None:
        self.refused = (status, message)
        self.end()

    def end(self) -> None:
        self.over = True
        self.then()

    @property
    def moments(self) -> list[int]:
        found = []
        for first, last, count in self.tokens:
            gap = (last - first) / (count - 1) if count > 1 else 0
            found += [round(first + place * gap) for place in range(count)]
        return found


def test_a_repeated_prompt_finds_its_blocks_on_the_same_replica_only() -> None:
    asker = Asker(replicas=2)
    first = asker.ask(100)
    asker.wait()
    again, elsewhere = asker.ask(100), asker.ask(100, replica=1)
    asker.wait()
    assert (first.cached, again.cached, elsewhere.cached) == (0, 96, 0)


def test_a_reset_empties_the_caches() -> None:
    asker = Asker()
    asker.ask(100)
    asker.wait()
    asker.service.reset()
    again = asker.ask(100)
    asker.wait()
    assert again.cached == 0


def test_a_request_longer_than_the_memory_is_refused_a_moment_later() -> None:
    asker = Asker(SMALL)
    heard = asker.ask(1000)
    assert not heard.over
    asker.wait()
    assert heard.refused is not None
    assert heard.refused[0] == 400
    assert "maximum context length is 640 tokens" in heard.refused[1]
    assert asker.service.usage().rejected == 1


def test_who_waits_for_too_long_is_refused() -> None:
    asker = Asker("board@max_num_seqs=1,patience=4")
    asker.ask(6000, 120)
    late = asker.ask(6000, 120, first="b")
    asker.wait()
    assert late.refused is not None
    assert late.refused[0] == 503
    assert (asker.service.usage().given_up, asker.service.usage().rejected) == (1, 1)


def test_an_aborted_request_is_told_of_no_more_tokens() -> None:
    asker = Asker()
    gone, other = asker.ask(100, 50), asker.ask(100, 50, first="b")
    flight = asker.flights[0]
    assert flight is not None
    asker.clock.call_later(0.004, lambda: asker.service.abort(flight))
    asker.service.run(until=lambda: other.over)
    assert len(other.moments) == 50
    assert 0 < len(gone.moments) < 50


def test_levels_are_averaged_over_the_time_that_is_watched() -> None:
    asker = Asker()
    asker.ask(100, 50)
    asker.wait()
    usage = asker.service.usage()
    assert (usage.busy, usage.arrivals, usage.waiting) == (1.0, 1, 0.0)
    assert 100 <= usage.used_tokens <= 160
    asker.service.begin_watching()
    assert asker.service.usage().arrivals == 0


def stepwise(asker: Asker) -> None:
    """Look at each engine's promise as broken: no equal iterations are made at once."""
    asker.service._quiet_until = (  # type: ignore[method-assign]
        lambda replica, now, timer: 0 * (replica + now + timer)
    )


_LOADS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 200), st.integers(1, 60), st.sampled_from("abc")),
    min_size=1,
    max_size=12,
)
_SLOTS = "chapter-4@kv_blocks=600,max_num_seqs=3"
_IMPATIENT = "board@block_size=16,kv_blocks=40,max_num_seqs=4,patience=1"


@given(
    _LOADS,
    st.sampled_from([SMALL, "chapter-5", "a100-qwen3-8b", _SLOTS, _IMPATIENT]),
    st.integers(1, 3),
)
@settings(max_examples=80, deadline=None)
def test_jumping_over_equal_iterations_changes_no_token_no_moment_and_no_level(
    load: list[tuple[int, int, int, str]], model: str, replicas: int
) -> None:
    found = []
    for jumps in (True, False):
        asker = Asker(model, replicas)
        if not jumps:
            stepwise(asker)
        at = 0
        for number, (pause, tokens, answer, first) in enumerate(load):
            at += pause
            ask = partial(asker.ask, tokens, answer, first=first, replica=number % replicas)
            asker.clock.call_later(at / 1000, ask)
        asker.service.run(until=partial(asker.has_answers, len(load)))
        found.append(outcome(asker))
    assert found[0] == found[1]


@given(_LOADS, st.sampled_from([SMALL, "a100-qwen3-8b", _SLOTS]), st.integers(2, 3))
@settings(max_examples=60, deadline=None)
def test_nor_does_it_where_the_end_of_a_request_is_followed_by_one_to_another_replica(
    load: list[tuple[int, int, int, str]], model: str, replicas: int
) -> None:
    found = []
    for jumps in (True, False):
        asker = Asker(model, replicas)
        if not jumps:
            stepwise(asker)
        left = list(enumerate(load))

        def go_on(asker: Asker = asker, left: list[Any] = left) -> None:
            if left:
                number, (_, tokens, answer, first) = left.pop()
                heard = asker.ask(tokens, answer, first=first, replica=number % replicas)
                heard.then = go_on

        for _ in range(3):
            go_on()
        asker.service.run(until=partial(asker.has_answers, len(load)))
        found.append(outcome(asker))
    assert found[0] == found[1]


def outcome(asker: Asker) -> tuple[object, ...]:
    """Everything that a prediction is made of."""
    heard = [(one.moments, one.cached, one.refused) for one in asker.heard]
    return heard, asker.service.usage()


@given(_LOADS)
@settings(max_examples=60, deadline=None)
def test_held_and_cached_blocks_never_exceed_the_memory_after_any_event(
    load: list[tuple[int, int, int, str]],
) -> None:
    asker = Asker(SMALL)
    [engine] = asker.service._engines
    for _, tokens, answer, first in load:
        asker.ask(tokens, answer, first=first)

    def done() -> bool:
        memory = engine.memory
        assert memory.held + memory.cached <= memory.capacity
        assert min(memory.held, memory.cached) >= 0
        return all(heard.over for heard in asker.heard)

    asker.service.run(until=done)
    assert engine.memory.held == 0
