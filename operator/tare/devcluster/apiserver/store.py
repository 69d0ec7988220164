"""The storage: current objects, one revision counter for all, and a bounded log of changes.

The etcd of the devcluster. It knows no rule of the API: whoever writes here has already decided.
Listeners are called synchronously, in the order of the revisions; the log serves watches that
resume. A revision that fell out of the log is answered with 410 by the caller.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from tare.devcluster.apiserver.documents import Document, key_of, owner_uids
from tare.devcluster.apiserver.resources import ResourceKey

__all__ = ["Change", "ChangeType", "Listener", "Store"]

_LOG_LENGTH = 10_000
_FIRST_REVISION = 100


class ChangeType(StrEnum):
    """The types of watch events."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One entry of the log."""

    revision: int
    type: ChangeType
    resource: ResourceKey
    document: Document
    previous: Document | None
    """The object before the change; None when it was created."""


Listener = Callable[[Change], None]


class Store:
    """Objects by resource type, namespace and name; every write gets the next revision."""

    def __init__(self) -> None:
        self.revision = _FIRST_REVISION
        self._objects: defaultdict[ResourceKey, dict[tuple[str, str], Document]] = defaultdict(dict)
        self._log: defaultdict[ResourceKey, deque[Change]] = defaultdict(
            lambda: deque(maxlen=_LOG_LENGTH)
        )
        self._floor: defaultdict[ResourceKey, int] = defaultdict(lambda: _FIRST_REVISION)
        self._uids: set[str] = set()
        self._listeners: defaultdict[ResourceKey | None, list[Listener]] = defaultdict(list)
        self._dependents: defaultdict[str, dict[str, tuple[ResourceKey, tuple[str, str]]]] = (
            defaultdict(dict)
        )

    def find(self, resource: ResourceKey, namespace: str, name: str) -> Document | None:
        """Return the stored object itself: do not change it."""
        return self._objects[resource].get((namespace, name))

    def all(self, resource: ResourceKey, namespace: str | None = None) -> list[Document]:
        """Return the objects of a type, ordered by namespace and name."""
        objects = self._objects[resource]
        return [
            document
            for key, document in sorted(objects.items(), key=lambda item: item[0])
            if namespace is None or key[0] == namespace
        ]

    def exists(self, uid: str) -> bool:
        """Tell whether any object has this uid."""
        return uid in self._uids

    def dependents(self, uid: str) -> Iterator[tuple[ResourceKey, Document]]:
        """Yield every object that names `uid` as an owner."""
        for resource, key in list(self._dependents.get(uid, {}).values()):
            document = self._objects[resource].get(key)
            if document is not None:
                yield resource, document

    def contents(self, namespace: str) -> Iterator[tuple[ResourceKey, Document]]:
        """Yield every object of a namespace."""
        for resource, objects in list(self._objects.items()):
            for key, document in list(objects.items()):
                if key[0] == namespace:
                    yield resource, document

    def put(self, resource: ResourceKey, document: Document) -> Document:
        """Store a new state; takes the document over and sets its resourceVersion."""
        key = key_of(document)
        previous = self._objects[resource].get(key)
        self.revision += 1
        document["metadata"]["resourceVersion"] = str(self.revision)
        self._objects[resource][key] = document
        self._uids.add(document["metadata"]["uid"])
        self._index_owners(resource, document, previous)
        kind = ChangeType.ADDED if previous is None else ChangeType.MODIFIED
        self._append(resource, kind, document, previous)
        return document

    def remove(self, resource: ResourceKey, document: Document) -> Document:
        """Take an object out; the last state that watchers see carries the deletion's revision."""
        previous = self._objects[resource].pop(key_of(document))
        self._uids.discard(previous["metadata"]["uid"])
        self.revision += 1
        metadata = {**document["metadata"], "resourceVersion": str(self.revision)}
        last = {**document, "metadata": metadata}
        self._index_owners(resource, None, previous)
        self._append(resource, ChangeType.DELETED, last, previous)
        return last

    def since(self, resource: ResourceKey, revision: int) -> list[Change] | None:
        """Return the changes after `revision`; None when the log no longer reaches back so far."""
        if revision < self._floor[resource]:
            return None
        return [change for change in self._log[resource] if change.revision > revision]

    def compact(self) -> None:
        """Forget the log: every resume from a revision before this moment is too old."""
        self.revision += 1
        for resource in list(self._objects):
            self._log[resource].clear()
            self._floor[resource] = self.revision

    def listen(self, listener: Listener, resource: ResourceKey | None = None) -> None:
        """Call `listener` after each change of a type, or of any type."""
        self._listeners[resource].append(listener)

    def unlisten(self, listener: Listener, resource: ResourceKey | None = None) -> None:
        """Undo `listen`."""
        self._listeners[resource].remove(listener)

    def _append(
        self, resource: ResourceKey, kind: ChangeType, document: Document, previous: Document | None
    ) -> None:
        change = Change(
            revision=self.revision,
            type=kind,
            resource=resource,
            document=document,
            previous=previous,
        )
        log = self._log[resource]
        if len(log) == log.maxlen:
            self._floor[resource] = log[0].revision
        log.append(change)
        for listener in [*self._listeners[resource], *self._listeners[None]]:
            listener(change)

    def _index_owners(
        self, resource: ResourceKey, document: Document | None, previous: Document | None
    ) -> None:
        if previous is not None:
            for owner in owner_uids(previous):
                self._dependents[owner].pop(previous["metadata"]["uid"], None)
                if not self._dependents[owner]:
                    del self._dependents[owner]
        if document is not None:
            for owner in owner_uids(document):
                uid = document["metadata"]["uid"]
                self._dependents[owner][uid] = (resource, key_of(document))
