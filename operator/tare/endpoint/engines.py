"""The servers that a hook's own `target` names: engines behind a router, ranks with a port each.

They are pods of the run's namespace, or URLs that the operator's allow-list was asked for before
the start. Pods are taken from the API, never from EndpointSlices alone, as in `discovery`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.api.reasons import Reason
from tare.endpoint.discovery import discover, from_urls
from tare.endpoint.errors import TargetError
from tare.kube.errors import NotFound
from tare.kube.port import POD, SERVICE
from tare.measure.hooks import Replica
from tare.net.origin import Origin, parse_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tare.api.hooks import HookTarget
    from tare.kube.port import Cluster, Document

__all__ = ["MOST_ENGINES", "find_engines"]

MOST_ENGINES = 256
"""Servers of one hook: as many as `status` has room for."""


async def find_engines(
    cluster: Cluster,
    namespace: str,
    target: HookTarget,
    *,
    load: Sequence[Replica],
    scheme: str = "http",
) -> tuple[Replica, ...]:
    """Find the servers of a hook; `load` are the replicas that the load goes to.

    Raises:
        TargetError: none is ready or the Service does not exist (not final), or there are more than
            `MOST_ENGINES`.
        KubeError: the API server refused or could not be asked.
    """
    found = await _find(cluster, namespace, target, load, scheme)
    if len(found) > MOST_ENGINES:
        message = f"a hook's target has {len(found)} servers; at most {MOST_ENGINES} are called"
        raise TargetError(Reason.INVALID_SPEC, message, final=True)
    return found


async def _find(
    cluster: Cluster, namespace: str, target: HookTarget, load: Sequence[Replica], scheme: str
) -> tuple[Replica, ...]:
    if target.urls is not None:
        return from_urls(target.urls).ready
    ports = target.ports or ()
    if target.service is not None and not ports:
        return (await discover(cluster, namespace, target.service.name, scheme=scheme)).ready
    if target.service is not None:
        labels = await _selector(cluster, namespace, target.service.name)
    elif target.selector is not None:
        labels = target.selector
    else:
        hosts = [(one.uid, one.name, parse_origin(one.origin).host) for one in load]
        return _on_ports(hosts, ports, scheme)
    pods = await cluster.list(POD, namespace, labels=labels)
    ready = [
        (pod["metadata"]["uid"], pod["metadata"]["name"], pod["status"]["podIP"])
        for pod in pods
        if _is_ready(pod)
    ]
    if not ready:
        raise _none_ready(namespace, labels, len(pods))
    return _on_ports(sorted(ready, key=lambda pod: pod[1]), ports, scheme)


async def _selector(cluster: Cluster, namespace: str, name: str) -> Mapping[str, str]:
    try:
        service = await cluster.get(SERVICE, namespace, name)
    except NotFound as error:
        message = f"Service {namespace}/{name}, a hook's target, does not exist"
        raise TargetError(Reason.TARGET_NOT_READY, message, final=False) from error
    selector: dict[str, str] = (service.get("spec") or {}).get("selector") or {}
    if not selector:
        message = f"Service {namespace}/{name}, a hook's target, has no selector; name its pods"
        raise TargetError(Reason.NOT_ALLOWED, message, final=True)
    return selector


def _on_ports(
    pods: Iterable[tuple[str, str, str]], ports: Sequence[int], scheme: str
) -> tuple[Replica, ...]:
    """One server for each port of each pod: data-parallel ranks know nothing of each other."""
    return tuple(
        Replica(
            uid=f"{uid}:{port}",
            name=f"{name}:{port}",
            origin=str(Origin(scheme=scheme, host=host, port=port)),
        )
        for uid, name, host in pods
        for port in ports
    )


def _is_ready(pod: Document) -> bool:
    status: dict[str, Any] = pod.get("status") or {}
    conditions = status.get("conditions") or ()
    ready = any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
    return ready and bool(status.get("podIP")) and "deletionTimestamp" not in pod["metadata"]


def _none_ready(namespace: str, labels: Mapping[str, str], known: int) -> TargetError:
    wanted = ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
    what = f"none of {known} pods is ready" if known else "there is no such pod"
    message = f"a hook's target is the pods {wanted} of namespace {namespace}: {what}"
    return TargetError(Reason.TARGET_NOT_READY, message, final=False)
