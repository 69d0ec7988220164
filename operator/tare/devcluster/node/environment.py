"""The environment of a container: its variables, where their values come from, and `$(NAME)`.

https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/
"""

from __future__ import annotations

import base64
import re
from typing import TYPE_CHECKING, Final

from tare.devcluster.apiserver.documents import Document, path_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.devcluster.apiserver.registry import Registry

__all__ = ["ConfigError", "container_environment", "expand"]

_SECRETS: Final = ("", "secrets")
_CONFIG_MAPS: Final = ("", "configmaps")
_REFERENCE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][\w.-]*)\)")
_MAP_FIELD: Final = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")
_FIELDS: Final = frozenset(
    {
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.serviceAccountName",
        "status.hostIP",
        "status.podIP",
    }
)


class ConfigError(Exception):
    """A variable's source is missing: the container waits with `CreateContainerConfigError`."""


def container_environment(registry: Registry, pod: Document, container: Document) -> dict[str, str]:
    """Work out all variables of a container, in order, as later ones may name earlier ones."""
    variables: dict[str, str] = {}
    namespace = pod["metadata"]["namespace"]
    for source in container.get("envFrom") or ():
        prefix = source.get("prefix", "")
        for key, value in _whole_source(registry, namespace, source).items():
            variables[prefix + key] = value
    for entry in container.get("env") or ():
        if "valueFrom" not in entry:
            variables[entry["name"]] = expand(entry.get("value", ""), variables)
        elif (found := _value_from(registry, pod, entry["valueFrom"])) is not None:
            variables[entry["name"]] = found
    return variables


def expand(text: str, variables: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; an unknown name stays as it is, `$$` is a dollar."""

    def replacement(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        return variables.get(found.group(1), found.group())

    return _REFERENCE.sub(replacement, text)


def _value_from(registry: Registry, pod: Document, source: Document) -> str | None:
    namespace = pod["metadata"]["namespace"]
    match source:
        case {"secretKeyRef": reference}:
            return _key(reference, _secret(registry, namespace, reference), "secret")
        case {"configMapKeyRef": reference}:
            return _key(reference, _config_map(registry, namespace, reference), "configmap")
        case {"fieldRef": {"fieldPath": path}}:
            return _field(pod, path)
        case _:
            kind = ", ".join(source)
            raise ConfigError(f"the devcluster does not implement valueFrom with {kind}")


def _whole_source(registry: Registry, namespace: str, source: Document) -> Mapping[str, str]:
    if "secretRef" in source:
        return _secret(registry, namespace, source["secretRef"]) or {}
    return _config_map(registry, namespace, source["configMapRef"]) or {}


def _secret(registry: Registry, namespace: str, reference: Document) -> Mapping[str, str] | None:
    document = registry.store.find(_SECRETS, namespace, reference["name"])
    if document is None:
        _require_optional(reference, "secret")
        return None
    data = document.get("data") or {}
    return {key: _bytes_as_text(value) for key, value in data.items()}


def _bytes_as_text(value: str) -> str:
    """Decode so that `subprocess` gives the process the very bytes again."""
    return base64.b64decode(value).decode(errors="surrogateescape")


def _config_map(
    registry: Registry, namespace: str, reference: Document
) -> Mapping[str, str] | None:
    document = registry.store.find(_CONFIG_MAPS, namespace, reference["name"])
    if document is None:
        _require_optional(reference, "configmap")
        return None
    return document.get("data") or {}


def _require_optional(reference: Document, kind: str) -> None:
    if not reference.get("optional"):
        raise ConfigError(f'{kind} "{reference["name"]}" not found')


def _key(reference: Document, data: Mapping[str, str] | None, kind: str) -> str | None:
    if data is not None and reference["key"] in data:
        return data[reference["key"]]
    if reference.get("optional"):
        return None
    raise ConfigError(f"couldn't find key {reference['key']} in {kind} {reference['name']}")


def _field(pod: Document, path: str) -> str:
    if found := _MAP_FIELD.fullmatch(path):
        values = pod["metadata"].get(found.group(1)) or {}
        return str(values.get(found.group(2), ""))
    if path not in _FIELDS:
        raise ConfigError(f"fieldRef {path} is not one of {', '.join(sorted(_FIELDS))}")
    return str(path_of(pod, path) or "")
