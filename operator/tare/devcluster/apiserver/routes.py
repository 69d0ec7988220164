"""From a URL to what it names: a resource type, maybe a namespace, an object, a subresource."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tare.devcluster.apiserver.errors import not_implemented, resource_not_found
from tare.devcluster.apiserver.resources import Resource, ResourceKey

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["Target", "parse_target", "verb_of"]

_SUBRESOURCES = {"Pod": {"status", "log", "eviction"}, "Namespace": {"status", "finalize"}}
_VERBS = {
    ("GET", True): "get",
    ("GET", False): "list",
    ("POST", False): "create",
    ("POST", True): "create",
    ("PUT", True): "update",
    ("PATCH", True): "patch",
    ("DELETE", True): "delete",
    ("DELETE", False): "deletecollection",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a request is about; no name: the collection."""

    resource: Resource
    namespace: str | None
    """None: all namespaces, or a resource that has none."""
    name: str
    subresource: str

    @property
    def place(self) -> str:
        """Return the namespace as objects are keyed by it."""
        return self.namespace or ""


def parse_target(resources: Mapping[ResourceKey, Resource], parts: Sequence[str]) -> Target:
    """Read the parts of a path below `/api` or `/apis`.

    404 for what no server has, 501 for what the devcluster leaves out of Kubernetes.
    """
    match parts:
        case ["api", "v1", *rest]:
            group, version = "", "v1"
        case ["apis", group, version, *rest]:
            pass
        case _:
            raise resource_not_found()
    namespace: str | None = None
    match rest:
        case ["namespaces", namespace, plural, *rest] if plural not in _SUBRESOURCES["Namespace"]:
            pass
        case [plural, *rest]:
            pass
        case _:
            raise resource_not_found()
    resource = resources.get((group, plural))
    if resource is None or resource.version != version:
        if _is_kubernetes(group):
            raise not_implemented(f"{plural} of {group or 'core'}/{version}")
        raise resource_not_found()
    name, subresource = (*rest, "", "")[:2]
    _check_subresource(resource, subresource)
    return Target(resource=resource, namespace=namespace, name=name, subresource=subresource)


def _is_kubernetes(group: str) -> bool:
    return "." not in group or group.endswith(".k8s.io")


def _check_subresource(resource: Resource, subresource: str) -> None:
    if not subresource or (subresource == "status" and resource.has_status):
        return
    if subresource not in _SUBRESOURCES.get(resource.kind, set()):
        if resource.custom:
            raise resource_not_found()
        raise not_implemented(f"the subresource {resource.plural}/{subresource}")


def verb_of(method: str, target: Target, *, watch: bool) -> str:
    """Return the API verb of a request, empty when the method has none here."""
    if watch and method == "GET":
        return "watch"
    return _VERBS.get((method, bool(target.name)), "")
