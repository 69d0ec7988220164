"""Sessions of several turns: whose turn it is, and what it says."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from support.events import chunk, content, normal
from support.load import run_load, run_workers, work_order
from support.scripted import Script, ScriptedServer, Seen
from support.timers import ManualTimers
from tare.measure.counts import Count
from tare.plan.order import CacheBustOrder, PhaseOrder, RampOrder, TurnsOrder, WorkOrder
from tare.plan.schedule import worker_share
from tare.worker.phase import PhaseRunner
from tare.worker.record import Record, Status
from tare.worker.recorder import PhaseRecorder
from tare.worker.sessions import Sessions
from tare.workload.dataset import conversations

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.worker.failure import Failure

SECOND = 1_000_000_000
QUICK = Script(writes=[(0, data) for _, data in normal()])


def phase(**fields: Any) -> PhaseOrder:
    given = {"concurrency": 2, "sessions": 3, **fields}
    return PhaseOrder(name="profiling", kind="profiling", type="sessions", **given)


def order_of(*servers: ScriptedServer, turns: TurnsOrder, **fields: Any) -> WorkOrder:
    order = work_order(*servers, phases=(phase(**fields),), entries=3)
    return replace(order, dataset=replace(order.dataset, turns=turns))


class Driven:
    """Sessions whose requests are answered when the test says so."""

    def __init__(self, **fields: Any) -> None:
        turns = TurnsOrder(mean=fields.pop("mean", 2.0), delay=fields.pop("delay", 1.0))
        order = order_of(turns=turns, **fields)
        share = worker_share(order.phases[0], 0, 1)
        self.sessions = Sessions(order, order.phases[0], share, conversations(order))
        self.open: dict[int, Record] = {}

    def pump(self, seconds: float) -> list[int]:
        """Send what is due."""
        elapsed = round(seconds * SECOND)
        sent = []
        while not self.sessions.exhausted:
            due = self.sessions.next_due(elapsed, len(self.open))
            if due is None or due > elapsed:
                break
            number = self.sessions.take()
            self.sessions.request(number)
            self.open[number] = Record(number=number, entry=0)
            sent.append(number)
        return sent

    def end(self, number: int, seconds: float, status: Status = Status.OK) -> None:
        record = self.open.pop(number)
        record.status = status
        self.sessions.ended(record, round(seconds * SECOND))


def test_a_session_keeps_its_slot_while_its_user_thinks() -> None:
    driven = Driven()
    assert driven.pump(0) == [0, 2]
    driven.end(0, 0.5)
    assert driven.pump(1) == []
    assert driven.sessions.next_due(SECOND, 1) == round(1.5 * SECOND)
    assert driven.pump(1.5) == [1]


def test_a_slot_goes_to_the_next_session_after_the_last_turn() -> None:
    driven = Driven(delay=0.0)
    driven.pump(0)
    driven.end(0, 1)
    assert driven.pump(1) == [1]
    driven.end(1, 2)
    assert driven.pump(2) == [4]
    for number in (2, 4):
        driven.end(number, 3)
    assert driven.pump(3) == [3, 5]
    assert driven.sessions.planned == 6


def test_everything_is_sent_with_the_last_turn_of_the_last_session() -> None:
    driven = Driven(sessions=2, delay=0.0)
    exhausted = []
    for ended, sent in ((None, [0, 2]), (0, [1]), (2, [3]), (1, []), (3, [])):
        if ended is not None:
            driven.end(ended, 1)
        assert driven.pump(1) == sent
        exhausted.append(driven.sessions.exhausted)
    assert exhausted == [False, False, True, True, True]


def test_a_session_ends_with_a_turn_that_failed() -> None:
    driven = Driven()
    driven.pump(0)
    driven.end(0, 1, Status.ERROR)
    assert driven.pump(1) == [4]
    exhausted = [driven.sessions.exhausted]
    for number in (2, 4):
        driven.end(number, 2, Status.ERROR)
        exhausted.append(driven.sessions.exhausted)
    assert exhausted == [False, False, True]


def test_a_ramp_opens_one_session_after_the_other() -> None:
    driven = Driven(ramp=RampOrder(seconds=2.0, start=1.0))
    assert driven.pump(0) == [0]
    assert driven.sessions.next_due(0, 1) == 2 * SECOND
    assert driven.pump(2) == [2]


class Call:
    """A request that the test answers."""

    last_progress = 0

    def __init__(self, number: int, now: int, done: Callable[[Any], None]) -> None:
        self.record = Record(number=number, entry=0, sent=now)
        self._done = done

    def give_up(self, at: int, status: Status, failure: Failure) -> None:  # noqa: ARG002 - Call
        self.end(at, status)

    def end(self, at: int, status: Status = Status.OK) -> None:
        self.record.closed, self.record.status = at, status
        self._done(self)


class Target:
    """Where a phase of sessions sends its requests, on a clock of its own."""

    connections_opened = 0

    def __init__(self, **fields: Any) -> None:
        turns = TurnsOrder(mean=fields.pop("mean"), delay=fields.pop("delay"))
        order = order_of(turns=turns, **fields)
        share = worker_share(order.phases[0], 0, 1)
        self.timers = ManualTimers()
        self.calls: list[Call] = []
        self.sessions = Sessions(order, order.phases[0], share, conversations(order))
        PhaseRunner(
            order.phases[0],
            share,
            arrivals=self.sessions,
            target=order.target,
            recorder=PhaseRecorder(order.phases[0], streaming=True, endpoints=["x"], limits={}),
            sender=self,
            timers=self.timers,
            on_finished=lambda: None,
            sessions=self.sessions,
        ).start()

    def send(self, number: int, due: int, done: Callable[[Any], None]) -> Call:  # noqa: ARG002
        self.sessions.request(number)
        self.calls.append(Call(number, self.timers.now(), done))
        return self.calls[-1]


def test_a_turn_does_not_wait_for_the_next_slot_of_a_ramp() -> None:
    ramp = RampOrder(seconds=10.0, start=1.0)
    target = Target(mean=2.0, delay=1.0, concurrency=2, sessions=2, ramp=ramp)
    target.timers.advance(1)
    target.calls[0].end(target.timers.now())
    target.timers.advance(0.9)
    assert [call.record.number for call in target.calls] == [0]
    target.timers.advance(0.2)
    assert [call.record.number for call in target.calls] == [0, 1]
    target.timers.advance(10)
    assert [call.record.number for call in target.calls] == [0, 1, 2]


def asked(seen: Seen) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in seen.json["messages"]]


async def test_the_history_is_what_the_server_really_answered() -> None:
    answers = iter(["one", "two", "three"])

    def answer(_: Seen) -> Script:
        events = [content(next(answers)), *[data for _, data in normal()][1:]]
        return Script(writes=[(0, data) for data in events])

    async with ScriptedServer(answer) as server:
        turns = TurnsOrder(mean=3.0)
        result = await run_load(order_of(server, turns=turns, concurrency=1, sessions=1))
        first, second, third = map(asked, server.requests)
    assert result.phases[0].counts[Count.OK] == 3
    assert [role for role, _ in third] == ["user", "assistant", "user", "assistant", "user"]
    assert third[:4] == [*second, third[3]]
    assert second[0] == first[0]
    assert second[1][1].startswith("one")
    assert third[3][1].startswith("two")
    questions = {text for role, text in third if role == "user"}
    assert len(questions) == 3


async def test_an_answer_in_parts_is_one_text_in_the_history() -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": " two"}]
    half = chunk({"content": "@"}).replace(b"@", rb"\ud83d")
    events = [chunk({"content": parts}), half, *[data for _, data in normal()][4:]]
    async with ScriptedServer(Script(writes=[(0, data) for data in events])) as server:
        turns = TurnsOrder(mean=2.0)
        result = await run_load(order_of(server, turns=turns, concurrency=1, sessions=1))
        _, second = map(asked, server.requests)
    assert result.phases[0].counts[Count.OK] == 2
    assert second[1] == ("assistant", "one two\ufffd")


async def test_the_think_time_stands_between_an_answer_and_the_next_turn() -> None:
    async with ScriptedServer(QUICK) as server:
        turns = TurnsOrder(mean=2.0, delay=0.15)
        await run_load(order_of(server, turns=turns, concurrency=1, sessions=1))
        one, other = server.requests
    written = max(at for at, _ in one.writes)
    assert other.read_at - written == pytest.approx(0.15e9, abs=0.05e9)


async def test_the_marker_of_a_session_lives_across_its_turns() -> None:
    async with ScriptedServer(QUICK) as server:
        order = order_of(server, turns=TurnsOrder(mean=2.0), concurrency=1, sessions=4)
        bust = CacheBustOrder(target="first_turn_suffix")
        dataset = replace(order.dataset, cache_bust=bust, shared_system=32)
        await run_load(replace(order, dataset=replace(dataset, isl=replace(dataset.isl, value=40))))
        sessions = [asked(seen) for seen in server.requests]
    pairs = list(zip(sessions[::2], sessions[1::2], strict=True))
    assert all(second[:2] == first for first, second in pairs)
    assert all("[rid:" not in text for _, second in pairs for _, text in second[2:])
    assert len({first[1][1] for first, _ in pairs}) == 4
    assert len({first[1][1].partition("\n")[0] for first, _ in pairs}) == 3


async def test_the_turns_of_a_broken_session_are_counted_as_unsent() -> None:
    def answer(seen: Seen) -> Script:
        failed = len(asked(seen)) > 1
        return Script(status=500, writes=[(0, b"{}")], framing="length") if failed else QUICK

    async with ScriptedServer(answer) as server:
        result = await run_load(order_of(server, turns=TurnsOrder(mean=4.0)))
    counts = result.phases[0].counts
    assert (counts[Count.ISSUED], counts[Count.OK], counts[Count.FAILED]) == (6, 3, 3)
    assert counts[Count.UNSENT] == 6


async def test_workers_share_sessions_and_each_turn_is_sent_once() -> None:
    async with ScriptedServer(QUICK) as server:
        order = order_of(server, turns=TurnsOrder(mean=2.0), concurrency=3, sessions=7)
        results = await run_workers(replace(order, workers=2))
        bodies = [orjson.dumps(seen.json["messages"][-1]) for seen in server.requests]
    assert sum(result.phases[0].counts[Count.OK] for result in results) == 14
    assert len(set(bodies)) == 6, "three entries of two turns"


async def test_a_phase_of_sessions_ends_by_its_time_too() -> None:
    async with ScriptedServer(QUICK) as server:
        turns = TurnsOrder(mean=2.0, delay=0.05)
        result = await run_load(order_of(server, turns=turns, sessions=None, duration=0.3))
    counts = result.phases[0].counts
    assert counts[Count.OK] == counts[Count.ISSUED] > 4
    assert Count.UNSENT not in counts
    assert result.phases[0].seconds == pytest.approx(0.3, abs=0.05)
