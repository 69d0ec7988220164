"""The Kubernetes API's border, in memory: create, read, list by labels, merge-patch and delete.

For tests of what is written and in which order. How the real API server behaves is the subject of
the conformance tests on the embedded cluster.
"""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING

from tare.kube.errors import AlreadyExists, KubeError, NotFound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.kube.port import Document, Kind

__all__ = ["MemoryCluster"]


class MemoryCluster:
    """Implements `kube.port.Cluster`; `calls` lists the writes, `failures` are raised by them."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.failures: list[KubeError | None] = []
        """One for each coming write; None lets it through."""
        self._objects: dict[tuple[Kind, str, str], Document] = {}
        self._uids = itertools.count()

    async def get(self, kind: Kind, namespace: str, name: str) -> Document:
        try:
            return copy.deepcopy(self._objects[kind, namespace, name])
        except KeyError:
            raise NotFound(f"{kind.plural} {name!r} not found") from None

    async def list(
        self, kind: Kind, namespace: str, *, labels: Mapping[str, str] | None = None
    ) -> list[Document]:
        wanted = (labels or {}).items()
        return [
            copy.deepcopy(document)
            for (one, space, _), document in self._objects.items()
            if (one, space) == (kind, namespace)
            and wanted <= (document["metadata"].get("labels") or {}).items()
        ]

    async def create(self, kind: Kind, namespace: str, body: Document) -> Document:
        name = body["metadata"]["name"]
        self._write("create", name)
        if (kind, namespace, name) in self._objects:
            raise AlreadyExists(f"{kind.plural} {name!r} already exists")
        stored = copy.deepcopy(body)
        stored["metadata"]["uid"] = f"uid-{next(self._uids)}"
        self._objects[kind, namespace, name] = stored
        return copy.deepcopy(stored)

    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Document,
        *,
        subresource: str | None = None,
    ) -> Document:
        del subresource
        self._write("patch", name)
        await self.get(kind, namespace, name)
        self._objects[kind, namespace, name].update(copy.deepcopy(body))
        return await self.get(kind, namespace, name)

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        foreground: bool = False,
    ) -> None:
        del foreground
        self._write("delete", name)
        stored = self._objects.get((kind, namespace, name))
        if stored is not None and uid in (None, stored["metadata"]["uid"]):
            del self._objects[kind, namespace, name]

    def _write(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
