"""The EndpointSlice controller: which pods stand behind a Service, and in what state.

Slices are grouped by the ports their pods resolve to and hold at most 100 endpoints, as on a real
cluster. https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import orjson

from tare.devcluster.apiserver.deletion import delete
from tare.devcluster.apiserver.documents import Document, key_of, path_of, random_suffix
from tare.devcluster.apiserver.registry import PODS, Registry
from tare.devcluster.apiserver.selectors import match_labels
from tare.devcluster.controllers.queue import WorkQueue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.devcluster.apiserver.store import Change

__all__ = ["SERVICES", "SERVICE_NAME", "SLICES", "EndpointSliceController"]

SERVICES: Final = ("", "services")
SLICES: Final = ("discovery.k8s.io", "endpointslices")
SERVICE_NAME: Final = "kubernetes.io/service-name"
_MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
_MAX_ENDPOINTS: Final = 100


class EndpointSliceController:
    """Keeps the slices of every Service that has a selector."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue = WorkQueue(self._reconcile)
        registry.store.listen(self._on_service, SERVICES)
        registry.store.listen(self._on_pod, PODS)

    def close(self) -> None:
        """Stop."""
        self._queue.close()

    def _on_service(self, change: Change) -> None:
        self._queue.add(key_of(change.document))

    def _on_pod(self, change: Change) -> None:
        namespace = change.document["metadata"]["namespace"]
        for service in self._registry.store.all(SERVICES, namespace):
            selector = service["spec"].get("selector") or {}
            states = (change.document, change.previous)
            if any(state is not None and match_labels(selector, state) for state in states):
                self._queue.add(key_of(service))

    def _reconcile(self, key: tuple[str, str]) -> None:
        service = self._registry.store.find(SERVICES, *key)
        if service is None or not service["spec"].get("selector"):
            return  # slices of a Service that is gone are garbage
        if service["metadata"].get("deletionTimestamp"):
            return
        wanted = list(self._wanted(service))
        for document in self._existing(service):
            content = next((item for item in wanted if item["ports"] == document["ports"]), None)
            if content is None:
                metadata = document["metadata"]
                resource = self._registry.resources[SLICES]
                delete(self._registry, resource, metadata["namespace"], metadata["name"])
            else:
                wanted.remove(content)
                self._update(document, content)
        for content in wanted:
            self._create(service, content)

    def _existing(self, service: Document) -> list[Document]:
        owned = self._registry.store.dependents(service["metadata"]["uid"])
        return [document for resource, document in owned if resource == SLICES]

    def _wanted(self, service: Document) -> Iterator[Document]:
        """Yield the content of each slice."""
        groups: defaultdict[bytes, list[Document]] = defaultdict(list)
        for pod in self._registry.store.all(PODS, service["metadata"]["namespace"]):
            if match_labels(service["spec"]["selector"], pod) and _has_address(pod):
                ports = orjson.dumps(_ports(service, pod))
                groups[ports].append(_endpoint(service, pod))
        if not groups:
            yield {"ports": [], "endpoints": []}
        for ports, endpoints in groups.items():
            rest = iter(endpoints)
            while chunk := list(islice(rest, _MAX_ENDPOINTS)):
                yield {"ports": orjson.loads(ports), "endpoints": chunk}

    def _create(self, service: Document, content: Document) -> None:
        owner = service["metadata"]
        metadata = {
            "name": f"{owner['name']}-{random_suffix()}",
            "generateName": f"{owner['name']}-",
            "labels": {
                **(owner.get("labels") or {}),
                SERVICE_NAME: owner["name"],
                _MANAGED_BY: "endpointslice-controller.k8s.io",
            },
            "ownerReferences": [
                {
                    "apiVersion": "v1",
                    "kind": "Service",
                    "name": owner["name"],
                    "uid": owner["uid"],
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
        document = {"metadata": metadata, "addressType": "IPv4", **content}
        resource = self._registry.resources[SLICES]
        self._registry.create(resource, owner["namespace"], document)

    def _update(self, document: Document, content: Document) -> None:
        self._registry.modify(
            self._registry.resources[SLICES], document, lambda new: new.update(content)
        )


def _has_address(pod: Document) -> bool:
    status = pod["status"]
    return bool(status.get("podIP")) and status.get("phase") not in {"Succeeded", "Failed"}


def _endpoint(service: Document, pod: Document) -> Document:
    ready = any(
        condition["type"] == "Ready" and condition["status"] == "True"
        for condition in pod["status"].get("conditions") or ()
    )
    terminating = bool(pod["metadata"].get("deletionTimestamp"))
    published = bool(service["spec"].get("publishNotReadyAddresses"))
    metadata = pod["metadata"]
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {
            "ready": published or (ready and not terminating),
            "serving": ready,
            "terminating": terminating,
        },
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }


def _ports(service: Document, pod: Document) -> list[Document]:
    """Resolve the Service's target ports in a pod; a name that it does not have is left out."""
    found = []
    for port in service["spec"].get("ports") or ():
        number = _port_number(port["targetPort"], pod)
        if number is not None:
            entry = {"name": port.get("name", ""), "port": number, "protocol": port["protocol"]}
            if "appProtocol" in port:
                entry["appProtocol"] = port["appProtocol"]
            found.append(entry)
    return found


def _port_number(target: Any, pod: Document) -> int | None:
    if isinstance(target, int):
        return target
    for container in path_of(pod, "spec.containers") or ():
        for port in container.get("ports") or ():
            if port.get("name") == target:
                return int(port["containerPort"])
    return None
