"""Deleting objects: preconditions, grace periods, finalizers and propagation policies.

https://kubernetes.io/docs/concepts/architecture/garbage-collection/ . What a DELETE does not
remove at once gets a deletionTimestamp; the garbage collector, the kubelet and whoever set a
finalizer do the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from tare.devcluster.apiserver import errors
from tare.devcluster.apiserver.documents import Document, copy_of, format_time
from tare.devcluster.apiserver.registry import Registry, Written
from tare.devcluster.apiserver.resources import Propagation, Resource

__all__ = ["FOREGROUND_FINALIZER", "ORPHAN_FINALIZER", "DeleteOptions", "delete"]

FOREGROUND_FINALIZER: Final = "foregroundDeletion"
ORPHAN_FINALIZER: Final = "orphan"
_FINALIZER_OF = {
    Propagation.FOREGROUND: FOREGROUND_FINALIZER,
    Propagation.ORPHAN: ORPHAN_FINALIZER,
}
_FINISHED = {"Succeeded", "Failed"}
_DEFAULT_GRACE = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """What a client may say with a DELETE."""

    uid: str = ""
    resource_version: str = ""
    propagation: Propagation | None = None
    grace_seconds: int | None = None
    dry_run: bool = False


def delete(
    registry: Registry,
    resource: Resource,
    namespace: str,
    name: str,
    options: DeleteOptions | None = None,
) -> Written:
    """Delete an object, or mark it as being deleted when something must happen first."""
    options = options or DeleteOptions()
    old = registry.get(resource, namespace, name)
    _check_preconditions(resource, old, options)
    new = copy_of(old)
    metadata = new["metadata"]
    grace = _grace(new, options)
    finalizers = _finalizers(resource, old, options)
    if not finalizers and not grace and resource.kind != "Namespace":
        return Written(old if options.dry_run else registry.store.remove(resource.key, old), True)
    if finalizers:
        metadata["finalizers"] = finalizers
    if "deletionTimestamp" not in metadata:
        if "generation" in metadata:
            metadata["generation"] += 1
        _mark(registry, metadata, grace)
    elif grace < metadata.get("deletionGracePeriodSeconds", 0):
        _mark(registry, metadata, grace)
    if resource.kind == "Namespace":
        new["status"] = {**new.get("status", {}), "phase": "Terminating"}
    if new == old or options.dry_run:
        return Written(new)
    return Written(registry.store.put(resource.key, new))


def _check_preconditions(resource: Resource, old: Document, options: DeleteOptions) -> None:
    stored = old["metadata"]
    for field, wanted, actual, happened in (
        ("UID", options.uid, stored["uid"], "deleted and then recreated"),
        ("ResourceVersion", options.resource_version, stored["resourceVersion"], "modified"),
    ):
        if wanted and wanted != actual:
            why = (
                f"the {field} in the precondition ({wanted}) does not match the {field} in record "
                f"({actual}). The object might have been {happened}"
            )
            raise errors.conflict(resource.group, resource.kind, stored["name"], why)


def _grace(document: Document, options: DeleteOptions) -> int:
    """Return the seconds a pod may take; nothing else is given any."""
    if document["kind"] != "Pod":
        return 0
    running = document["status"].get("phase") not in _FINISHED
    if not document["spec"].get("nodeName") or not running:
        return 0
    if options.grace_seconds is not None:
        return options.grace_seconds
    grace: int = document["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
    return grace


def _finalizers(resource: Resource, old: Document, options: DeleteOptions) -> list[str]:
    """Return the finalizers the object waits for, those of the propagation policy among them."""
    names: list[str] = list(old["metadata"].get("finalizers") or ())
    policy = options.propagation
    if policy is None and not set(names) & set(_FINALIZER_OF.values()):
        policy = resource.default_propagation
    if policy is None:
        return names
    kept = [name for name in names if name not in _FINALIZER_OF.values()]
    added = _FINALIZER_OF.get(policy)
    return [*kept, added] if added else kept


def _mark(registry: Registry, metadata: Document, grace: int) -> None:
    moment = registry.clock() + timedelta(seconds=grace)
    metadata["deletionTimestamp"] = format_time(moment)
    metadata["deletionGracePeriodSeconds"] = grace
