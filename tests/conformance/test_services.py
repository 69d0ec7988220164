"""Services and their EndpointSlices: addresses, ports, and pods that come and go."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from support.clusters import IMAGE, collection, eventually

if TYPE_CHECKING:
    from support.clusters import Api

SERVER = """
import http.server, os, pathlib, signal, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path('/tmp/' + os.environ['FLAG']).exists() else 503)
        self.end_headers()
        self.wfile.write(os.environ['NAME'].encode())

signal.signal(signal.SIGTERM, lambda *_: (time.sleep(2), sys.exit(0)))
flag = pathlib.Path('/tmp/' + os.environ['FLAG'])
if os.environ['READY'] == 'yes':
    flag.touch()
http.server.ThreadingHTTPServer((os.environ['ADDRESS'], 8000), Handler).serve_forever()
"""


@pytest.fixture
def services(namespace: str) -> str:
    return collection("", "services", namespace)


@pytest.fixture
def slices(namespace: str) -> str:
    return collection("discovery.k8s.io", "endpointslices", namespace)


@pytest.fixture
def pods(namespace: str) -> str:
    return collection("", "pods", namespace)


def service(**spec: Any) -> Any:
    ports = [{"name": "http", "port": 8080, "targetPort": "web"}]
    return {"metadata": {"name": "s"}, "spec": {"selector": {"app": "s"}, "ports": ports, **spec}}


def server(name: str, *, ready: str = "yes") -> Any:
    env = [
        {"name": "NAME", "value": name},
        {"name": "READY", "value": ready},
        {"name": "FLAG", "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}}},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    return {
        "metadata": {"name": name, "labels": {"app": "s"}},
        "spec": {
            "terminationGracePeriodSeconds": 10,
            "containers": [
                {
                    "name": "main",
                    "image": IMAGE,
                    "command": ["python3", "-c", SERVER],
                    "env": env,
                    "ports": [{"name": "web", "containerPort": 8000}],
                    "readinessProbe": {
                        "httpGet": {"path": "/health", "port": "web"},
                        "periodSeconds": 1,
                    },
                }
            ],
        },
    }


async def endpoints(api: Api, slices: str) -> dict[str, Any]:
    """The endpoints of Service s by pod name."""
    answer = await api.get(slices, labelSelector="kubernetes.io/service-name=s")
    return {
        endpoint["targetRef"]["name"]: endpoint
        for document in answer.body["items"]
        for endpoint in document["endpoints"] or ()
    }


async def until_endpoint(api: Api, slices: str, name: str, **wanted: bool) -> Any:
    """Wait until a pod's endpoint has these conditions."""
    found: Any = None

    async def met() -> bool:
        nonlocal found
        found = (await endpoints(api, slices)).get(name)
        return found is not None and wanted.items() <= found["conditions"].items()

    await eventually(met)
    return found


async def test_a_service_gets_an_address_but_a_headless_one(api: Api, services: str) -> None:
    usual = await api.must_create(services, service())
    headless = service(clusterIP="None")
    headless["metadata"]["name"] = "headless"

    without = await api.must_create(services, headless)

    assert usual["spec"]["clusterIP"].count(".") == 3
    assert usual["spec"]["clusterIPs"] == [usual["spec"]["clusterIP"]]
    assert usual["spec"]["ports"][0] == {
        "name": "http",
        "port": 8080,
        "targetPort": "web",
        "protocol": "TCP",
    }
    assert without["spec"]["clusterIP"] == "None"


async def test_a_ready_pod_is_an_endpoint_with_its_uid_and_port_number(
    api: Api, services: str, slices: str, pods: str
) -> None:
    owner = await api.must_create(services, service())
    pod = await api.must_create(pods, server("one"))

    endpoint = await until_endpoint(api, slices, "one", ready=True)

    assert endpoint["conditions"] == {"ready": True, "serving": True, "terminating": False}
    assert endpoint["targetRef"]["kind"] == "Pod"
    assert endpoint["targetRef"]["uid"] == pod["metadata"]["uid"]
    [document] = (await api.get(slices)).body["items"]
    assert document["ports"] == [{"name": "http", "port": 8000, "protocol": "TCP"}]
    assert document["addressType"] == "IPv4"
    assert document["metadata"]["ownerReferences"][0]["uid"] == owner["metadata"]["uid"]
    assert document["metadata"]["labels"]["kubernetes.io/service-name"] == "s"


async def test_a_pod_whose_probe_fails_is_not_ready(
    api: Api, services: str, slices: str, pods: str
) -> None:
    await api.must_create(services, service())
    await api.must_create(pods, server("one", ready="no"))

    endpoint = await until_endpoint(api, slices, "one", ready=False)

    assert endpoint["conditions"] == {"ready": False, "serving": False, "terminating": False}


async def test_a_terminating_pod_goes_on_serving_and_then_leaves(
    api: Api, services: str, slices: str, pods: str
) -> None:
    await api.must_create(services, service())
    await api.must_create(pods, server("one"))
    await until_endpoint(api, slices, "one", ready=True)

    await api.delete(f"{pods}/one")

    endpoint = await until_endpoint(api, slices, "one", terminating=True)
    assert endpoint["conditions"] == {"ready": False, "serving": True, "terminating": True}

    async def left() -> bool:
        return "one" not in await endpoints(api, slices)

    await eventually(left)


async def test_publish_not_ready_addresses_calls_everything_ready(
    api: Api, services: str, slices: str, pods: str
) -> None:
    await api.must_create(services, service(publishNotReadyAddresses=True))
    await api.must_create(pods, server("one", ready="no"))

    endpoint = await until_endpoint(api, slices, "one", ready=True)

    assert endpoint["conditions"]["serving"] is False


async def test_a_service_without_pods_has_an_empty_slice(
    api: Api, services: str, slices: str
) -> None:
    await api.must_create(services, service())

    async def empty() -> bool:
        items = (await api.get(slices)).body["items"]
        return len(items) == 1 and not items[0]["endpoints"]

    await eventually(empty)


async def fetch(address: str, port: int) -> str:
    """Send one request; return the body."""
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"GET / HTTP/1.1\r\nHost: s\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.partition(b"\r\n\r\n")[2].decode()


async def test_connections_to_a_service_reach_all_ready_pods(
    api: Api, services: str, slices: str, pods: str
) -> None:
    created = await api.must_create(services, service())
    address = created["spec"]["clusterIP"]
    await api.must_create(pods, server("one"))
    await api.must_create(pods, server("two"))
    for name in ("one", "two"):
        await until_endpoint(api, slices, name, ready=True)
    seen: set[str] = set()

    async def both() -> bool:
        try:
            seen.add(await fetch(address, 8080))
        except OSError:  # the rules of a real kube-proxy come a moment after the slice
            return False
        return seen == {"one", "two"}

    await eventually(both)


async def test_a_service_without_a_ready_pod_refuses_connections(api: Api, services: str) -> None:
    created = await api.must_create(services, service())
    address = created["spec"]["clusterIP"]

    async def refused() -> bool:
        try:
            await asyncio.open_connection(address, 8080)
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
        return False

    await eventually(refused)
