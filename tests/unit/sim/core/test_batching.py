"""Continuous batching on a fake clock: who gets how many tokens in which iteration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.engines import MS, World, prompt
from tare.sim.core.costs import StepCost

if TYPE_CHECKING:
    from support.engines import Heard
    from tare.sim.core.generations import Generation


def times(heard: Heard) -> list[int]:
    return [at for at, _ in heard.tokens]


def test_an_iteration_takes_its_constant_and_more_for_each_prompt_token() -> None:
    world = World()
    _, heard = world.submit(prompt(100), limit=4)
    world.play()
    assert times(heard) == [115, 120, 125, 130]


def test_cached_tokens_are_not_computed_again() -> None:
    world = World(overhead_ns=0)
    world.run(prompt(100))
    begin = world.now // MS
    _, heard = world.submit(prompt(100))
    world.play()
    assert times(heard) == [begin + 5 + 4]


def test_a_long_prompt_slows_the_answer_of_another() -> None:
    world = World(overhead_ns=0)
    _, heard = world.submit(prompt(10), limit=5)
    world.play(until_ms=16)
    world.submit(prompt(200, start=5000))
    world.play()
    # It is admitted at 20 ms, beside the third token, which then takes 200 ms more.
    assert times(heard) == [15, 20, 225, 230, 235]


def test_with_a_smaller_budget_a_prompt_is_computed_in_chunks_between_the_tokens_of_others() -> (
    None
):
    world = World(overhead_ns=0, max_num_batched_tokens=51)
    _, answer = world.submit(prompt(10), limit=6)
    world.play(until_ms=16)
    _, long = world.submit(prompt(100, start=5000))
    world.play()
    assert times(answer) == [15, 20, 75, 130, 135, 140]
    assert times(long) == [130]


def test_equal_prompts_wait_for_the_iteration_that_computes_the_first_one() -> None:
    world = World(overhead_ns=0)
    _, first = world.submit(prompt(100))
    _, second = world.submit(prompt(100))
    world.play()
    assert times(first) == [105]
    assert times(second) == [105 + 5 + 4]


def test_what_an_aborted_request_computes_until_the_iterations_end_stays_cached() -> None:
    world = World(overhead_ns=0)
    generation, _ = world.submit(prompt(100))
    world.play(until_ms=80)
    world.engine.abort(world.now, generation)
    assert world.run(prompt(100)).cached_tokens == 96


def test_a_prompt_that_has_no_room_waits_although_its_first_chunk_has() -> None:
    world = World(overhead_ns=0, kv_blocks=4, max_num_batched_tokens=32)
    _, first = world.submit(prompt(32), limit=30)
    second, _ = world.submit(prompt(96, start=500))
    world.play()
    assert second.first_token_at > first.tokens[-1][0] * MS


def test_who_cannot_grow_preempts_the_last_one_which_goes_on_where_it_was() -> None:
    world = World(overhead_ns=0, kv_blocks=5)
    first, _ = world.submit(prompt(60), limit=60)
    second, heard = world.submit(prompt(60, start=500), limit=60)
    third, _ = world.submit(prompt(60, start=900), limit=2)
    world.play()
    assert world.engine.totals.preemptions == second.preemptions > 0
    assert first.preemptions == 0
    assert first.last_token_at < third.first_token_at < second.last_token_at
    assert sum(count for _, count in heard.tokens) == 60
    assert second.cached_tokens == 0  # what it found when it started for the first time
    assert world.engine.totals.prefix_queries == 180


def test_a_preempted_request_finds_what_it_had_computed() -> None:
    world = World(overhead_ns=0, kv_blocks=100)
    generation, heard = world.submit(prompt(96), limit=20)
    world.play(until_ms=130)
    world.engine._preempt_all()
    world.play()
    # Computed were 96 prompt tokens and 6 generated ones: three full blocks are found again.
    assert generation.finished
    # The iteration that ran goes on to 131 ms for nothing; then 6 tokens are computed again.
    assert times(heard)[:8] == [101, 106, 111, 116, 121, 126, 131 + 5 + 6, 131 + 5 + 6 + 5]


def test_late_tokens_come_together_and_the_pace_is_kept() -> None:
    world = World()
    _, heard = world.submit(prompt(10), limit=6)
    world.now = 36 * MS
    world.engine.advance(world.now)
    assert world.engine.totals.max_late_ns == 11 * MS
    world.play()
    assert heard.tokens == [(36, 3), (40, 1), (45, 1), (50, 1)]


@pytest.mark.parametrize(
    ("cost", "milliseconds"),
    [
        (StepCost(step=5 * MS, sequence=2 * MS), [5, 5 + 9]),
        (StepCost(step=5 * MS, kv_token=MS), [5 + 128, 5 + 128 + 5 + 192]),
        (StepCost(step=5 * MS, prefill=MS), [5 + 70, 5 + 70 + 5]),
        (StepCost(step=5 * MS, attention=MS), [5 + 2 * 35 * 36 // 2, 5 + 2 * 35 * 36 // 2 + 5]),
        (StepCost(step=5 * MS, token=MS), [70, 70 + 5]),
        (StepCost(step=MS, token=MS), [70, 70 + 2]),
    ],
)
def test_each_constant_costs_what_it_says(cost: StepCost, milliseconds: list[int]) -> None:
    """Two prompts of 35 tokens, two blocks each; the second token of each stays in them."""
    world = World(overhead_ns=0, cost=cost)
    world.engine._waiting.extend(_unstarted(world, start) for start in (0, 1000))
    world.engine._admit(0)
    expected = milliseconds.copy()
    if cost.kv_token:
        expected[1] = expected[0] + 5 + 128
    ends = []
    while (due := world.engine.next_due()) is not None:
        world.engine.advance(due)
        ends.append(due // MS)
    assert ends == expected


def _unstarted(world: World, start: int) -> Generation:
    """A request that has not been looked at, so that several start in one iteration."""
    other = World(overhead_ns=1)
    generation, heard = other.submit(prompt(35, start=start), limit=2)
    heard.world = world
    return generation


@dataclass(frozen=True)
class Asked:
    after_ms: int
    family: int
    tokens: int
    limit: int
    leaves: bool


_ASKED = st.builds(
    Asked,
    after_ms=st.integers(0, 60),
    family=st.integers(0, 2),
    tokens=st.integers(1, 40),
    limit=st.integers(1, 20),
    leaves=st.booleans(),
)
_LOADS = st.lists(_ASKED, min_size=1, max_size=12)


def world_of(seqs: int, budget: int) -> World:
    return World(
        block_size=4,
        kv_blocks=16,
        max_num_seqs=seqs,
        max_num_batched_tokens=budget,
        overhead_ns=3 * MS,
        cost=StepCost(step=4 * MS, sequence=0.3 * MS, kv_token=0.02 * MS, prefill=0.7 * MS),
    )


def submit(world: World, asked: Asked) -> tuple[Generation, Heard]:
    return world.submit(
        prompt(asked.tokens, start=100 * asked.family), asked.limit, answer=9000 + asked.family
    )


@settings(max_examples=150, deadline=None)
@given(_LOADS, st.integers(1, 4), st.integers(4, 64))
def test_at_any_time_memory_is_enough_and_everything_ends(
    load: list[Asked], seqs: int, budget: int
) -> None:
    world = world_of(seqs, budget)
    memory = world.engine.memory
    running: list[tuple[Generation, Heard, Asked]] = []
    for asked in load:
        begin = world.now // MS
        for until in range(begin, begin + asked.after_ms, 5):
            world.play(until_ms=until)
            assert memory.held + memory.cached <= memory.capacity
            assert world.engine.running <= seqs
        world.play(until_ms=begin + asked.after_ms)
        running.append((*submit(world, asked), asked))
        if asked.leaves:
            world.engine.abort(world.now, running[0][0])
    world.play()
    assert (world.engine.running, world.engine.waiting, memory.held) == (0, 0, 0)
    for generation, heard, asked in running:
        told = sum(count for _, count in heard.tokens)
        assert told == generation.generated or not generation.finished
        assert not generation.finished or told == asked.limit


@settings(max_examples=150, deadline=None)
@given(_LOADS, st.integers(1, 4), st.integers(4, 64))
def test_a_clock_that_jumps_far_gives_the_same_tokens_at_the_same_times(
    load: list[Asked], seqs: int, budget: int
) -> None:
    """Equal iterations are made at once there; and nothing depends on when the driver looks."""
    outcomes = []
    for exact in (True, False):
        world = world_of(seqs, budget)
        generations = []
        for asked in load:
            if exact:
                world.play(until_ms=world.now // MS + asked.after_ms)
            else:
                world.now += asked.after_ms * MS
            generations.append(submit(world, asked)[0])
        if exact:
            world.play()
        else:
            world.engine.quiet_until = 10**15
            world.engine.advance(10**15)
        totals = world.engine.totals
        outcomes.append(
            (
                [(g.first_token_at, g.last_token_at, g.cached_tokens) for g in generations],
                (totals.steps, totals.preemptions, totals.prefix_hits, totals.generated_tokens),
                (world.engine.memory.cached, world.engine.memory.evicted),
            )
        )
    assert outcomes[0] == outcomes[1]


def test_quiet_times_are_jumped_over_in_few_calls() -> None:
    world = World(overhead_ns=0)
    generation, _ = world.submit(prompt(33), limit=1000)
    world.engine.quiet_until = 10**15
    calls = 0
    while (due := world.engine.next_due()) is not None:
        world.engine.advance(due)
        calls += 1
    assert generation.last_token_at == (33 + 5 + 999 * 5) * MS
    assert world.engine.totals.steps == 1000
    assert calls < 40


def test_a_driver_whose_time_goes_by_has_tokens_told_before_the_next_iteration_is_planned() -> None:
    world = World(overhead_ns=0)
    world.engine.tells_first = True
    iterations: list[int] = []
    generation, heard = world.submit(prompt(10), limit=3)
    heard.on_tokens = lambda *_: iterations.append(world.engine.totals.steps)  # type: ignore[method-assign]
    world.play()
    assert iterations == [1, 2, 3]
    assert generation.finished


@given(
    st.lists(
        st.tuples(
            st.integers(0, 40),  # ms until it is submitted
            st.integers(1, 100),  # prompt tokens
            st.integers(1, 20),  # answer
            st.integers(0, 30),  # ms by which the engine is called too late after it
        ),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from([0, 10 * MS]),
    st.sampled_from([20, 1000]),
)
@settings(max_examples=80, deadline=None)
def test_planning_after_telling_changes_no_moment(
    load: list[tuple[int, int, int, int]], overhead_ns: int, kv_blocks: int
) -> None:
    found = []
    for tells_first in (False, True):
        world = World(overhead_ns=overhead_ns, kv_blocks=kv_blocks, block_size=16, max_num_seqs=4)
        world.engine.tells_first = tells_first
        generations = []
        for pause, tokens, limit, late in load:
            world.play(until_ms=world.now // MS + pause)
            world.now += late * MS
            generations.append(world.submit(prompt(tokens, start=tokens), limit=limit)[0])
        world.play()
        found.append(
            [
                (g.first_token_at, g.last_token_at, g.generated, g.cached_tokens, g.preemptions)
                for g in generations
            ]
        )
    assert found[0] == found[1]
