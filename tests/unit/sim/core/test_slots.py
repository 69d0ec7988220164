"""Slots on a fake clock: requests that do not slow each other down."""

from __future__ import annotations

from support.engines import MS, World, prompt
from tare.sim.core.generations import State
from tare.sim.core.slots import Slots


def test_the_first_token_comes_after_overhead_and_uncached_tokens_then_one_each_step() -> None:
    world = World(Slots)
    _, heard = world.submit(prompt(100), limit=4)
    world.play()
    assert heard.tokens == [(110, 1), (115, 1), (120, 1), (125, 1)]


def test_cached_tokens_shorten_the_time_to_first_token() -> None:
    world = World(Slots)
    world.run(prompt(100))
    begin = world.now // MS
    _, heard = world.submit(prompt(100))
    world.play()
    assert heard.tokens == [(begin + 10 + 4, 1)]


def test_a_long_prompt_does_not_slow_the_answer_of_another() -> None:
    world = World(Slots)
    _, heard = world.submit(prompt(10), limit=4)
    world.submit(prompt(1000, start=5000))
    world.play()
    assert heard.tokens == [(20, 1), (25, 1), (30, 1), (35, 1)]


def test_who_shares_a_prefix_in_flight_is_not_done_before_it_is_computed() -> None:
    world = World(Slots)
    _, first = world.submit(prompt(100))
    world.play(until_ms=50)
    _, second = world.submit(prompt(100))
    world.play()
    assert first.tokens == [(110, 1)]
    assert second.tokens == [(106, 1)]  # when the last shared block, 96 tokens, was computed


def test_a_request_waits_for_memory_for_prompt_and_answer() -> None:
    world = World(Slots, kv_blocks=4, overhead_ns=0)
    _, first = world.submit(prompt(64), limit=32)
    _, second = world.submit(prompt(33, start=500), limit=31)
    assert (world.engine.running, world.engine.waiting) == (1, 1)
    world.play()
    assert second.tokens[0][0] == first.tokens[-1][0] + 33


def test_tokens_of_a_late_clock_come_together_and_the_pace_is_kept() -> None:
    world = World(Slots)
    _, heard = world.submit(prompt(10), limit=6)
    world.now = 31 * MS
    world.engine.advance(world.now)
    assert world.engine.totals.max_late_ns == 11 * MS
    world.play()
    assert heard.tokens == [(31, 3), (35, 1), (40, 1), (45, 1)]


def test_a_slot_that_became_free_while_the_clock_was_late_is_taken_when_it_became_free() -> None:
    world = World(Slots, max_num_seqs=2, overhead_ns=0)
    world.submit(prompt(10), limit=9)
    world.submit(prompt(10, start=100), limit=2)
    third, _ = world.submit(prompt(10, start=200), limit=1)
    world.now = 500 * MS
    world.engine.advance(world.now)
    assert third.first_token_at == (15 + 10) * MS


def test_what_was_computed_before_an_abort_stays_cached() -> None:
    world = World(Slots)
    generation, _ = world.submit(prompt(100))
    world.play(until_ms=80)
    world.engine.abort(world.now, generation)
    assert world.run(prompt(100)).cached_tokens == 64


def test_a_request_that_cannot_be_done_in_time_is_given_up_when_its_turn_comes() -> None:
    world = World(Slots, max_num_seqs=1, patience_ns=100 * MS)
    first, _ = world.submit(prompt(50), limit=3)
    late, heard = world.submit(prompt(50, start=100), limit=3)
    third, _ = world.submit(prompt(10, start=200), limit=3)
    world.play()
    assert (first.state, first.last_token_at) == (State.FINISHED, (10 + 50 + 10) * MS)
    # 60 ms of waiting and 60 of work are more than 100; 60 and 20 are not.
    assert (late.state, late.generated) == (State.GIVEN_UP, 0)
    assert heard.tokens == [(70, 0)]
    assert (third.state, third.first_token_at) == (State.FINISHED, (70 + 10) * MS)
    assert world.engine.memory.held == 0


def test_a_request_that_was_given_up_can_be_aborted_without_harm() -> None:
    world = World(Slots, max_num_seqs=1, patience_ns=100 * MS)
    world.submit(prompt(50), limit=3)
    late, _ = world.submit(prompt(50, start=100), limit=3)
    world.play()
    world.engine.abort(world.now, late)
    assert late.state is State.GIVEN_UP
    assert world.run(prompt(10, start=300)).finished


def test_a_slot_may_need_a_while_before_it_computes() -> None:
    world = World(Slots, start_ns=7 * MS)
    assert world.run(prompt(10)).first_token_at == (10 + 7 + 10) * MS
