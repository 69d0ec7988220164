"""Watches: where they start, what they report, how they end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import collection

if TYPE_CHECKING:
    from support.clusters import Api


@pytest.fixture
def config_maps(namespace: str) -> str:
    return collection("", "configmaps", namespace)


def config_map(name: str, **labels: str) -> Any:
    return {"metadata": {"name": name, "labels": {"suite": "yes", **labels}}}


async def collect(api: Api, path: str, count: int, **query: str | int) -> list[Any]:
    """Read events until there are `count`, bookmarks not counted."""
    events: list[Any] = []
    async with asyncio.timeout(20):
        async for event in api.watch(path, labelSelector="suite", **query):
            if event["type"] != "BOOKMARK":
                events.append(event)
            if len(events) == count:
                break
    return events


def summary(events: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


async def test_a_watch_resumes_behind_a_resource_version(api: Api, config_maps: str) -> None:
    first = await api.must_create(config_maps, config_map("a"))
    await api.must_create(config_maps, config_map("b"))
    await api.patch(f"{config_maps}/a", {"data": {"k": "v"}})
    await api.delete(f"{config_maps}/b")

    events = await collect(
        api, config_maps, 3, resourceVersion=first["metadata"]["resourceVersion"]
    )

    assert summary(events) == [("ADDED", "b"), ("MODIFIED", "a"), ("DELETED", "b")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(versions)


async def test_a_watch_without_a_version_begins_with_what_is_there(
    api: Api, config_maps: str
) -> None:
    await api.must_create(config_maps, config_map("a"))

    events = await collect(api, config_maps, 1)

    assert summary(events) == [("ADDED", "a")]


async def test_an_object_that_leaves_the_selection_is_reported_as_deleted(
    api: Api, config_maps: str
) -> None:
    first = await api.must_create(config_maps, config_map("a"))
    path = f"{config_maps}/a"
    left = await api.patch(path, {"metadata": {"labels": {"suite": None}}})
    await api.patch(path, {"metadata": {"labels": {"suite": "again"}}})

    events = await collect(
        api, config_maps, 2, resourceVersion=first["metadata"]["resourceVersion"]
    )

    assert summary(events) == [("DELETED", "a"), ("ADDED", "a")]
    gone = events[0]["object"]["metadata"]
    assert gone["labels"]["suite"] == "yes"
    assert gone["resourceVersion"] == left.body["metadata"]["resourceVersion"]


async def test_a_watch_from_a_forgotten_version_gets_410_inside_the_stream(
    api: Api, probes: str
) -> None:
    events = [event async for event in api.watch(probes, resourceVersion=1, timeoutSeconds=5)]

    assert [event["type"] for event in events] == ["ERROR"]
    status = events[0]["object"]
    assert (status["code"], status["reason"]) == (410, "Expired")
    assert status["message"].startswith("too old resource version: 1 (")


async def test_initial_events_end_with_a_marked_bookmark(api: Api, config_maps: str) -> None:
    await api.must_create(config_maps, config_map("a"))
    types, mark = [], {}
    async for event in api.watch(
        config_maps,
        labelSelector="suite",
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        timeoutSeconds=20,
    ):
        types.append(event["type"])
        if event["type"] == "BOOKMARK":
            mark = event["object"]["metadata"]
            break

    assert types == ["ADDED", "BOOKMARK"]
    assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_initial_events_need_the_match(api: Api, config_maps: str) -> None:
    answer = await api.get(config_maps, watch="true", sendInitialEvents="true")

    assert answer.status == 422
    assert "sendInitialEvents requires setting resourceVersionMatch" in answer.message


async def test_a_watch_ends_by_itself_after_a_last_bookmark(api: Api, config_maps: str) -> None:
    version = (await api.get(config_maps)).body["metadata"]["resourceVersion"]

    async with asyncio.timeout(20):
        events = [
            event["type"]
            async for event in api.watch(
                config_maps,
                labelSelector="suite",
                resourceVersion=version,
                allowWatchBookmarks="true",
                timeoutSeconds=4,
            )
        ]

    assert set(events) == {"BOOKMARK"}


async def test_a_watch_of_one_object_sees_only_that(api: Api, config_maps: str) -> None:
    version = (await api.get(config_maps)).body["metadata"]["resourceVersion"]
    await api.must_create(config_maps, config_map("a"))
    await api.must_create(config_maps, config_map("b"))

    events = await collect(
        api, config_maps, 1, resourceVersion=version, fieldSelector="metadata.name=b"
    )

    assert summary(events) == [("ADDED", "b")]
