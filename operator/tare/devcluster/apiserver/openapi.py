"""OpenAPI v3 documents: what kubectl reads for `explain`, `apply` and field validation.

One document per group and version. Paths are reduced to what clients look up in them: which kind
a path serves and which query parameters its PATCH takes. There is no v2 document: kubectl asks
for it only where v3 is missing, and then in a binary form.
https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.devcluster.apiserver.builtin import definitions
from tare.devcluster.apiserver.errors import resource_not_found

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.resources import Resource

__all__ = ["document", "index"]

_PREFIX = "#/components/schemas/"
_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_PATCH_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_TYPE_META = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}}


def index(resources: Iterable[Resource], revision: int) -> Document:
    """Answer `GET /openapi/v3`; the hash changes with the definitions, as clients cache by it."""
    paths = dict.fromkeys(_path(resource.group, resource.version) for resource in resources)
    return {
        "paths": {
            path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={revision}"} for path in paths
        }
    }


def document(resources: Iterable[Resource], path: str) -> Document:
    """Answer `GET /openapi/v3/{path}`; 404 when nothing is there."""
    served = [resource for resource in resources if _path(resource.group, resource.version) == path]
    if not served:
        raise resource_not_found()
    schemas: Document = {}
    for resource in served:
        _add_schema(schemas, resource)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.34.4"},
        "paths": {url: item for resource in served for url, item in _paths(resource)},
        "components": {"schemas": schemas},
    }


def _path(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _add_schema(schemas: Document, resource: Resource) -> None:
    if resource.openapi is None:
        _add_definition(schemas, resource.schema_name)
        return
    properties = {
        **_TYPE_META,
        **(resource.openapi.get("properties") or {}),
        "metadata": {"allOf": [{"$ref": _PREFIX + _META}]},
    }
    schemas[resource.schema_name] = {
        **resource.openapi,
        "properties": properties,
        "x-kubernetes-group-version-kind": [_kind(resource)],
    }
    _add_definition(schemas, _META)


def _add_definition(schemas: Document, name: str) -> None:
    if name in schemas:
        return
    schemas[name] = definitions().raw[name]
    for reference in _references(schemas[name]):
        _add_definition(schemas, reference)


def _references(value: Any) -> Iterator[str]:
    match value:
        case dict():
            if isinstance(reference := value.get("$ref"), str):
                yield reference.removeprefix(_PREFIX)
            for item in value.values():
                yield from _references(item)
        case list():
            for item in value:
                yield from _references(item)
        case _:
            pass


def _kind(resource: Resource) -> Document:
    return {"group": resource.group, "kind": resource.kind, "version": resource.version}


def _paths(resource: Resource) -> Iterator[tuple[str, Document]]:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    url = f"/{_path(resource.group, resource.version)}{scope}/{resource.plural}"
    operation = {"x-kubernetes-group-version-kind": _kind(resource), "responses": {}}
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in _PATCH_PARAMETERS
    ]
    yield url, {"get": operation, "post": {**operation, "parameters": parameters}}
    if "patch" in resource.verbs:
        yield (
            url + "/{name}",
            {"get": operation, "patch": {**operation, "parameters": parameters}},
        )
