"""Namespaces: what a new one gets, and the emptying of one that is deleted."""

from __future__ import annotations

from typing import Final

from tare.devcluster.apiserver.deletion import DeleteOptions, delete
from tare.devcluster.apiserver.documents import Document, format_time
from tare.devcluster.apiserver.registry import NAMESPACES, Registry
from tare.devcluster.apiserver.resources import Propagation
from tare.devcluster.apiserver.store import Change, ChangeType
from tare.devcluster.controllers.queue import WorkQueue

__all__ = ["INITIAL_NAMESPACES", "NamespaceController"]

INITIAL_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_SERVICE_ACCOUNTS = ("", "serviceaccounts")


class NamespaceController:
    """Deletes the content of a namespace that is being deleted, then the namespace."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue = WorkQueue(self._reconcile)
        registry.store.listen(self._on_change)

    def create_initial(self) -> None:
        """Create the namespaces that every cluster has."""
        resource = self._registry.resources[NAMESPACES]
        for name in INITIAL_NAMESPACES:
            self._registry.create(resource, "", {"metadata": {"name": name}})

    def close(self) -> None:
        """Stop."""
        self._queue.close()

    def _on_change(self, change: Change) -> None:
        metadata = change.document["metadata"]
        if change.resource == NAMESPACES:
            self._queue.add(metadata["name"])
        elif change.type is ChangeType.DELETED and (namespace := metadata.get("namespace")):
            found = self._registry.store.find(NAMESPACES, "", namespace)
            if found is not None and found["metadata"].get("deletionTimestamp"):
                self._queue.add(namespace)

    def _reconcile(self, name: str) -> None:
        namespace = self._registry.store.find(NAMESPACES, "", name)
        if namespace is None:
            return
        if not namespace["metadata"].get("deletionTimestamp"):
            self._add_service_account(name)
        elif remaining := self._empty(name):
            self._report(namespace, remaining)
        else:
            self._registry.remove(self._registry.resources[NAMESPACES], namespace)

    def _add_service_account(self, namespace: str) -> None:
        resource = self._registry.resources[_SERVICE_ACCOUNTS]
        if self._registry.store.find(resource.key, namespace, "default") is None:
            self._registry.create(resource, namespace, {"metadata": {"name": "default"}})

    def _empty(self, namespace: str) -> list[str]:
        """Delete what is there; return the kinds that still wait for something."""
        remaining = []
        for key, document in self._registry.store.contents(namespace):
            resource, metadata = self._registry.resources[key], document["metadata"]
            if metadata.get("deletionTimestamp"):
                remaining.append(resource.plural)
                continue
            options = DeleteOptions(propagation=Propagation.BACKGROUND)
            if not delete(self._registry, resource, namespace, metadata["name"], options).gone:
                remaining.append(resource.plural)
        return remaining

    def _report(self, namespace: Document, remaining: list[str]) -> None:
        """Say what the namespace waits for, as `kubectl get namespace -o yaml` shows it."""
        counts = {plural: remaining.count(plural) for plural in sorted(remaining)}
        listed = ", ".join(
            f"{plural} has {count} resource instances" for plural, count in counts.items()
        )
        message = f"Some resources are remaining: {listed}"

        def change(document: Document) -> None:
            status = document["status"]
            known = status.get("conditions") or [{}]
            if known[0].get("message") == message:
                return
            status["conditions"] = [
                {
                    "type": "NamespaceContentRemaining",
                    "status": "True",
                    "reason": "SomeResourcesRemain",
                    "message": message,
                    "lastTransitionTime": format_time(self._registry.clock()),
                }
            ]

        resource = self._registry.resources[NAMESPACES]
        self._registry.modify(resource, namespace, change, subresource="status")
