"""What is known of the model servers when the operator dies at any point of a trial."""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from support.model_servers import CANARIES
from support.world import REPLICAS, World, manifest
from tare.api.reasons import CellState
from tare.decide.decision import decide
from tare.decide.facts import OpKind
from tare.measure.messages import WorkerState
from tare.measure.servers import ServerCount, ServerCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tare.decide.attempt import Attempt

BOTH = {**manifest()["spec"]["endpoint"], "resetKvCache": {"at": "Both"}}
LOAD = 7
"""Requests that each server answers in a phase."""


def world_of(**spec: Any) -> World:
    return World(manifest(sweep=None, **spec))


def moments(**spec: Any) -> Iterator[World]:
    """One world for each moment of a trial at which a process can die, stopped there."""
    for number in count():
        world = world_of(**spec)
        acts: list[Callable[[], bool]] = [world.step, world.finish_ops, world.move_workers]
        for turn in range(number):
            acts[turn % len(acts)]()
        if world.finished:
            return
        yield world


def attempt_of(world: World) -> Attempt | None:
    return world.run.attempt


def restarted(world: World) -> list[str]:
    """Servers that restarted during the trial, as its end is stored."""
    return [server.replica for server in world.ends[0, 0].servers or () if server.restarted]


def test_a_server_that_restarts_while_the_operator_is_down_is_named_whenever_that_is() -> None:
    """From the outcome of the reset to the look after the drain; not before, and not after."""
    found = set()
    for world in moments():
        before = attempt_of(world)
        begun = before is not None and before.reset is not None
        over = before is None or before.verdict is not None
        stored = (0, 0) in world.records
        world.servers.restart("qwen-2")
        world.crash()
        world.settle()
        end = world.ends[0, 0]
        same = before is not None and end.key == before.key
        wanted = ["qwen-2"] if begun and same and not over and not stored else []
        assert restarted(world) == wanted
        assert world.records[0, 0].state is CellState.MEASURED
        found.add((begun, same, bool(wanted)))
    assert {(False, True, False), (True, True, True), (True, False, False)} <= found


def test_an_operator_that_dies_at_any_moment_accuses_no_server_that_stayed_up() -> None:
    for world in moments(endpoint=BOTH):
        world.crash()
        world.settle()
        servers = world.ends[0, 0].servers
        assert servers is not None
        assert restarted(world) == []
        assert [server.replica for server in servers] == [r.name for r in REPLICAS]
        assert not any(server.unwatched for server in servers)


def is_sent(world: World, phase: int) -> bool:
    workers = [w for of_key in world.workers.values() for w in of_key.values()]
    return bool(workers) and all(
        (w.phase, w.state) == (phase, WorkerState.RUNNING) for w in workers
    )


@pytest.mark.parametrize("phase", [0, 1])
def test_what_servers_counted_before_the_first_gate_survives_the_operator(phase: int) -> None:
    world = world_of()
    for number in (0, 1):
        world.go_on_until(lambda w, n=number: is_sent(w, n))  # type: ignore[misc]
        world.servers.answer(LOAD)
        if number == phase:
            world.crash()
    world.settle()
    assert requests(world) == [2 * LOAD, 2 * LOAD]


def requests(world: World) -> list[float | None]:
    """Requests of the trial by the servers' own counters."""
    servers = world.ends[0, 0].servers or ()
    return [server.delta(ServerCount.REQUESTS) for server in servers]


@pytest.mark.parametrize("phase", [0, 1, None])
def test_the_canaries_of_a_second_reset_are_never_counted_as_load(phase: int | None) -> None:
    """An operator that dies in it cannot tell how many were sent: then nothing is said."""
    for moment in (World.crash, World.crash_in_operations):
        world = world_of(endpoint=BOTH)
        for number in (0, 1):
            world.go_on_until(lambda w, n=number: is_sent(w, n))  # type: ignore[misc]
            world.servers.answer(LOAD)
            if number == phase:
                moment(world)
        world.settle()
        assert requests(world) == ([None, None] if phase == 0 else [2 * LOAD, 2 * LOAD])
        assert not any(server.unwatched for server in world.ends[0, 0].servers or ())


def test_an_operator_that_dies_in_the_second_reset_keeps_what_tells_a_restart() -> None:
    world = world_of(endpoint=BOTH)
    world.go_on_until(lambda w: any(o.kind is OpKind.RESET and o.phase == 1 for o in w.ops))
    world.crash_in_operations()
    assert world.servers.told["qwen-1"]["requests"] == 100 + 2 * CANARIES
    world.servers.restart("qwen-1")
    world.settle()
    assert requests(world) == [None, None]
    assert restarted(world) == ["qwen-1"]


def test_an_attempt_that_an_older_operator_began_says_that_nobody_watched() -> None:
    world = world_of()
    world.go_on_until(lambda w: is_sent(w, 1))
    del world.document["status"]["current"]["servers"]
    world.crash()
    world.settle()
    servers = world.ends[0, 0].servers
    assert servers is not None
    assert all(server.unwatched for server in servers)
    assert restarted(world) == []


def test_a_verdict_of_an_older_operator_is_stored_as_one_of_which_nothing_is_known() -> None:
    world = world_of()
    world.go_on_until(lambda w: "verdict" in w.status.get("current", {}))
    del world.document["status"]["current"]["servers"]
    world.crash()
    world.settle()
    assert world.ends[0, 0].servers is None
    assert world.records[0, 0].state is CellState.MEASURED


def test_a_value_that_json_cannot_hold_is_left_out() -> None:
    world = world_of()
    world.servers.told["qwen-1"] |= {"requests": float("nan"), "prompt_tokens": float("inf")}
    world.settle()
    servers = world.ends[0, 0].servers or ()
    assert [sorted(server.before) for server in servers] == [
        ["restarts", "started_at"],
        ["requests", "restarts", "started_at"],
    ]


def test_the_start_skew_is_kept_as_it_was_first_seen() -> None:
    """A later operator sees nothing of a gate that was opened before it came."""
    world = world_of()
    world.go_on_until(lambda w: is_sent(w, 1))
    attempt = attempt_of(world)
    assert attempt is not None
    assert attempt.start_skew == {"warmup": 0.001}
    key, other = attempt.key, replace(attempt.key, cell=1)
    for seen, kept in (
        ({}, {"warmup": 0.001}),
        ({(key, 0): 0.5, (other, 1): 0.5}, {"warmup": 0.001}),
        ({(key, 1): 0.25}, {"warmup": 0.001, "profiling": 0.25}),
    ):
        facts = replace(world._facts(), skews=seen)
        assert decide(world.run, facts, world.status).status["current"]["startSkew"] == kept


def test_a_server_that_tells_at_one_end_alone_is_not_watched() -> None:
    told = {"requests": 1.0}
    ends = [({}, {}), (told, {}), ({}, told), (told, told)]
    found = [ServerCounts(replica="a", before=b, after=a).unwatched for b, a in ends]
    assert found == [False, True, True, False]


def test_a_container_that_started_again_is_another_server_though_it_tells_nothing_else() -> None:
    world = world_of()
    world.servers.told = {name: {"restarts": 3.0} for name in ("qwen-1", "qwen-2")}
    world.go_on_until(lambda w: is_sent(w, 1))
    world.servers.told["qwen-2"]["restarts"] = 4.0
    world.settle()
    assert restarted(world) == ["qwen-2"]


def test_urls_that_tell_nothing_are_not_accused() -> None:
    world = world_of()
    world.servers.told = {}
    world.settle()
    silent = tuple(ServerCounts(replica=replica.name, before={}) for replica in REPLICAS)
    assert world.ends[0, 0].servers == silent
