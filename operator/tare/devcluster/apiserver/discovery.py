"""Discovery: which groups, versions and resources the server has.

https://kubernetes.io/docs/reference/using-api/api-concepts/#unaggregated-discovery . Clients that
ask for the aggregated form fall back to this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.devcluster.apiserver.errors import resource_not_found
from tare.devcluster.apiserver.registry import NAMESPACES, PODS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.resources import Resource

__all__ = ["VERSION", "group_list", "resource_list", "single_group"]

VERSION: Document = {
    "major": "1",
    "minor": "34",
    "gitVersion": "v1.34.4+devcluster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "python",
}


def group_list(resources: Iterable[Resource]) -> Document:
    """Answer `GET /apis`."""
    versions = dict.fromkeys(
        (resource.group, resource.version) for resource in resources if resource.group
    )
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(group, version) for group, version in versions],
    }


def single_group(resources: Iterable[Resource], group: str) -> Document:
    """Answer `GET /apis/{group}`; 404 for a group that is not there."""
    for resource in resources:
        if resource.group == group:
            return {
                "kind": "APIGroup",
                "apiVersion": "v1",
                **_group(group, resource.version),
            }
    raise resource_not_found()


def _group(group: str, version: str) -> Document:
    entry = {"groupVersion": f"{group}/{version}", "version": version}
    return {"name": group, "versions": [entry], "preferredVersion": entry}


def resource_list(resources: Iterable[Resource], group: str, version: str) -> Document:
    """Answer `GET /api/v1` or `GET /apis/{group}/{version}`; 404 when nothing is there."""
    found = [
        entry
        for resource in resources
        if (resource.group, resource.version) == (group, version)
        for entry in _entries(resource)
    ]
    if not found:
        raise resource_not_found()
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": found,
    }


def _entries(resource: Resource) -> Iterator[Document]:
    verbs = list(resource.verbs)
    if resource.key == NAMESPACES:
        verbs.remove("deletecollection")
    entry: Document = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    yield entry
    if resource.has_status:
        yield _subresource(resource, "status", ["get", "patch", "update"])
    if resource.key == PODS:
        yield _subresource(resource, "log", ["get"])
        yield {
            **_subresource(resource, "eviction", ["create"]),
            "group": "policy",
            "version": "v1",
            "kind": "Eviction",
        }


def _subresource(resource: Resource, name: str, verbs: list[str]) -> Document:
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs,
    }
