from __future__ import annotations

import asyncio

from tare.worker.reads import Reads


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


async def test_one_piece_is_done_in_a_turn_so_that_sockets_are_looked_at_between_two() -> None:
    done: list[int] = []
    reads = Reads()
    for number in range(3):
        reads.put(lambda at, _: done.append(at), number, None)
    await turn()
    assert done == [0]
    reads.put(lambda at, _: done.append(at), 3, None)
    for _ in range(3):
        await turn()
    assert done == [0, 1, 2, 3]


async def test_a_backlog_takes_longer_turns_instead_of_more_of_them() -> None:
    done: list[int] = []
    reads = Reads()
    for number in range(1000):
        reads.put(lambda at, _: done.append(at), number, None)
    await turn()
    assert len(done) == 16


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
