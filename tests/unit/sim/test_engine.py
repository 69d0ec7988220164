"""The engine on a fake clock: when tokens come, and what a prompt finds cached.

The rules of cached tokens were measured on a vLLM 0.32 with blocks of 32.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from tare.sim.engine import Engine, EngineSettings, Generation, Prompt

MS = 1_000_000
SIZE = 32


@dataclass
class Heard:
    """A listener that writes down when it was told of how many tokens."""

    world: World
    tokens: list[tuple[int, int]] = field(default_factory=list)

    def on_tokens(self, generation: Generation, count: int) -> None:
        del generation
        self.tokens.append((self.world.now // MS, count))


class World:
    """An engine and its clock: 10 ms overhead, 1 ms a prompt token, then 5 ms a token."""

    def __init__(self, **settings: Any) -> None:
        base: dict[str, Any] = {
            "ttft_overhead_ns": 10 * MS,
            "prefill_ns_per_token": float(MS),
            "inter_token_ns": 5 * MS,
            "max_num_seqs": 64,
            "block_size": SIZE,
            "kv_blocks": 1000,
        }
        self.engine = Engine(EngineSettings(**{**base, **settings}))
        self.now = 0

    def submit(
        self, ids: list[int], limit: int = 1, *, salt: int = 0, answer: int = 9000
    ) -> tuple[Generation, Heard]:
        heard = Heard(self)
        prompt = Prompt(ids, SIZE, salt)
        generation = self.engine.submit(
            self.now, prompt, limit, lambda n: list(range(answer, answer + n)), heard
        )
        return generation, heard

    def play(self, until_ms: int | None = None) -> None:
        """Jump from due time to due time, to the end or to a moment."""
        while (due := self.engine.next_due()) is not None:
            if until_ms is not None and due > until_ms * MS:
                break
            self.now = due
            self.engine.advance(due)
        if until_ms is not None:
            self.now = until_ms * MS

    def run(self, ids: list[int], limit: int = 1, **more: Any) -> Generation:
        generation, _ = self.submit(ids, limit, **more)
        self.play()
        return generation


def prompt(tokens: int, start: int = 0) -> list[int]:
    return list(range(start, start + tokens))


@pytest.mark.parametrize(
    ("tokens", "cached"),
    [(31, 0), (32, 0), (33, 32), (64, 32), (65, 64), (892, 864), (896, 864), (897, 896)],
)
def test_a_repeated_prompt_finds_its_full_blocks_but_never_its_last_token(
    tokens: int, cached: int
) -> None:
    world = World()
    assert world.run(prompt(tokens)).cached_tokens == 0
    assert world.run(prompt(tokens)).cached_tokens == cached


@pytest.mark.parametrize(("shared", "cached"), [(31, 0), (32, 32), (870, 864), (896, 896)])
def test_a_prompt_with_another_end_finds_the_full_blocks_of_the_common_part(
    shared: int, cached: int
) -> None:
    world = World()
    world.run(prompt(shared) + prompt(50, start=5000))
    assert world.run(prompt(shared) + prompt(50, start=7000)).cached_tokens == cached


def test_generated_tokens_are_cached_too_when_they_come_back_as_ids() -> None:
    world = World()
    world.run(prompt(40), limit=100)
    assert world.run(prompt(40) + prompt(100, start=9000)).cached_tokens == 128


def test_the_last_generated_token_is_not_cached() -> None:
    world = World()
    world.run(prompt(40), limit=24)
    assert world.run(prompt(40) + prompt(24, start=9000) + [1]).cached_tokens == 32
    world.run(prompt(40, start=100), limit=25)
    assert world.run(prompt(40, start=100) + prompt(25, start=9000)).cached_tokens == 64


def test_eight_equal_prompts_at_once_miss_once() -> None:
    world = World()
    generations = [world.submit(prompt(2564))[0] for _ in range(8)]
    world.play()
    assert [generation.cached_tokens for generation in generations] == [0, *[2560] * 7]


def test_salts_have_caches_of_their_own_also_for_the_answers() -> None:
    world = World()
    for salt in (0, 1, 2):
        assert world.run(prompt(20), limit=100, salt=salt).cached_tokens == 0
        again = world.run(prompt(20) + prompt(50, start=9000), salt=salt)
        assert again.cached_tokens == 64


def test_created_cache_tokens_are_the_full_blocks_that_are_new() -> None:
    world = World()
    assert world.run(prompt(934)).created_cache_tokens == 928
    assert world.run(prompt(934)).created_cache_tokens == 0


def test_the_first_token_comes_after_overhead_and_uncached_tokens_then_one_each_step() -> None:
    world = World()
    _, heard = world.submit(prompt(100), limit=4)
    world.play()
    assert heard.tokens == [(110, 1), (115, 1), (120, 1), (125, 1)]


def test_cached_tokens_shorten_the_time_to_first_token() -> None:
    world = World()
    world.run(prompt(100))
    begin = world.now // MS
    _, heard = world.submit(prompt(100))
    world.play()
    assert heard.tokens == [(begin + 10 + 4, 1)]


def test_who_shares_a_prefix_in_flight_is_not_done_before_it_is_computed() -> None:
    world = World()
    _, first = world.submit(prompt(100))
    world.play(until_ms=50)
    _, second = world.submit(prompt(100))
    world.play()
    assert first.tokens == [(110, 1)]
    assert second.tokens == [(106, 1)]  # when the last shared block, 96 tokens, was computed


def test_a_request_waits_for_a_slot_first_come_first_served() -> None:
    world = World(max_num_seqs=1)
    heard = [world.submit(prompt(10, start=100 * n), limit=2)[1] for n in range(3)]
    assert (world.engine.running, world.engine.waiting) == (1, 2)
    world.play()
    assert [one.tokens[0][0] for one in heard] == [20, 45, 70]


def test_a_request_waits_for_memory_for_prompt_and_answer() -> None:
    world = World(kv_blocks=4)
    _, first = world.submit(prompt(64), limit=32)
    _, second = world.submit(prompt(33, start=500), limit=31)
    assert (world.engine.running, world.engine.waiting) == (1, 1)
    world.play()
    assert second.tokens[0][0] == first.tokens[-1][0] + 10 + 33


def test_a_small_request_does_not_overtake_one_that_waits_for_memory() -> None:
    world = World(kv_blocks=4)
    _, first = world.submit(prompt(64), limit=32)
    world.submit(prompt(70, start=500))
    _, small = world.submit(prompt(1, start=900))
    assert world.engine.waiting == 2
    world.play()
    assert small.tokens == [(first.tokens[-1][0] + 10 + 1, 1)]


def test_eviction_makes_a_repeated_prompt_cold() -> None:
    world = World(kv_blocks=8)
    world.run(prompt(130))
    world.run(prompt(130, start=1000))
    world.run(prompt(130, start=2000))
    assert world.run(prompt(130)).cached_tokens == 0


def test_tokens_of_a_late_clock_come_together_and_the_pace_is_kept() -> None:
    world = World()
    _, heard = world.submit(prompt(10), limit=6)
    world.now = 31 * MS
    world.engine.advance(world.now)
    assert world.engine.totals.max_late_ns == 11 * MS
    world.play()
    assert heard.tokens == [(31, 3), (35, 1), (40, 1), (45, 1)]


def test_a_reset_is_refused_while_a_request_runs_and_empties_the_cache_after() -> None:
    world = World()
    world.run(prompt(100))
    world.submit(prompt(10))
    assert not world.engine.reset()
    world.play()
    assert world.engine.reset()
    assert world.run(prompt(100)).cached_tokens == 0


def test_a_reset_with_preemption_is_granted_but_the_running_request_fills_the_cache_again() -> None:
    world = World()
    world.run(prompt(100))
    running, _ = world.submit(prompt(601, start=5000), limit=50)
    world.play(until_ms=900)
    assert world.engine.reset(preempt=True)
    assert world.engine.totals.preemptions == 1
    world.play()
    assert running.finished
    assert world.run(prompt(601, start=5000)).cached_tokens == 576
    assert world.run(prompt(100)).cached_tokens == 0


def test_an_abort_frees_the_blocks_at_once_and_tells_nobody() -> None:
    world = World()
    generation, heard = world.submit(prompt(100), limit=50)
    assert world.engine.cache.in_use == 5
    world.engine.abort(world.now, generation)
    assert world.engine.cache.in_use == 0
    assert world.engine.next_due() is None
    assert world.engine.reset()
    assert heard.tokens == []


def test_what_was_computed_before_an_abort_stays_cached() -> None:
    world = World()
    generation, _ = world.submit(prompt(100))
    world.play(until_ms=80)
    world.engine.abort(world.now, generation)
    assert world.run(prompt(100)).cached_tokens == 64


def test_an_abort_lets_the_next_one_in_and_a_second_abort_changes_nothing() -> None:
    world = World(max_num_seqs=1)
    first, _ = world.submit(prompt(10))
    second, _ = world.submit(prompt(10, start=100))
    third, _ = world.submit(prompt(10, start=200))
    world.engine.abort(world.now, second)
    world.engine.abort(world.now, first)
    world.engine.abort(world.now, first)
    world.play()
    assert [first.finished, second.finished, third.finished] == [False, False, True]
    assert (world.engine.running, world.engine.waiting) == (0, 0)


def test_the_totals_count_lookups_when_a_request_starts_and_no_reset_changes_them() -> None:
    world = World()
    world.run(prompt(100), limit=7)
    world.run(prompt(100), limit=7)
    world.engine.reset()
    totals = world.engine.totals
    assert (totals.prefix_queries, totals.prefix_hits) == (200, 96)
    assert (totals.prompt_tokens, totals.cached_tokens, totals.generated_tokens) == (200, 96, 14)
