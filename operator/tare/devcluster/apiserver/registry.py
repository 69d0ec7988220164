"""The rules of writing: what every create, update and delete goes through before it is stored.

Handlers and controllers both call this class, so that a controller can do nothing that a client
could not. Documents that are passed in are taken over; documents that are returned are the stored
ones and must not be changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from tare.devcluster.apiserver import errors
from tare.devcluster.apiserver.documents import (
    Clock,
    Document,
    copy_of,
    format_time,
    random_suffix,
)
from tare.devcluster.apiserver.metadata import SYSTEM_FIELDS, check_metadata, keep_system_fields
from tare.devcluster.apiserver.pruning import apply_defaults
from tare.devcluster.apiserver.resources import Resource, ResourceKey
from tare.devcluster.apiserver.validation import validate

if TYPE_CHECKING:
    from tare.devcluster.apiserver.store import Store

__all__ = ["NAMESPACES", "PODS", "Admission", "Registry", "Written"]

NAMESPACES: ResourceKey = ("", "namespaces")
PODS: ResourceKey = ("", "pods")

Admission = Callable[[Resource, Document], None]
"""Looks at an object that is about to be created; raises `ApiError` to refuse it."""

_MODIFIED = (
    "the object has been modified; please apply your changes to the latest version and try again"
)

_NAMELESS = errors.FieldError(
    errors.FieldErrorType.REQUIRED, "metadata.name", "name or generateName is required"
)


@dataclass(frozen=True, slots=True)
class Written:
    """The answer to a write: the object, and whether the write removed it."""

    document: Document
    gone: bool = False


class Registry:
    """All resource types and their objects, under the API's rules."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock
        self.resources: dict[ResourceKey, Resource] = {}
        self.admission: list[Admission] = []

    def get(self, resource: Resource, namespace: str, name: str) -> Document:
        """Return an object; 404 when there is none."""
        document = self.store.find(resource.key, namespace, name)
        if document is None:
            raise errors.not_found(resource.group, resource.plural, name)
        return document

    def create(
        self, resource: Resource, namespace: str, document: Document, *, dry_run: bool = False
    ) -> Document:
        """Store a new object."""
        self._name(resource, namespace, document)
        name = document["metadata"]["name"]
        self._need_namespace(namespace, resource, name)
        metadata = document["metadata"]
        metadata["uid"] = str(uuid4())
        metadata["creationTimestamp"] = format_time(self.clock())
        if resource.has_generation:
            metadata["generation"] = 1
        if resource.has_status and resource.custom:
            document.pop("status", None)
        self._fill(resource, document)
        resource.create(document)
        for admit in self.admission:
            admit(resource, document)
        self._check(resource, document, None)
        if self.store.find(resource.key, namespace, name) is not None:
            raise errors.already_exists(resource.group, resource.plural, name)
        return document if dry_run else self.store.put(resource.key, document)

    def replace(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        new: Document,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Written:
        """Store a new state of an object; a resourceVersion or uid in it must be the stored one."""
        old = self.get(resource, namespace, name)
        self._compare_versions(resource, new, old)
        new = self._combine(resource, new, old, subresource)
        self._fill(resource, new)
        self._check(resource, new, old)
        if new == old:  # a write that changes nothing gets no revision
            return Written(old)
        if resource.has_generation and _desired(resource, new) != _desired(resource, old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
        if dry_run:
            return Written(new)
        if self._is_released(new):
            return Written(self.store.remove(resource.key, new), gone=True)
        return Written(self.store.put(resource.key, new))

    def modify(
        self,
        resource: Resource,
        document: Document,
        change: Callable[[Document], None],
        *,
        subresource: str = "",
    ) -> Document | None:
        """Change the latest state of an object in place; None when that very object is gone.

        For controllers: they run in the server's own thread, so that no conflict can happen.
        """
        metadata = document["metadata"]
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        latest = self.store.find(resource.key, namespace, name)
        if latest is None or latest["metadata"]["uid"] != metadata["uid"]:
            return None
        new = copy_of(latest)
        change(new)
        written = self.replace(resource, namespace, name, new, subresource=subresource)
        return None if written.gone else written.document

    def remove(self, resource: Resource, document: Document) -> None:
        """Take an object out at once, whatever its finalizers say (namespaces, CRDs, pods)."""
        self.store.remove(resource.key, document)

    def _name(self, resource: Resource, namespace: str, document: Document) -> None:
        """Settle name and namespace, and drop what only the server may set."""
        metadata: dict[str, Any] = document.setdefault("metadata", {})
        if metadata.get("resourceVersion"):
            raise errors.ApiError(
                HTTPStatus.INTERNAL_SERVER_ERROR,
                "",
                "resourceVersion should not be set on objects to be created",
            )
        for field in SYSTEM_FIELDS:
            if field not in {"name", "namespace"}:
                metadata.pop(field, None)
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise errors.invalid(resource.group, resource.kind, "", [_NAMELESS])
            metadata["name"] = metadata["generateName"] + random_suffix()
        if metadata.get("namespace", namespace) != namespace:
            raise errors.bad_request(
                "the namespace of the provided object does not match the namespace sent on the "
                "request"
            )
        if resource.namespaced:
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)

    def _need_namespace(self, namespace: str, resource: Resource, name: str) -> None:
        if not resource.namespaced:
            return
        found = self.store.find(NAMESPACES, "", namespace)
        if found is None:
            raise errors.not_found("", "namespaces", namespace)
        if found["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being "
            raise errors.forbidden(resource.group, resource.plural, name, why + "terminated")

    def _compare_versions(self, resource: Resource, new: Document, old: Document) -> None:
        sent, stored = new["metadata"], old["metadata"]
        if sent.get("uid", stored["uid"]) != stored["uid"]:
            why = (
                f"Precondition failed: UID in precondition: {sent['uid']}, "
                f"UID in object meta: {stored['uid']}"
            )
            raise errors.conflict(resource.group, resource.plural, stored["name"], why)
        version = sent.get("resourceVersion")
        if version and version != stored["resourceVersion"]:
            raise errors.conflict(resource.group, resource.plural, stored["name"], _MODIFIED)

    def _combine(
        self, resource: Resource, new: Document, old: Document, subresource: str
    ) -> Document:
        """Keep the parts that this endpoint may not write."""
        if subresource == "status":
            combined = {key: value for key, value in old.items() if key != "status"}
            combined["metadata"] = {**old["metadata"]}
            managed = new["metadata"].get("managedFields")
            if managed is not None:
                combined["metadata"]["managedFields"] = managed
            if new.get("status") is not None:
                combined["status"] = new["status"]
            return combined
        if resource.has_status:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        keep_system_fields(new, old)
        return new

    def _fill(self, resource: Resource, document: Document) -> None:
        document["apiVersion"], document["kind"] = resource.api_version, resource.kind
        if resource.custom:
            apply_defaults(resource.schema, document)
        else:
            resource.fill(document)

    def _check(self, resource: Resource, new: Document, old: Document | None) -> None:
        faults = list(resource.check(new, old))
        if resource.custom:
            faults += validate(resource.schema, new, old)
        faults += check_metadata(new, old)
        if faults:
            raise errors.invalid(resource.group, resource.kind, new["metadata"]["name"], faults)

    @staticmethod
    def _is_released(document: Document) -> bool:
        """Tell whether an object only waited for its last finalizer to go."""
        metadata = document["metadata"]
        return (
            "deletionTimestamp" in metadata
            and not metadata.get("finalizers")
            and not metadata.get("deletionGracePeriodSeconds")
            and document["kind"] != "Namespace"  # it has a finalizer in its spec
        )


def _desired(resource: Resource, document: Document) -> Document:
    """Return the part of an object that its generation counts."""
    left_out = {"metadata", "status"} if resource.has_status else {"metadata"}
    return {key: value for key, value in document.items() if key not in left_out}
