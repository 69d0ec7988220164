"""The garbage collector: dependents follow their owners.

Background: dependents go after the owner is gone. Foreground: the owner waits for the dependents
that block it. Orphan: dependents lose the reference and stay. It runs a moment after the change,
as on a real cluster: a Job is gone before its pods are.
https://kubernetes.io/docs/concepts/architecture/garbage-collection/
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.devcluster.apiserver.deletion import (
    FOREGROUND_FINALIZER,
    ORPHAN_FINALIZER,
    DeleteOptions,
    delete,
)
from tare.devcluster.apiserver.documents import Document, owner_uids
from tare.devcluster.apiserver.resources import Propagation, Resource, ResourceKey
from tare.devcluster.apiserver.store import Change, ChangeType
from tare.devcluster.controllers.queue import WorkQueue

if TYPE_CHECKING:
    from tare.devcluster.apiserver.registry import Registry

__all__ = ["GarbageCollector"]

_PAUSE: Final = 0.02

_Item = tuple[ResourceKey, str, str, str]
"""Resource type, namespace, name, uid."""


class GarbageCollector:
    """Deletes objects whose owners are gone, and lets owners go whose dependents are."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._queue = WorkQueue(self._reconcile, pause=_PAUSE)
        registry.store.listen(self._on_change)

    def close(self) -> None:
        """Stop."""
        self._queue.close()

    def _on_change(self, change: Change) -> None:
        metadata = change.document["metadata"]
        if change.type is ChangeType.DELETED:
            for resource, document in self._registry.store.dependents(metadata["uid"]):
                self._queue.add(_item(resource, document))
            for owner in owner_uids(change.document):
                self._queue_owner(change.document, owner)
        elif metadata.get("ownerReferences") or metadata.get("deletionTimestamp"):
            self._queue.add(_item(change.resource, change.document))

    def _queue_owner(self, document: Document, uid: str) -> None:
        """Look at an owner again that may wait for this dependent."""
        for reference in document["metadata"]["ownerReferences"]:
            if reference["uid"] != uid:
                continue
            group = reference["apiVersion"].rpartition("/")[0]
            for resource in self._registry.resources.values():
                if (resource.group, resource.kind) == (group, reference["kind"]):
                    namespace = document["metadata"].get("namespace", "")
                    place = namespace if resource.namespaced else ""
                    self._queue.add((resource.key, place, reference["name"], uid))

    def _reconcile(self, item: _Item) -> None:
        key, namespace, name, uid = item
        resource = self._registry.resources.get(key)
        document = self._registry.store.find(key, namespace, name)
        if resource is None or document is None or document["metadata"]["uid"] != uid:
            return
        finalizers = document["metadata"].get("finalizers") or ()
        if document["metadata"].get("deletionTimestamp"):
            if ORPHAN_FINALIZER in finalizers:
                self._orphan(resource, document)
            elif FOREGROUND_FINALIZER in finalizers:
                self._delete_dependents(resource, document)
        else:
            self._collect(resource, document)

    def _collect(self, resource: Resource, document: Document) -> None:
        """Delete an object all of whose owners are gone; drop the references to some that are."""
        owners = list(owner_uids(document))
        living = [uid for uid in owners if self._registry.store.exists(uid)]
        if not owners or len(living) == len(owners):
            return
        if living:
            self._keep_owners(resource, document, living)
            return
        metadata = document["metadata"]
        options = DeleteOptions(uid=metadata["uid"], propagation=Propagation.BACKGROUND)
        delete(self._registry, resource, metadata.get("namespace", ""), metadata["name"], options)

    def _keep_owners(self, resource: Resource, document: Document, living: list[str]) -> None:
        def change(new: Document) -> None:
            references = new["metadata"]["ownerReferences"]
            kept = [reference for reference in references if reference["uid"] in living]
            new["metadata"]["ownerReferences"] = kept
            if not kept:
                del new["metadata"]["ownerReferences"]

        self._registry.modify(resource, document, change)

    def _orphan(self, resource: Resource, owner: Document) -> None:
        uid = owner["metadata"]["uid"]
        for key, dependent in self._registry.store.dependents(uid):
            others = [other for other in owner_uids(dependent) if other != uid]
            self._keep_owners(self._registry.resources[key], dependent, others)
        self._drop_finalizer(resource, owner, ORPHAN_FINALIZER)

    def _delete_dependents(self, resource: Resource, owner: Document) -> None:
        uid = owner["metadata"]["uid"]
        blocked = False
        for key, dependent in self._registry.store.dependents(uid):
            blocked = blocked or _blocks(dependent, uid)
            metadata = dependent["metadata"]
            if metadata.get("deletionTimestamp"):
                continue
            has_own = any(True for _ in self._registry.store.dependents(metadata["uid"]))
            policy = Propagation.FOREGROUND if has_own else Propagation.BACKGROUND
            options = DeleteOptions(uid=metadata["uid"], propagation=policy)
            namespace, name = metadata.get("namespace", ""), metadata["name"]
            delete(self._registry, self._registry.resources[key], namespace, name, options)
        if not blocked:
            self._drop_finalizer(resource, owner, FOREGROUND_FINALIZER)

    def _drop_finalizer(self, resource: Resource, document: Document, finalizer: str) -> None:
        def change(new: Document) -> None:
            new["metadata"]["finalizers"].remove(finalizer)

        self._registry.modify(resource, document, change)


def _item(resource: ResourceKey, document: Document) -> _Item:
    metadata = document["metadata"]
    return resource, metadata.get("namespace", ""), metadata["name"], metadata["uid"]


def _blocks(dependent: Document, owner: str) -> bool:
    return any(
        reference.get("blockOwnerDeletion")
        for reference in dependent["metadata"]["ownerReferences"]
        if reference["uid"] == owner
    )
