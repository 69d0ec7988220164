"""Slots of a server that gives requests up which have waited for too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.engines import MS, World, prompt
from tare.sim.core.generations import State
from tare.sim.core.slots import Slots


def impatient(patience_ms: int, **more: int) -> World:
    """One slot; a request of one token takes a millisecond for each prompt token."""
    settings = {"max_num_seqs": 1, "overhead_ns": 0, "patience_ns": patience_ms * MS}
    return World(Slots, **{**settings, **more})


def test_a_slot_is_held_before_its_first_token_is_computed() -> None:
    world = impatient(1000, start_ns=50 * MS)
    _, first = world.submit(prompt(10))
    _, second = world.submit(prompt(10, start=900))
    world.play()
    assert first.tokens == [(60, 1)]
    assert second.tokens == [(120, 1)]


def test_who_cannot_be_done_in_time_is_given_up_when_its_turn_comes() -> None:
    world = impatient(100)
    world.submit(prompt(60))
    late, heard = world.submit(prompt(60, start=900))
    _, short = world.submit(prompt(40, start=1900))
    world.play()
    assert late.state is State.GIVEN_UP
    assert heard.tokens == [(60, 0)]
    assert short.tokens == [(100, 1)]


def test_the_way_to_the_server_does_not_count() -> None:
    world = impatient(100, overhead_ns=30 * MS)
    done, heard = world.submit(prompt(100))
    world.play()
    assert done.finished
    assert heard.tokens == [(130, 1)]


def test_a_request_that_was_given_up_can_be_aborted_by_who_did_not_know_yet() -> None:
    world = impatient(10)
    late, heard = world.submit(prompt(60))
    world.engine.abort(world.now, late)
    world.play()
    assert (late.state, heard.tokens) == (State.GIVEN_UP, [(0, 0)])


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 80)), min_size=1, max_size=30))
def test_everybody_is_done_in_time_or_given_up(requests: list[tuple[int, int]]) -> None:
    world = impatient(150, max_num_seqs=2, start_ns=5 * MS)
    sent = []
    for number, (pause, tokens) in enumerate(requests):
        world.play(until_ms=world.now // MS + pause)
        sent.append(world.submit(prompt(tokens, start=1000 * number), limit=3)[0])
    world.play()
    for generation in sent:
        in_time = generation.last_token_at - generation.submitted_at <= 150 * MS
        assert generation.state is (State.FINISHED if generation.generated else State.GIVEN_UP)
        assert in_time or not generation.generated
