"""What both serving engines do alike: what a prompt finds cached, waiting, resets, aborts.

The rules of cached tokens were measured on a vLLM 0.32 with blocks of 32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.engines import MS, World, prompt
from tare.sim.core.batching import ContinuousBatching
from tare.sim.core.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.sim.core.engine import Engine, EngineSettings

    Kind = Callable[[EngineSettings], Engine]

both = pytest.mark.parametrize("kind", [ContinuousBatching, Slots])


@both
@pytest.mark.parametrize(
    ("tokens", "cached"),
    [(31, 0), (32, 0), (33, 32), (64, 32), (65, 64), (892, 864), (896, 864), (897, 896)],
)
def test_a_repeated_prompt_finds_its_full_blocks_but_never_its_last_token(
    kind: Kind, tokens: int, cached: int
) -> None:
    world = World(kind)
    assert world.run(prompt(tokens)).cached_tokens == 0
    assert world.run(prompt(tokens)).cached_tokens == cached


@both
@pytest.mark.parametrize(("shared", "cached"), [(31, 0), (32, 32), (870, 864), (896, 896)])
def test_a_prompt_with_another_end_finds_the_full_blocks_of_the_common_part(
    kind: Kind, shared: int, cached: int
) -> None:
    world = World(kind)
    world.run(prompt(shared) + prompt(50, start=5000))
    assert world.run(prompt(shared) + prompt(50, start=7000)).cached_tokens == cached


@both
def test_generated_tokens_are_cached_too_when_they_come_back_as_ids(kind: Kind) -> None:
    world = World(kind)
    world.run(prompt(40), limit=100)
    assert world.run(prompt(40) + prompt(100, start=9000)).cached_tokens == 128


@both
def test_the_last_generated_token_is_not_cached(kind: Kind) -> None:
    world = World(kind)
    world.run(prompt(40), limit=24)
    assert world.run(prompt(40) + prompt(24, start=9000) + [1]).cached_tokens == 32
    world.run(prompt(40, start=100), limit=25)
    assert world.run(prompt(40, start=100) + prompt(25, start=9000)).cached_tokens == 64


@both
def test_eight_equal_prompts_at_once_miss_once(kind: Kind) -> None:
    world = World(kind, max_num_batched_tokens=2048)
    generations = [world.submit(prompt(2564))[0] for _ in range(8)]
    world.play()
    assert [generation.cached_tokens for generation in generations] == [0, *[2560] * 7]


@both
def test_salts_have_caches_of_their_own_also_for_the_answers(kind: Kind) -> None:
    world = World(kind)
    for salt in (0, 1, 2):
        assert world.run(prompt(20), limit=100, salt=salt).cached_tokens == 0
        again = world.run(prompt(20) + prompt(50, start=9000), salt=salt)
        assert again.cached_tokens == 64


@both
@pytest.mark.parametrize(("tokens", "cold", "warm"), [(934, 928, 0), (640, 640, 32)])
def test_created_cache_tokens_are_the_full_blocks_that_are_computed(
    kind: Kind, tokens: int, cold: int, warm: int
) -> None:
    world = World(kind)
    assert world.run(prompt(tokens)).created_cache_tokens == cold
    assert world.run(prompt(tokens)).created_cache_tokens == warm


@both
def test_the_overhead_comes_before_everything_else(kind: Kind) -> None:
    world = World(kind)
    generation, _ = world.submit(prompt(100))
    world.play(until_ms=9)
    assert (world.engine.running, world.engine.waiting) == (0, 1)
    world.play(until_ms=10)
    assert (world.engine.running, world.engine.waiting) == (1, 0)
    world.engine.abort(world.now, generation)


@both
def test_a_request_waits_for_a_place_first_come_first_served(kind: Kind) -> None:
    world = World(kind, max_num_seqs=1, overhead_ns=0)
    heard = [world.submit(prompt(10, start=100 * n), limit=2)[1] for n in range(3)]
    assert (world.engine.running, world.engine.waiting) == (1, 2)
    world.play()
    firsts = [one.tokens[0][0] for one in heard]
    ends = [one.tokens[-1][0] for one in heard]
    assert firsts == sorted(firsts)
    assert all(end < first for end, first in zip(ends, firsts[1:], strict=False))


@both
def test_a_small_request_does_not_overtake_one_that_waits_for_memory(kind: Kind) -> None:
    world = World(kind, kv_blocks=4, overhead_ns=0)
    _, first = world.submit(prompt(64), limit=32)
    world.submit(prompt(70, start=500))
    _, small = world.submit(prompt(1, start=900))
    assert world.engine.waiting == 2
    world.play()
    assert small.tokens[0][0] > first.tokens[-1][0]


@both
def test_eviction_makes_a_repeated_prompt_cold(kind: Kind) -> None:
    world = World(kind, kv_blocks=8)
    for start in (0, 1000, 2000):
        world.run(prompt(130, start=start))
    assert world.run(prompt(130)).cached_tokens == 0


@both
def test_what_can_never_fit_is_refused(kind: Kind) -> None:
    world = World(kind, kv_blocks=4)
    with pytest.raises(ValueError, match="100 prompt tokens and 29 more need more than 4 blocks"):
        world.submit(prompt(100), limit=29)
    assert world.run(prompt(100), limit=28).finished


@both
def test_a_reset_is_refused_while_a_request_runs_and_empties_the_cache_after(kind: Kind) -> None:
    world = World(kind)
    world.run(prompt(100))
    world.submit(prompt(10))
    world.play(until_ms=world.now // MS + 10)
    assert not world.engine.reset()
    world.play()
    assert world.engine.reset()
    assert world.engine.memory.cached == 0
    assert world.run(prompt(100)).cached_tokens == 0


@both
def test_a_reset_with_preemption_is_granted_but_the_running_request_fills_the_cache_again(
    kind: Kind,
) -> None:
    world = World(kind)
    world.run(prompt(100))
    running, heard = world.submit(prompt(601, start=5000), limit=50)
    world.play(until_ms=900)
    assert world.engine.reset(preempt=True)
    assert world.engine.totals.preemptions == 1
    world.play()
    assert running.finished
    assert sum(count for _, count in heard.tokens) == 50
    assert world.run(prompt(601, start=5000)).cached_tokens == 576
    assert world.run(prompt(100)).cached_tokens == 0


@both
def test_an_abort_frees_the_blocks_at_once_and_tells_nobody(kind: Kind) -> None:
    world = World(kind, overhead_ns=0)
    generation, heard = world.submit(prompt(100), limit=50)
    assert world.engine.memory.held > 0
    world.engine.abort(world.now, generation)
    assert world.engine.memory.held == 0
    assert world.engine.reset()
    world.play()
    assert heard.tokens == []


@both
def test_an_abort_of_a_request_with_overdue_tokens_tells_nobody(kind: Kind) -> None:
    world = World(kind, overhead_ns=0)
    generation, heard = world.submit(prompt(10), limit=2)
    world.now = 1000 * MS
    world.engine.abort(world.now, generation)
    world.play()
    assert heard.tokens == []


@both
def test_an_abort_lets_the_next_one_in_and_a_second_abort_changes_nothing(kind: Kind) -> None:
    world = World(kind, max_num_seqs=1, overhead_ns=0)
    first, _ = world.submit(prompt(10))
    second, _ = world.submit(prompt(10, start=100))
    third, _ = world.submit(prompt(10, start=200))
    world.engine.abort(world.now, second)
    world.engine.abort(world.now, first)
    world.engine.abort(world.now, first)
    world.play()
    assert [first.finished, second.finished, third.finished] == [False, False, True]
    assert (world.engine.running, world.engine.waiting) == (0, 0)


@both
def test_the_totals_count_lookups_when_a_request_starts_and_no_reset_changes_them(
    kind: Kind,
) -> None:
    world = World(kind)
    world.run(prompt(100), limit=7)
    world.run(prompt(100), limit=7)
    world.engine.reset()
    totals = world.engine.totals
    assert (totals.prefix_queries, totals.prefix_hits) == (200, 96)
    assert (totals.prompt_tokens, totals.cached_tokens, totals.generated_tokens) == (200, 96, 14)


@both
def test_who_comes_late_is_not_served_before_he_came(kind: Kind) -> None:
    world = World(kind, max_num_seqs=1, overhead_ns=0)
    world.submit(prompt(10), limit=2)
    world.now = 500 * MS  # the clock rings late: the first one has been done for long
    late, _ = world.submit(prompt(10, start=100))
    world.play()
    assert late.first_token_at > 500 * MS
