"""The port to the Kubernetes API: what the rest of Tare asks of it, in plain JSON documents.

`kube.client` implements it with the official client. Documents are dicts as the API server sends
them, so that nothing outside this package knows the client's models.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "CONFIG_MAP",
    "ENDPOINT_SLICE",
    "EVENT",
    "JOB",
    "LEASE",
    "POD",
    "RUN",
    "SECRET",
    "SERVICE",
    "Cluster",
    "Document",
    "Kind",
]

Document = dict[str, Any]
"""A Kubernetes object as JSON."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A resource type by its group, version and plural."""

    group: str
    version: str
    plural: str


RUN = Kind("tare.dev", "v1alpha1", "benchmarkruns")
JOB = Kind("batch", "v1", "jobs")
POD = Kind("", "v1", "pods")
SERVICE = Kind("", "v1", "services")
CONFIG_MAP = Kind("", "v1", "configmaps")
SECRET = Kind("", "v1", "secrets")
EVENT = Kind("", "v1", "events")
ENDPOINT_SLICE = Kind("discovery.k8s.io", "v1", "endpointslices")
LEASE = Kind("coordination.k8s.io", "v1", "leases")


class Cluster(Protocol):
    """CRUD on namespaced objects; every method raises the errors of `kube.errors`."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Document:
        """Read one object; `NotFound` when it is not there."""
        ...

    async def list(
        self, kind: Kind, namespace: str, *, labels: Mapping[str, str] | None = None
    ) -> list[Document]:
        """List objects whose labels equal `labels`, from the server, not from a cache.

        An empty namespace means all of them.
        """
        ...

    async def create(self, kind: Kind, namespace: str, body: Document) -> Document:
        """Create an object; `AlreadyExists` when the name is taken."""
        ...

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Document,
        *,
        subresource: str | None = None,
    ) -> Document:
        """Merge-patch an object; a resourceVersion in `body` makes it fail with `Conflict`."""
        ...

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        foreground: bool = False,
    ) -> None:
        """Delete an object and its dependents; one that is gone, or has another `uid`, is done."""
        ...
