from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tare.worker.reads import Reads

if TYPE_CHECKING:
    from collections.abc import Iterable


async def turn() -> None:
    """Let the event loop go round once."""
    await asyncio.sleep(0)


async def test_work_waits_for_the_next_turn_and_keeps_its_moment() -> None:
    done: list[tuple[int, str]] = []
    reads = Reads()
    reads.put(lambda at, what: done.append((at, what)), 7, "a")
    assert done == []
    await turn()
    assert done == [(7, "a")]


class Work:
    """Pieces of work that take a time, on a clock that nothing else moves."""

    def __init__(self, *, microseconds: int) -> None:
        self._takes = microseconds * 1000
        self._now = 0
        self.done: list[int] = []
        self.reads = Reads(clock=lambda: self._now)

    def put(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self.reads.put(self._do, number, None)

    def _do(self, number: int, _: object) -> None:
        self._now += self._takes
        self.done.append(number)


async def test_short_work_shares_a_turn_until_it_is_time_to_look_at_the_sockets_again() -> None:
    work = Work(microseconds=20)
    work.put(range(7))
    await turn()
    assert work.done == [0, 1, 2]
    work.put([7])
    await turn()
    assert work.done == [0, 1, 2, 3, 4, 5]
    await turn()
    assert work.done == list(range(8))


async def test_between_two_pieces_of_long_work_the_sockets_are_looked_at() -> None:
    work = Work(microseconds=70)
    work.put(range(3))
    await turn()
    assert work.done == [0]
    await turn()
    assert work.done == [0, 1]


async def test_a_backlog_takes_longer_turns_instead_of_more_of_them() -> None:
    work = Work(microseconds=70)
    work.put(range(1024))
    await turn()
    assert len(work.done) == 16


async def test_work_that_fails_does_not_hold_up_the_rest() -> None:
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, what: failed.append(what))
    done: list[int] = []

    def fail(at: int, _: object) -> None:
        raise ValueError(at)

    reads = Reads()
    reads.put(fail, 1, None)
    reads.put(lambda at, _: done.append(at), 2, None)
    await turn()
    await turn()
    assert (len(failed), done) == (1, [2])


async def test_all_connections_of_a_loop_share_one_queue() -> None:
    assert Reads.of_running_loop() is Reads.of_running_loop()


def test_without_a_loop_there_is_none() -> None:
    assert Reads.of_running_loop() is None


def test_each_loop_has_its_own() -> None:
    async def own() -> Reads | None:
        return Reads.of_running_loop()

    assert asyncio.run(own()) is not asyncio.run(own())
