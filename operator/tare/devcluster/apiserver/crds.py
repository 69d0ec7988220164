"""CustomResourceDefinitions: applied as objects, then served at once.

Only the storage version of a definition is served; conversion is out of scope. A definition that
is deleted takes its objects with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from tare.devcluster.apiserver.builtin import definitions
from tare.devcluster.apiserver.cel import CompileError
from tare.devcluster.apiserver.columns import builtin_columns
from tare.devcluster.apiserver.deletion import delete
from tare.devcluster.apiserver.documents import Document, format_time
from tare.devcluster.apiserver.errors import FieldError, FieldErrorType
from tare.devcluster.apiserver.resources import Resource
from tare.devcluster.apiserver.schema import compile_structural
from tare.devcluster.apiserver.store import Change, ChangeType
from tare.devcluster.apiserver.tables import custom_columns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.devcluster.apiserver.registry import Registry

__all__ = ["CRD_KEY", "Definer", "crd_resource"]

CRD_KEY: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
_CLEANUP: Final = "customresourcecleanup.apiextensions.k8s.io"
_SCHEMA: Final = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."


def crd_resource(registry: Registry) -> Resource:
    """Return the resource type of the definitions themselves."""
    name = f"{_SCHEMA}CustomResourceDefinition"
    return Resource(
        group=CRD_KEY[0],
        version="v1",
        plural=CRD_KEY[1],
        kind="CustomResourceDefinition",
        singular="customresourcedefinition",
        namespaced=False,
        short_names=("crd", "crds"),
        categories=("api-extensions",),
        has_status=True,
        has_generation=True,
        schema=definitions().schema(name),
        schema_name=name,
        columns=builtin_columns("CustomResourceDefinition", registry.clock),
        fill=_fill,
        create=lambda document: _establish(registry, document),
        check=_check,
    )


def _fill(document: Document) -> None:
    spec = document.setdefault("spec", {})
    spec.setdefault("conversion", {"strategy": "None"})
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")


def _establish(registry: Registry, document: Document) -> None:
    """Set the status that the real server's controllers reach within a moment."""
    document["metadata"]["finalizers"] = [_CLEANUP]
    now = format_time(registry.clock())
    established = ("Established", "InitialNamesAccepted", "the initial names have been accepted")
    accepted = ("NamesAccepted", "NoConflicts", "no conflicts found")
    document["status"] = {
        "acceptedNames": document["spec"]["names"],
        "storedVersions": [_storage_version(document).get("name", "")],
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
            for kind, reason, message in (accepted, established)
        ],
    }


def _storage_version(document: Document) -> Document:
    for version in document["spec"].get("versions") or ():
        if version.get("storage"):
            found: Document = version
            return found
    return {}


def _check(new: Document, old: Document | None) -> list[FieldError]:
    """Find names that do not fit, schemas that are not structural and rules that are not CEL."""
    if old is not None and new["spec"] == old["spec"]:
        return []
    spec = new["spec"]
    errors = []
    wanted = f"{spec['names'].get('plural', '')}.{spec.get('group', '')}"
    if new["metadata"]["name"] != wanted:
        detail = 'must be spec.names.plural+"."+spec.group'
        name = new["metadata"]["name"]
        errors.append(FieldError(FieldErrorType.INVALID, "metadata.name", detail, name))
    if not _storage_version(new):
        detail = "must have exactly one version marked as storage version"
        errors.append(FieldError(FieldErrorType.INVALID, "spec.versions", detail, []))
    for index, version in enumerate(spec.get("versions") or ()):
        path = f"spec.versions[{index}].schema.openAPIV3Schema"
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if schema is None:
            detail = "schemas are required"
            errors.append(FieldError(FieldErrorType.REQUIRED, path, detail))
        else:
            errors += _check_schema(schema, path)
    return errors


def _check_schema(schema: Document, path: str) -> Iterator[FieldError]:
    yield from _untyped(schema, path)
    try:
        compile_structural(schema)
    except CompileError as error:
        yield FieldError(FieldErrorType.INVALID, path, str(error), "")
    except re.error as error:
        detail = f"must be a valid regular expression, but isn't: {error}"
        yield FieldError(FieldErrorType.INVALID, path, detail, "")


def _untyped(schema: Document, path: str) -> Iterator[FieldError]:
    """Find nodes without a type: a schema is structural only when every node has one."""
    free = "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"
    if not schema.get("type") and not any(schema.get(key) for key in free):
        detail = "must not be empty for specified object fields"
        yield FieldError(FieldErrorType.REQUIRED, f"{path}.type", detail)
    for key, child in (schema.get("properties") or {}).items():
        yield from _untyped(child, f"{path}.properties[{key}]")
    for key in ("items", "additionalProperties"):
        below: Any = schema.get(key)
        if isinstance(below, dict):
            yield from _untyped(below, f"{path}.{key}")


class Definer:
    """Keeps the registry's custom resource types equal to the stored definitions."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        registry.store.listen(self._on_definition, CRD_KEY)

    def _on_definition(self, change: Change) -> None:
        document = change.document
        resource = self._resource(document)
        if change.type is ChangeType.DELETED:
            self._registry.resources.pop(resource.key, None)
            self._registry.store.unlisten(self._on_object, resource.key)
            return
        if resource.key not in self._registry.resources:
            self._registry.store.listen(self._on_object, resource.key)
        self._registry.resources[resource.key] = resource
        if document["metadata"].get("deletionTimestamp"):
            self._delete_all(resource)
            self._finish(resource)

    def _on_object(self, change: Change) -> None:
        """Let a dying definition go with its last object."""
        if change.type is ChangeType.DELETED:
            self._finish(self._registry.resources[change.resource])

    def _delete_all(self, resource: Resource) -> None:
        for document in self._registry.store.all(resource.key):
            metadata = document["metadata"]
            if "deletionTimestamp" not in metadata:
                delete(self._registry, resource, metadata.get("namespace", ""), metadata["name"])

    def _finish(self, resource: Resource) -> None:
        name = f"{resource.plural}.{resource.group}"
        definition = self._registry.store.find(CRD_KEY, "", name)
        if (
            definition is not None
            and definition["metadata"].get("deletionTimestamp")
            and not self._registry.store.all(resource.key)
        ):
            self._registry.remove(self._registry.resources[CRD_KEY], definition)

    def _resource(self, document: Document) -> Resource:
        spec, version = document["spec"], _storage_version(document)
        names = spec["names"]
        raw = version["schema"]["openAPIV3Schema"]
        reversed_group = ".".join(reversed(spec["group"].split(".")))
        return Resource(
            group=spec["group"],
            version=version["name"],
            plural=names["plural"],
            kind=names["kind"],
            singular=names["singular"],
            namespaced=spec["scope"] == "Namespaced",
            short_names=names.get("shortNames") or (),
            categories=names.get("categories") or (),
            has_status="status" in (version.get("subresources") or {}),
            has_generation=True,
            custom=True,
            schema=compile_structural(raw),
            schema_name=f"{reversed_group}.{version['name']}.{names['kind']}",
            openapi=raw,
            columns=custom_columns(
                version.get("additionalPrinterColumns") or (), self._registry.clock
            ),
        )
