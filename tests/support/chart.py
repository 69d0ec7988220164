"""The chart as Helm renders it."""

from __future__ import annotations

import copy
import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from support.tools import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from subprocess import CompletedProcess

__all__ = ["CHART", "KUBERNETES", "NAMESPACE", "containers", "helm", "one", "pods", "render"]

Document = dict[str, Any]

CHART = Path(__file__).parents[2] / "charts" / "tare"
KUBERNETES = "1.34.0"
NAMESPACE = "tare-system"
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The CRD takes the loader in Python most of a second."""


def helm(
    command: str, *arguments: str, values: Mapping[str, Any] | None = None
) -> CompletedProcess[str]:
    """Run `helm COMMAND … -f values` without any cluster."""
    return run(
        "helm",
        command,
        *arguments,
        str(CHART),
        "--kube-version",
        KUBERNETES,
        "--namespace",
        NAMESPACE,
        "--values",
        "-",
        stdin=json.dumps(values or {}),
    )


def render(values: Mapping[str, Any] | None = None, release: str = "tare") -> list[Document]:
    """All objects that `helm install` would create, hooks and tests among them."""
    return copy.deepcopy(_rendered(json.dumps(values or {}), release))


@functools.cache
def _rendered(values: str, release: str) -> list[Document]:
    done = helm("template", release, values=json.loads(values))
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.load_all(done.stdout, _LOADER) if document]


def one(documents: Sequence[Document], kind: str, name: str | None = None) -> Document:
    """The only object of a kind, or the one of that name."""
    found = [
        document
        for document in documents
        if document["kind"] == kind and name in (None, document["metadata"]["name"])
    ]
    assert len(found) == 1, f"{len(found)} of {kind} {name}"
    return found[0]


def pods(documents: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Name of the object and pod spec, for everything that becomes a pod."""
    for document in documents:
        name = f"{document['kind']}/{document['metadata']['name']}"
        match document["kind"]:
            case "Pod":
                yield name, document["spec"]
            case "Deployment" | "Job":
                yield name, document["spec"]["template"]["spec"]
            case _:
                pass


def containers(documents: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Name of the object and container, for every container of every pod."""
    for name, spec in pods(documents):
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            yield name, container
