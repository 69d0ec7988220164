"""Cuts the schemas of the devcluster's built-in kinds out of a Kubernetes' OpenAPI documents.

The cut is committed as `tare/devcluster/apiserver/kubernetes-v1.34.json`, one definition a line
and without descriptions. `tests/conformance` compares it with a real server; to renew it run
`python tests/support/kubernetes_schemas.py` with `KUBECONFIG` pointing at a cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["KINDS", "cut", "render"]

KINDS = {
    "api/v1": ["Namespace", "Pod", "Service", "ConfigMap", "Secret", "Event", "ServiceAccount"],
    "apis/batch/v1": ["Job"],
    "apis/discovery.k8s.io/v1": ["EndpointSlice"],
    "apis/coordination.k8s.io/v1": ["Lease"],
    "apis/apiextensions.k8s.io/v1": ["CustomResourceDefinition"],
    "apis/authorization.k8s.io/v1": ["SelfSubjectAccessReview"],
}
"""Path of an OpenAPI v3 document -> the kinds taken from it."""


def cut(documents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the definitions of `KINDS` and all they refer to, by name."""
    found: dict[str, Any] = {}
    for path, kinds in KINDS.items():
        schemas = documents[path]["components"]["schemas"]
        waiting = [
            name
            for name, schema in schemas.items()
            if "x-kubernetes-group-version-kind" in schema and name.rpartition(".")[2] in kinds
        ]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found[name] = _undocumented(schemas[name])
                waiting += _references(schemas[name])
    return dict(sorted(found.items()))


def render(schemas: Mapping[str, Any]) -> str:
    """Write one definition a line, so that a new Kubernetes version gives a readable diff."""
    lines = [f'"{name}":{_compact(schema)}' for name, schema in schemas.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)


def _undocumented(value: Any, *, names: bool = False) -> Any:
    """Drop descriptions; `names` says that the keys are field names, not keywords."""
    if isinstance(value, dict):
        return {
            key: _undocumented(item, names=not names and key == "properties")
            for key, item in value.items()
            if names or key != "description"
        }
    if isinstance(value, list):
        return [_undocumented(item) for item in value]
    return value


def main() -> None:
    """Print the cut of the cluster that kubectl talks to."""
    documents = {
        path: json.loads(
            subprocess.check_output(["kubectl", "get", "--raw", f"/openapi/v3/{path}"])
        )
        for path in KINDS
    }
    sys.stdout.write(render(cut(documents)))


if __name__ == "__main__":
    main()
