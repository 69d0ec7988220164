"""Services, slices and pods as a cluster writes them, and the replicas that Tare sees in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from support.kube_api import kube_api
from support.scripted_http import json_reply
from tare.api.reasons import Reason
from tare.endpoint.discovery import _image, discover, from_urls, select_replicas
from tare.endpoint.errors import TargetError
from tare.net.origin import BadUrlError

if TYPE_CHECKING:
    from pathlib import Path

    from tare.kube.port import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """One pod and its endpoint."""

    name: str
    ips: tuple[str, ...]
    conditions: dict[str, bool] = field(
        default_factory=lambda: {"ready": True, "serving": True, "terminating": False}
    )

    def endpoint(self, address: str) -> Document:
        return {
            "addresses": [address],
            "conditions": self.conditions,
            "nodeName": "node-1",
            "targetRef": {"kind": "Pod", "name": self.name, "uid": f"uid-{self.name}"},
        }

    def document(self) -> Document:
        return {
            "metadata": {"name": self.name, "uid": f"uid-{self.name}"},
            "status": {"podIPs": [{"ip": ip} for ip in self.ips]},
        }


def service(**spec: Any) -> Document:
    default = {
        "clusterIP": "10.96.0.7",
        "ipFamilies": ["IPv4"],
        "selector": {"app": "qwen"},
        "ports": [
            {"name": "metrics", "port": 9000, "targetPort": 9090},
            {"name": "http", "port": 80, "targetPort": "http"},
        ],
    }
    return {"metadata": {"name": "qwen", "namespace": "bench"}, "spec": default | spec}


def slice_of(
    *pods: Pod, family: str = "IPv4", name: str = "qwen-a", ports: list[Document] | None = None
) -> Document:
    index = 0 if family == "IPv4" else -1
    return {
        "metadata": {"name": name},
        "addressType": family,
        "ports": ports or [{"name": "metrics", "port": 9090}, {"name": "http", "port": 8000}],
        "endpoints": [pod.endpoint(pod.ips[index]) for pod in pods],
    }


A = Pod(name="qwen-0", ips=("10.0.0.1",))
B = Pod(name="qwen-1", ips=("10.0.0.2",))
NOT_SERVING = {"ready": False, "serving": False, "terminating": False}
PUBLISHED = {"ready": True, "serving": False, "terminating": False}
DRAINING = {"ready": False, "serving": True, "terminating": True}


def select(*pods: Pod, port: int | str | None = "http", **spec: Any) -> Any:
    documents = [pod.document() for pod in pods]
    return select_replicas(service(**spec), [slice_of(*pods)], documents, port)


def test_every_serving_pod_is_a_replica_at_its_own_address() -> None:
    found = select(B, A)
    assert [(r.uid, r.name, r.origin, r.node) for r in found.ready] == [
        ("uid-qwen-0", "qwen-0", "http://10.0.0.1:8000", "node-1"),
        ("uid-qwen-1", "qwen-1", "http://10.0.0.2:8000", "node-1"),
    ]
    assert found.service_url == "http://10.96.0.7:80"
    assert found.service_host == "qwen.bench.svc"


@pytest.mark.parametrize(
    ("port", "number"), [("http", 8000), (80, 8000), (9000, 9090), (None, 8000)]
)
def test_a_port_is_a_name_a_number_or_the_one_named_http(
    port: int | str | None, number: int
) -> None:
    assert select(A, port=port).ready[0].origin == f"http://10.0.0.1:{number}"


@pytest.mark.parametrize("port", [8080, None])
def test_a_port_without_a_name_is_found(port: int | None) -> None:
    found = select_replicas(
        service(ports=[{"port": 8080}]),
        [slice_of(A, ports=[{"name": "", "port": 8000}])],
        [A.document()],
        port,
    )
    assert found.ready[0].origin == "http://10.0.0.1:8000"
    assert found.service_host == "qwen.bench.svc:8080"


@pytest.mark.parametrize(
    ("conditions", "where"),
    [(NOT_SERVING, "not_ready"), (PUBLISHED, "not_ready"), (DRAINING, "terminating")],
    ids=["not ready", "ready only because of publishNotReadyAddresses", "draining"],
)
def test_a_pod_counts_by_serving_and_terminating_and_never_by_ready(
    conditions: dict[str, bool], where: str
) -> None:
    found = select(A, Pod(name="qwen-1", ips=("10.0.0.2",), conditions=conditions))
    assert [replica.name for replica in found.ready] == ["qwen-0"]
    assert getattr(found, where) == ("qwen-1",)


def test_an_ipv6_address_gets_brackets() -> None:
    pod = Pod(name="qwen-0", ips=("fd00::12",))
    found = select_replicas(
        service(clusterIP="fd00::99", ipFamilies=["IPv6"]),
        [slice_of(pod, family="IPv6")],
        [pod.document()],
        "http",
    )
    assert found.ready[0].origin == "http://[fd00::12]:8000"
    assert found.service_url == "http://[fd00::99]:80"


@pytest.mark.parametrize(
    ("family", "origin"), [("IPv4", "http://10.0.0.1:8000"), ("IPv6", "http://[fd00::1]:8000")]
)
def test_a_dual_stack_pod_is_one_replica_at_the_family_that_the_service_prefers(
    family: str, origin: str
) -> None:
    pod = Pod(name="qwen-0", ips=("10.0.0.1", "fd00::1"))
    slices = [slice_of(pod), slice_of(pod, family="IPv6", name="qwen-b")]
    found = select_replicas(service(ipFamilies=[family]), slices, [pod.document()], "http")
    assert [replica.origin for replica in found.ready] == [origin]


def test_a_headless_service_is_called_by_name_at_its_pods_port() -> None:
    found = select(A, clusterIP="None")
    assert found.service_url == "http://qwen.bench.svc:8000"
    assert found.service_host == "qwen.bench.svc:8000"


def test_another_spelling_of_the_pods_own_ipv6_address_is_the_same_address() -> None:
    pod = Pod(name="qwen-0", ips=("fd00::12",))
    document = pod.document()
    document["status"]["podIPs"] = [{"ip": "fd00:0:0::12"}]
    found = select_replicas(service(), [slice_of(pod)], [document], "http")
    assert found.ready[0].origin == "http://[fd00::12]:8000"


def test_an_address_that_is_not_the_pods_own_stops_everything() -> None:
    forged = slice_of(Pod(name="qwen-1", ips=("169.254.169.254",)))
    with pytest.raises(TargetError, match=r"169\.254\.169\.254.*belongs to no pod") as caught:
        select_replicas(service(), [slice_of(A), forged], [A.document(), B.document()], "http")
    assert not caught.value.final


def test_a_pod_that_the_service_does_not_select_stops_everything() -> None:
    with pytest.raises(TargetError, match="belongs to no pod that it selects"):
        select_replicas(service(), [slice_of(A, B)], [A.document()], "http")


def test_several_ports_of_which_none_is_http_must_be_told_apart() -> None:
    with pytest.raises(TargetError, match=r"metrics.*, 81 \(api\); name one as endpoint") as caught:
        select(A, port=None, ports=[{"name": "metrics", "port": 9}, {"name": "api", "port": 81}])
    assert caught.value.reason is Reason.INVALID_SPEC
    assert caught.value.final


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"type": "ExternalName", "externalName": "example.com"},
            Reason.NOT_ALLOWED,
            "Service bench/qwen is an ExternalName",
        ),
        ({"selector": {}}, Reason.NOT_ALLOWED, "Service bench/qwen has no selector"),
        (
            {"ports": [{"name": "metrics", "port": 9000}, {"port": 80}]},
            Reason.INVALID_SPEC,
            "Service bench/qwen has no port 'http'; its ports are: 9000 (metrics), 80",
        ),
    ],
)
def test_a_service_that_can_never_be_a_target_is_refused_for_good(
    spec: dict[str, Any], reason: Reason, message: str
) -> None:
    with pytest.raises(TargetError) as caught:
        select(A, **spec)
    assert caught.value.reason is reason
    assert caught.value.final
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("pods", "message"),
    [
        ((), "has no endpoints; does a pod match its selector app=qwen?"),
        (
            (
                Pod(name="qwen-0", ips=("10.0.0.1",), conditions=NOT_SERVING),
                Pod(name="qwen-1", ips=("10.0.0.2",), conditions=DRAINING),
            ),
            "has no ready pod (not ready: qwen-0; terminating: qwen-1)",
        ),
    ],
)
def test_a_service_without_a_ready_pod_may_get_one(pods: tuple[Pod, ...], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        select(*pods)
    assert caught.value.reason is Reason.TARGET_NOT_READY
    assert not caught.value.final
    assert str(caught.value) == f"Service bench/qwen {message}"


def test_an_origin_given_twice_is_one_replica() -> None:
    found = from_urls(["http://H:80/v1", "http://h/v1/", "http://h:80/v1", "https://h"])
    assert [replica.origin for replica in found.ready] == ["http://h:80", "https://h:443"]
    assert found.uids == ("http://h:80", "https://h:443")
    assert found.service_url is None
    with pytest.raises(BadUrlError):
        from_urls(["ftp://h"])


async def test_discovery_reads_the_service_its_slices_and_the_pods_it_selects(
    tmp_path: Path,
) -> None:
    namespace = "/namespaces/bench"
    async with kube_api(tmp_path) as (server, cluster):
        slices = f"/apis/discovery.k8s.io/v1{namespace}/endpointslices"
        pods = f"/api/v1{namespace}/pods"
        server.on(f"/api/v1{namespace}/services/qwen", json_reply(service()))
        server.on(slices, json_reply({"items": [slice_of(A, B)]}))
        server.on(pods, json_reply({"items": [A.document(), B.document()]}))
        found = await discover(cluster, "bench", "qwen", "http")
        assert [replica.name for replica in found.ready] == ["qwen-0", "qwen-1"]
        (of_slices,), (of_pods,) = server.calls(slices), server.calls(pods)
        assert "labelSelector=kubernetes.io/service-name%3Dqwen" in of_slices.path
        assert "labelSelector=app%3Dqwen" in of_pods.path


async def test_a_service_that_does_not_exist_may_still_come(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (_, cluster):
        with pytest.raises(TargetError, match="Service bench/qwen does not exist") as caught:
            await discover(cluster, "bench", "qwen", "http")
    assert not caught.value.final


async def test_a_service_of_another_kind_is_refused_before_anything_else_is_read(
    tmp_path: Path,
) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        path = "/api/v1/namespaces/bench/services/qwen"
        server.on(path, json_reply(service(type="ExternalName", externalName="example.com")))
        with pytest.raises(TargetError, match="ExternalName"):
            await discover(cluster, "bench", "qwen", "http")
        assert [request.path for request in server.requests] == [path]


@pytest.mark.parametrize(
    ("image_id", "image"),
    [
        ("docker.io/vllm/vllm-openai@sha256:ab12", "vllm/vllm-openai:v1@sha256:ab12"),
        ("sha256:ab12", "vllm/vllm-openai:v1@sha256:ab12"),
        ("", "vllm/vllm-openai:v1"),
    ],
)
def test_a_replica_says_which_image_it_runs(image_id: str, image: str) -> None:
    pod = {
        "spec": {"containers": [{"image": "vllm/vllm-openai:v1"}]},
        "status": {"containerStatuses": [{"imageID": image_id, "restartCount": 2}]},
    }
    assert _image(pod) == image
