"""Fault injection: what a client of the API sees, and what was stored meanwhile."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import aiohttp
import pytest

from support.clusters import Api, collection, eventually
from tare.devcluster.cluster import DevCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

CONFIG_MAPS = collection("", "configmaps", "default")
PODS = collection("", "pods", "default")
JOBS = collection("batch", "jobs", "default")


@pytest.fixture
def cluster() -> Iterator[DevCluster]:
    with DevCluster(images={"python": []}) as cluster:
        yield cluster


@pytest.fixture
async def api(cluster: DevCluster, tmp_path: Path) -> AsyncIterator[Api]:
    async with Api.open(cluster.write_kubeconfig(tmp_path / "kubeconfig")) as api:
        yield api


def named(name: str) -> Any:
    return {"metadata": {"name": name}}


async def test_a_failed_request_stores_nothing_and_the_next_one_works(
    cluster: DevCluster, api: Api
) -> None:
    cluster.faults.fail("POST", "configmaps", status=503)

    failed = await api.create(CONFIG_MAPS, named("a"))
    stored = (await api.get(f"{CONFIG_MAPS}/a")).status
    second = await api.create(CONFIG_MAPS, named("a"))

    assert (failed.status, failed.body["reason"]) == (503, "ServiceUnavailable")
    assert (stored, second.status) == (404, 201)


async def test_a_request_may_fail_after_it_was_carried_out(cluster: DevCluster, api: Api) -> None:
    cluster.faults.fail("POST", "configmaps", status=504, after_store=True)

    failed = await api.create(CONFIG_MAPS, named("a"))
    again = await api.create(CONFIG_MAPS, named("a"))

    assert (failed.status, again.status) == (504, 409)


async def test_only_the_named_number_of_matching_requests_fails(
    cluster: DevCluster, api: Api
) -> None:
    cluster.faults.fail("*", "configmaps/a$", times=2)

    statuses = [(await api.get(f"{CONFIG_MAPS}/{name}")).status for name in ("b", "a", "a", "a")]

    assert statuses == [404, 500, 500, 404]


async def test_a_denied_verb_is_forbidden_until_it_is_allowed(
    cluster: DevCluster, api: Api
) -> None:
    cluster.faults.deny("list", "pods")
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
    reviews = collection("authorization.k8s.io", "selfsubjectaccessreviews", "")

    denied = await api.get(PODS)
    reviewed = await api.create(reviews, review)
    cluster.faults.allow("list", "pods")
    allowed = await api.get(PODS)

    assert denied.status == 403
    assert denied.message == (
        'pods is forbidden: User "devcluster" cannot list resource "pods" in API group "" in the '
        'namespace "default"'
    )
    assert reviewed.body["status"]["allowed"] is False
    assert allowed.status == 200


async def test_a_dropped_watch_can_be_resumed(cluster: DevCluster, api: Api) -> None:
    version = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    broken = api.watch(CONFIG_MAPS, resourceVersion=version)
    await api.must_create(CONFIG_MAPS, named("a"))
    await anext(broken)

    cluster.faults.drop_watches()
    with pytest.raises(aiohttp.ClientError):
        await anext(broken)
    await api.must_create(CONFIG_MAPS, named("b"))

    resumed = api.watch(CONFIG_MAPS, resourceVersion=version)
    first, second = await anext(resumed), await anext(resumed)
    names = [event["object"]["metadata"]["name"] for event in (first, second)]

    assert names == ["a", "b"]


async def test_an_expired_watch_is_resumed_with_410(cluster: DevCluster, api: Api) -> None:
    created = await api.must_create(CONFIG_MAPS, named("a"))
    version = created["metadata"]["resourceVersion"]
    cluster.faults.expire_watches()

    events = [event async for event in api.watch(CONFIG_MAPS, resourceVersion=version)]
    fresh = (await api.get(CONFIG_MAPS)).body["metadata"]["resourceVersion"]
    later = await api.must_create(CONFIG_MAPS, named("b"))
    next_event = await anext(api.watch(CONFIG_MAPS, resourceVersion=fresh))

    assert [(event["type"], event["object"]["code"]) for event in events] == [("ERROR", 410)]
    assert next_event["object"]["metadata"]["uid"] == later["metadata"]["uid"]


async def test_a_black_hole_sends_nothing_and_stays_open(cluster: DevCluster, api: Api) -> None:
    stream = api.watch(CONFIG_MAPS)
    await api.must_create(CONFIG_MAPS, named("a"))
    await anext(stream)
    cluster.faults.black_hole_watches("configmaps")
    await api.must_create(CONFIG_MAPS, named("b"))

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await anext(stream)


async def test_a_server_that_stops_listening_keeps_its_state_and_its_port(
    cluster: DevCluster, api: Api
) -> None:
    url = cluster.url
    await api.must_create(CONFIG_MAPS, named("a"))

    cluster.stop_listening()
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.get(CONFIG_MAPS)
    cluster.start_listening()

    assert cluster.url == url
    assert (await api.get(f"{CONFIG_MAPS}/a")).status == 200


async def test_a_delay_holds_matching_requests_back(cluster: DevCluster, api: Api) -> None:
    cluster.faults.delay("configmaps", 0.2)

    slow = asyncio.ensure_future(api.create(CONFIG_MAPS, named("a")))
    other = await api.get(PODS)
    unfinished = not slow.done()

    assert (other.status, unfinished) == (200, True)
    assert (await slow).status == 201


async def test_a_quota_refuses_pods_and_the_job_only_shows_an_event(
    cluster: DevCluster, api: Api
) -> None:
    cluster.faults.refuse_pods("exceeded quota: small, requested: cpu=1, used: cpu=1")
    template = {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "python"}]}
    }
    spec = {"completions": 1, "completionMode": "Indexed", "template": template}
    await api.must_create(JOBS, {**named("j"), "spec": spec})
    events = collection("", "events", "default")
    found: list[Any] = []

    async def reported() -> bool:
        answer = await api.get(events, fieldSelector="reason=FailedCreate")
        found[:] = answer.body["items"]
        return bool(found)

    await eventually(reported)
    document = (await api.get(f"{JOBS}/j")).body

    assert found[0]["type"] == "Warning"
    assert found[0]["involvedObject"]["name"] == "j"
    assert "is forbidden: exceeded quota: small" in found[0]["message"]
    assert "conditions" not in document["status"]
    assert "active" not in document["status"]


async def test_a_process_can_be_killed_for_want_of_memory(cluster: DevCluster, api: Api) -> None:
    container = {
        "name": "c",
        "image": "python",
        "command": ["python", "-c", "import time; time.sleep(60)"],
    }
    spec = {"restartPolicy": "Never", "containers": [container]}
    await api.must_create(PODS, {**named("p"), "spec": spec})
    await api.until(f"{PODS}/p", lambda pod: pod["status"]["phase"] == "Running")

    cluster.kill_out_of_memory("default", "p")

    failed = await api.until(f"{PODS}/p", lambda pod: pod["status"]["phase"] == "Failed")
    state = failed["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (state["exitCode"], state["reason"]) == (137, "OOMKilled")


async def test_clear_undoes_what_lasts(cluster: DevCluster, api: Api) -> None:
    cluster.faults.deny("list", "pods")
    cluster.faults.fail("GET", ".*", times=100)

    cluster.faults.clear()

    assert (await api.get(PODS)).status == 200
