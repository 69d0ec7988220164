"""The two libraries that Tare's operator is built on: kopf and the official asyncio client."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import kopf
import pytest
from kubernetes.aio import client, config, watch

from support.clusters import Api, TestCluster, collection, eventually

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

GROUP = "conformance.tare.dev"


def probe(name: str) -> Any:
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": "Probe",
        "metadata": {"name": name},
        "spec": {"size": 1},
    }


class Watcher:
    """A Kopf operator that holds each probe with a daemon and looks at pods."""

    def __init__(self, *, scanning: str) -> None:
        self.registry = kopf.OperatorRegistry()
        self.settings = kopf.OperatorSettings()
        self.settings.scanning.disabled = scanning == "disabled"
        self.settings.persistence.finalizer = f"{GROUP}/kopf"
        self.settings.posting.loggers = False
        self.started, self.ended, self.pods_seen = (asyncio.Event() for _ in range(3))
        self._register()

    def _register(self) -> None:
        registry = self.registry

        @kopf.on.login(registry=registry)
        def login(**kwargs: Any) -> Any:
            return kopf.login_with_kubeconfig(**kwargs)

        @kopf.daemon(GROUP, "v1", "probes", id="live", registry=registry)
        async def live(stopped: kopf.DaemonStopped, body: kopf.Body, **_: Any) -> None:
            kopf.event(body, type="Normal", reason="Lives", message="the daemon runs")
            self.started.set()
            await stopped.wait()
            self.ended.set()

        @kopf.on.event("", "v1", "pods", id="pods", registry=registry)
        def seen(**_: Any) -> None:
            self.pods_seen.set()

    @asynccontextmanager
    async def running(self, namespace: str) -> AsyncIterator[None]:
        stop = asyncio.Event()
        operator = asyncio.ensure_future(
            kopf.operator(
                registry=self.registry,
                settings=self.settings,
                namespaces=[namespace],
                standalone=True,
                stop_flag=stop,
            )
        )
        try:
            async with asyncio.timeout(30):
                yield
        finally:
            stop.set()
            await operator


@pytest.fixture(params=["enabled", "disabled"])
def watcher(
    request: pytest.FixtureRequest, cluster: TestCluster, monkeypatch: pytest.MonkeyPatch
) -> Watcher:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    logging.getLogger("kopf.objects").setLevel(logging.WARNING)
    return Watcher(scanning=request.param)


async def test_a_kopf_daemon_lives_as_long_as_its_object(
    watcher: Watcher, api: Api, probes: str, namespace: str
) -> None:
    async with watcher.running(namespace):
        await api.must_create(probes, probe("p"))
        await watcher.started.wait()
        await api.until(
            f"{probes}/p",
            lambda document: document["metadata"].get("finalizers") == [f"{GROUP}/kopf"],
        )
        await api.delete(f"{probes}/p")
        await watcher.ended.wait()
        await api.until_gone(f"{probes}/p")


async def test_kopf_watches_pods_and_posts_events(
    watcher: Watcher, api: Api, probes: str, namespace: str
) -> None:
    events = collection("", "events", namespace)

    async def posted() -> bool:
        found = await api.get(events, fieldSelector="reason=Lives")
        return len(found.body["items"]) == 1

    async with watcher.running(namespace):
        await api.must_create(probes, probe("q"))
        pod = {
            "metadata": {"name": "p"},
            "spec": {"containers": [{"name": "c", "image": "localhost/none:1"}]},
        }
        await api.must_create(collection("", "pods", namespace), pod)
        await watcher.pods_seen.wait()
        await eventually(posted)
        await api.delete(f"{probes}/q")
        await api.until_gone(f"{probes}/q")


@pytest.fixture
async def official(cluster: TestCluster) -> AsyncIterator[client.ApiClient]:
    configuration = client.Configuration()
    await config.load_kube_config(  # type: ignore[no-untyped-call]
        config_file=str(cluster.kubeconfig), client_configuration=configuration
    )
    async with client.ApiClient(configuration) as connection:
        yield connection


async def test_the_official_client_creates_lists_patches_and_deletes(
    official: client.ApiClient, probes: str, namespace: str
) -> None:
    assert probes
    custom = client.CustomObjectsApi(official)
    place = (GROUP, "v1", namespace, "probes")

    await custom.create_namespaced_custom_object(*place, probe("p"))
    await custom.patch_namespaced_custom_object_status(*place, "p", {"status": {"phase": "Up"}})
    listed: Any = await custom.list_namespaced_custom_object(*place)
    await custom.delete_namespaced_custom_object(*place, "p")

    assert [item["status"]["phase"] for item in listed["items"]] == ["Up"]


async def test_the_official_client_reads_typed_objects_and_watches_them(
    official: client.ApiClient, namespace: str
) -> None:
    core = client.CoreV1Api(official)
    body: Any = {"metadata": {"name": "c"}, "data": {"a": "1"}}
    created = await core.create_namespaced_config_map(namespace, body)
    names = []

    async with asyncio.timeout(20):
        stream = watch.Watch().stream(  # type: ignore[no-untyped-call]
            core.list_namespaced_config_map, namespace, timeout_seconds=10
        )
        async for event in stream:
            names.append(event["object"].metadata.name)
            if "c" in names:
                break

    assert created.data == {"a": "1"}
    with pytest.raises(client.ApiException) as refused:
        await core.read_namespaced_config_map("none", namespace)
    assert refused.value.status == 404
