"""Runs that want the same target: one at a time, the oldest first."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.memory_cluster import MemoryCluster
from tare.kube.port import LEASE
from tare.manifests.metadata import Owner
from tare.runtime.claims import Claims

QWEN = frozenset({"service:bench/qwen", "pod:u1", "pod:u2"})
SAME_PODS = frozenset({"service:bench/other", "pod:u2"})
ELSEWHERE = frozenset({"service:bench/llama", "pod:u9"})

Ask = Callable[..., Any]


def of(members: frozenset[str]) -> Callable[[], Awaitable[frozenset[str]]]:
    async def found() -> frozenset[str]:
        return members

    return found


def nobody() -> None:
    """Nobody is there to be woken."""


def run(name: str) -> Owner:
    return Owner(name=name, namespace="bench", uid=f"uid-of-{name}")


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def claims(cluster: MemoryCluster) -> Claims:
    return Claims(cluster)


@pytest.fixture
def ask(claims: Claims) -> Ask:
    woken: list[str] = []

    async def claim(name: str, members: frozenset[str] = QWEN, created: str = "1") -> str | None:
        return await claims.claim(
            run(name), created=created, members=of(members), wake=lambda: woken.append(name)
        )

    claim.woken = woken  # type: ignore[attr-defined]
    return claim


async def test_the_second_run_waits_for_the_first_and_says_so(ask: Ask) -> None:
    assert await ask("a") is None
    assert await ask("b", created="2") == "bench/a"


async def test_asking_again_changes_nothing(ask: Ask, cluster: MemoryCluster) -> None:
    assert await ask("a") is None
    assert await ask("a") is None
    assert len(await cluster.list(LEASE, "bench")) == 1


async def test_two_services_over_the_same_pod_are_one_target(ask: Ask) -> None:
    assert await ask("a") is None
    assert await ask("b", SAME_PODS, "2") == "bench/a"


async def test_another_target_is_free(ask: Ask) -> None:
    assert await ask("a") is None
    assert await ask("b", ELSEWHERE, "2") is None


async def test_the_owner_is_not_pushed_out_by_an_older_run(ask: Ask) -> None:
    assert await ask("b", created="2") is None
    assert await ask("a", created="1") == "bench/b"


async def test_of_those_who_wait_the_oldest_is_next(ask: Ask, claims: Claims) -> None:
    await ask("a", created="1")
    await ask("c", created="3")
    await ask("b", created="2")
    await claims.release(run("a"))
    assert await ask("c", created="3") == "bench/b"
    assert await ask("b", created="2") is None


async def test_giving_up_wakes_those_who_wait_for_it_and_no_others(
    ask: Ask, claims: Claims
) -> None:
    await ask("a")
    await ask("b", created="2")
    await ask("c", ELSEWHERE, "3")
    await claims.release(run("a"))
    assert ask.woken == ["b"]  # type: ignore[attr-defined]


async def test_giving_up_deletes_the_lease(
    ask: Ask, claims: Claims, cluster: MemoryCluster
) -> None:
    await ask("a")
    await claims.release(run("a"))
    assert await cluster.list(LEASE, "bench") == []


async def test_the_lease_of_another_operators_run_is_respected(cluster: MemoryCluster) -> None:
    here, there = Claims(cluster), Claims(cluster)
    assert await there.claim(run("a"), created="1", members=of(QWEN), wake=nobody) is None
    assert await here.claim(run("b"), created="2", members=of(QWEN), wake=nobody) == "bench/a"


async def test_a_restarted_operator_finds_its_own_lease(cluster: MemoryCluster) -> None:
    assert await Claims(cluster).claim(run("a"), created="1", members=of(QWEN), wake=nobody) is None
    assert await Claims(cluster).claim(run("a"), created="1", members=of(QWEN), wake=nobody) is None


async def test_a_lease_is_found_again_after_the_pods_behind_the_service_changed(
    cluster: MemoryCluster,
) -> None:
    await Claims(cluster).claim(run("a"), created="1", members=of(QWEN), wake=nobody)
    rolled = frozenset({"service:bench/qwen", "pod:u7"})
    blocker = await Claims(cluster).claim(run("b"), created="2", members=of(rolled), wake=nobody)
    assert blocker == "bench/a"
