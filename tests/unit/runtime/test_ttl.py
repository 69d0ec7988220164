"""Finished runs are deleted when their time is over: theirs, and no other run's."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from support.clock import FakeClock
from support.context import context_of
from support.memory_cluster import MemoryCluster
from tare.decide.conditions import timestamp
from tare.kube.errors import NotFound, Unavailable
from tare.kube.port import RUN, Document
from tare.runtime.ttl import Sweeper

if TYPE_CHECKING:
    from datetime import datetime

FINISHED = [{"type": "Finished", "status": "True"}]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def cluster() -> MemoryCluster:
    return MemoryCluster()


@pytest.fixture
def sweeper(cluster: MemoryCluster, clock: FakeClock) -> Sweeper:
    return Sweeper(context_of(cluster, clock))


async def stored(
    cluster: MemoryCluster, *, ttl: int | None = 60, finished: datetime | None, name: str = "run"
) -> Document:
    """A run in the cluster, as a watch event shows it."""
    status: dict[str, Any] = {"phase": "Running"}
    if finished is not None:
        status = {"finishTime": timestamp(finished.timestamp()), "conditions": FINISHED}
    spec = {} if ttl is None else {"ttlSecondsAfterFinished": ttl}
    metadata = {"name": name, "namespace": "bench"}
    document = {"metadata": metadata, "spec": spec, "status": status}
    return await cluster.create(RUN, "bench", document)


async def is_there(cluster: MemoryCluster, name: str = "run") -> bool:
    try:
        await cluster.get(RUN, "bench", name)
    except NotFound:
        return False
    return True


async def test_a_run_goes_when_its_time_is_over_and_not_a_second_before(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    sweeper.see(await stored(cluster, ttl=60, finished=clock.wall()))
    clock.advance(59)
    await sweeper.sweep()
    assert await is_there(cluster)
    clock.advance(1)
    await sweeper.sweep()
    assert not await is_there(cluster)


async def test_zero_seconds_is_at_once_as_for_jobs(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    sweeper.see(await stored(cluster, ttl=0, finished=clock.wall()))
    await sweeper.sweep()
    assert not await is_there(cluster)


async def test_a_run_that_expired_while_the_operator_was_down_goes_at_the_first_sweep(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    sweeper.see(await stored(cluster, ttl=60, finished=clock.wall() - timedelta(days=3)))
    await sweeper.sweep()
    assert not await is_there(cluster)


@pytest.mark.parametrize(("ttl", "finished"), [(None, True), (0, False), (None, False)])
async def test_a_run_stays_without_a_time_to_live_or_before_its_end(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock, ttl: int | None, *, finished: bool
) -> None:
    when = clock.wall() if finished else None
    sweeper.see(await stored(cluster, ttl=ttl, finished=when))
    clock.advance(1e9)
    await sweeper.sweep()
    assert await is_there(cluster)


async def test_a_change_of_the_time_to_live_counts_at_once(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    document = await stored(cluster, ttl=60, finished=clock.wall())
    sweeper.see(document)
    sweeper.see({**document, "spec": {}})
    clock.advance(3600)
    await sweeper.sweep()
    assert await is_there(cluster)
    sweeper.see({**document, "spec": {"ttlSecondsAfterFinished": 3600}})
    await sweeper.sweep()
    assert not await is_there(cluster)


async def test_a_run_that_was_created_again_under_the_name_is_safe(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    sweeper.see(await stored(cluster, ttl=0, finished=clock.wall()))
    await cluster.delete(RUN, "bench", "run")
    await stored(cluster, ttl=0, finished=None)
    await sweeper.sweep()
    assert await is_there(cluster)


async def test_a_delete_that_failed_is_tried_again(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    sweeper.see(await stored(cluster, ttl=0, finished=clock.wall(), name="one"))
    sweeper.see(await stored(cluster, ttl=0, finished=clock.wall(), name="two"))
    cluster.failures = [Unavailable("504")]
    await sweeper.sweep()
    assert (await is_there(cluster, "one"), await is_there(cluster, "two")) == (True, False)
    await sweeper.sweep()
    assert not await is_there(cluster, "one")


async def test_a_run_that_is_gone_is_not_deleted_again(
    sweeper: Sweeper, cluster: MemoryCluster, clock: FakeClock
) -> None:
    document = await stored(cluster, ttl=0, finished=clock.wall())
    sweeper.see(document)
    sweeper.forget(document["metadata"]["uid"])
    await sweeper.sweep()
    assert ("delete", "run") not in cluster.calls
