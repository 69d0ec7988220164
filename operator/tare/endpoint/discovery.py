"""Which servers stand behind a target, by pod: the set that is reset, profiled and kept an eye on.

A Service's own address reaches one pod of its choice, so hooks go to every pod. They come from the
EndpointSlices, because those are what the Service sends the load to. Two rules make the answer
trustworthy: an endpoint counts by `serving` and `terminating`, since `ready` lies under
publishNotReadyAddresses; and an address counts only if a pod that the Service selects has it, since
whoever may write slices could point the operator's requests anywhere.

https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.kube.errors import NotFound
from tare.kube.port import ENDPOINT_SLICE, POD, SERVICE
from tare.measure.hooks import Replica, Replicas
from tare.net.origin import Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tare.kube.port import Cluster, Document

__all__ = ["discover", "from_urls", "gone", "select_replicas"]

_SERVICE_NAME = "kubernetes.io/service-name"
_HEADLESS = "None"
_USUAL_PORT = "http"
_ENDED = ("Succeeded", "Failed")


async def discover(
    cluster: Cluster,
    namespace: str,
    service: str,
    port: int | str | None = None,
    *,
    scheme: str = "http",
) -> Replicas:
    """Find the replicas of a Service.

    `port` is a name or number of it; None is its only one, else the one named http.

    Raises:
        TargetError: as `select_replicas`, or the Service does not exist (not final: it may come).
        KubeError: the API server refused or could not be asked.
    """
    try:
        found = await cluster.get(SERVICE, namespace, service)
    except NotFound as error:
        message = f"Service {namespace}/{service} does not exist"
        raise TargetError(Reason.TARGET_NOT_READY, message, final=False) from error
    selector = _selector(found)
    # Slices first: a pod has its address before a slice names it, so the later list knows it.
    slices = await cluster.list(ENDPOINT_SLICE, namespace, labels={_SERVICE_NAME: service})
    pods = await cluster.list(POD, namespace, labels=selector)
    return select_replicas(found, slices, pods, port, scheme=scheme)


async def gone(cluster: Cluster, namespace: str, replicas: Iterable[Replica]) -> frozenset[str]:
    """Name the replicas whose pods have ended, were deleted, or are on their way out.

    All pods of the namespace are asked for: one that has lost its label is no replica any more, but
    it lives, and its profiler with it.

    Raises:
        KubeError: the API server refused or could not be asked.
    """
    # One given by its URL is no pod, and the port of a pod's engine does not matter here.
    uids = {r.name: r.uid.partition(":")[0] for r in replicas if r.uid != r.origin}
    if not uids:
        return frozenset()
    pods = await cluster.list(POD, namespace)
    alive = {pod["metadata"]["uid"] for pod in pods if _lives(pod)}
    return frozenset(name for name, uid in uids.items() if uid not in alive)


def from_urls(urls: Iterable[str]) -> Replicas:
    """Take each distinct origin of `urls` as one replica, in the order given.

    Origins are compared by scheme, lower-case host and explicit port.

    Raises:
        BadUrlError: a text is no URL of a server.
    """
    origins = dict.fromkeys(str(parse_origin(url)) for url in urls)
    return Replicas(ready=tuple(Replica(uid=o, name=o, origin=o) for o in origins))


def select_replicas(
    service: Document,
    slices: Iterable[Document],
    pods: Iterable[Document],
    port: int | str | None = None,
    *,
    scheme: str = "http",
) -> Replicas:
    """Pick the replicas out of a Service, its slices and the pods that it selects.

    A pod with an IPv4 and an IPv6 address is one replica, at the address family that the Service
    prefers.

    Raises:
        TargetError: final for an ExternalName or selectorless Service and an unknown port; not
            final when there are no endpoints, none is ready, or an address belongs to no such pod.
    """
    selector = _selector(service)
    name = _name(service)
    service_port = _service_port(service, port)
    by_uid = {pod["metadata"]["uid"]: pod for pod in pods}
    ready: dict[str, Replica] = {}
    terminating: set[str] = set()
    not_ready: set[str] = set()
    number = None
    for endpoint, target_port in _endpoints(service, slices, service_port):
        pod = endpoint.get("targetRef") or {}
        label = pod.get("name") or ", ".join(endpoint.get("addresses") or ())
        conditions = endpoint.get("conditions") or {}
        if conditions.get("terminating") is True:
            terminating.add(label)
        elif conditions.get("serving") is not True:
            not_ready.add(label)
        elif pod.get("uid") not in ready:
            number = number or target_port
            replica = _replica(endpoint, by_uid, scheme, target_port, name)
            ready[replica.uid] = replica
    if not ready:
        raise _none_ready(name, selector, not_ready, terminating)
    address = _service_origin(service, service_port, number or 0, scheme)
    host = Origin(scheme=scheme, host=_dns_name(service), port=address.port)
    return Replicas(
        ready=tuple(sorted(ready.values(), key=lambda replica: (replica.name, replica.uid))),
        terminating=tuple(sorted(terminating)),
        not_ready=tuple(sorted(not_ready)),
        service_url=str(address),
        service_host=host.authority,
    )


def _selector(service: Document) -> dict[str, str]:
    spec = service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        message = f"{_name(service)} is an ExternalName; give its address as endpoint.url instead"
        raise TargetError(Reason.NOT_ALLOWED, message, final=True)
    selector: dict[str, str] = spec.get("selector") or {}
    if not selector:
        raise TargetError(
            Reason.NOT_ALLOWED,
            f"{_name(service)} has no selector, so nobody can check that its addresses are pods of"
            " this namespace; give it a selector, or its addresses as endpoint.urls",
            final=True,
        )
    return selector


def _service_port(service: Document, port: int | str | None) -> dict[str, Any]:
    ports: list[dict[str, Any]] = service["spec"].get("ports") or []
    wanted = _USUAL_PORT if port is None else port
    for entry in ports:
        if wanted in (entry.get("name"), entry["port"]) or (port is None and len(ports) == 1):
            return entry
    known = ", ".join(
        f"{entry['port']} ({entry['name']})" if entry.get("name") else str(entry["port"])
        for entry in ports
    )
    message = f"{_name(service)} has no port {wanted!r}; its ports are: {known or 'none'}"
    if port is None and ports:
        message += "; name one as endpoint.service.port"
    raise TargetError(Reason.INVALID_SPEC, message, final=True)


def _endpoints(
    service: Document, slices: Iterable[Document], service_port: dict[str, Any]
) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield the pods' endpoints that serve the port, with its number there; best family first.

    A slice names a port as the Service does (an unnamed one is empty), and gives the pod's number.
    """
    family = (service["spec"].get("ipFamilies") or [""])[0]
    wanted = service_port.get("name") or ""
    ordered = sorted(slices, key=lambda s: (s.get("addressType") != family, s["metadata"]["name"]))
    for document in ordered:
        numbers = [
            entry["port"]
            for entry in document.get("ports") or ()
            if (entry.get("name") or "") == wanted and entry.get("port")
        ]
        if numbers:
            for endpoint in document.get("endpoints") or ():
                yield endpoint, numbers[0]


def _replica(
    endpoint: dict[str, Any], pods: dict[str, Document], scheme: str, port: int, service: str
) -> Replica:
    """Make the replica of a serving endpoint, after checking whose address it is.

    Leaving out an address that nobody vouches for would leave a server unreset that gets load, so
    it is an error. It may pass: pod and slice are read one after the other.
    """
    reference = endpoint.get("targetRef") or {}
    address = (endpoint.get("addresses") or [""])[0]
    pod = pods.get(reference.get("uid", ""))
    owned = {entry.get("ip") for entry in ((pod or {}).get("status") or {}).get("podIPs") or ()}
    if pod is None or not _among(address, owned):
        raise TargetError(
            Reason.TARGET_NOT_READY,
            f"address {address!r} in an EndpointSlice of {service} belongs to no pod that it"
            " selects, so nothing is sent there",
            final=False,
        )
    return Replica(
        uid=reference["uid"],
        name=pod["metadata"]["name"],
        origin=str(Origin(scheme=scheme, host=address, port=port)),
        node=endpoint.get("nodeName") or "",
        image=_image(pod),
        restarts=sum(c.get("restartCount", 0) for c in _containers(pod)),
    )


def _lives(pod: Document) -> bool:
    ended = (pod.get("status") or {}).get("phase") in _ENDED
    return not ended and "deletionTimestamp" not in pod["metadata"]


def _containers(pod: Document) -> list[dict[str, Any]]:
    return (pod.get("status") or {}).get("containerStatuses") or []


def _image(pod: Document) -> str:
    """The image as it was asked for, with the digest of what runs."""
    asked = str(((pod.get("spec") or {}).get("containers") or [{}])[0].get("image", ""))
    # The runtime writes `name@sha256:…`, or the digest alone for an image that was never pulled.
    pulled = next((c["imageID"] for c in _containers(pod) if c.get("imageID")), "")
    digest = pulled.rpartition("@")[2]
    return f"{asked}@{digest}" if digest.startswith("sha256:") and "@" not in asked else asked


def _among(address: str, owned: set[str | None]) -> bool:
    """Compare as addresses: IPv6 has many spellings."""
    try:
        return ip_address(address) in {ip_address(ip) for ip in owned if ip}
    except ValueError:
        return False


def _none_ready(
    service: str, selector: dict[str, str], not_ready: set[str], terminating: set[str]
) -> TargetError:
    labels = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    states = [
        f"{what}: {', '.join(sorted(names))}"
        for what, names in (("not ready", not_ready), ("terminating", terminating))
        if names
    ]
    message = (
        f"{service} has no ready pod ({'; '.join(states)})"
        if states
        else f"{service} has no endpoints; does a pod match its selector {labels}?"
    )
    return TargetError(Reason.TARGET_NOT_READY, message, final=False)


def _service_origin(
    service: Document, service_port: dict[str, Any], target_port: int, scheme: str
) -> Origin:
    """Return where clients go; a headless Service translates no ports, its name is its pods'."""
    cluster_ip = service["spec"].get("clusterIP") or _HEADLESS
    if cluster_ip == _HEADLESS:
        return Origin(scheme=scheme, host=_dns_name(service), port=target_port)
    return Origin(scheme=scheme, host=cluster_ip, port=service_port["port"])


def _dns_name(service: Document) -> str:
    return f"{service['metadata']['name']}.{service['metadata']['namespace']}.svc"


def _name(service: Document) -> str:
    return f"Service {service['metadata']['namespace']}/{service['metadata']['name']}"
