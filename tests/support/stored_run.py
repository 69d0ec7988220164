"""One BenchmarkRun as the API server keeps it: merge patches, versions, the status subresource.

The border of what writes status. `between` is what somebody else does before a write arrives.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from support.memory_cluster import MemoryCluster
from tare.kube.errors import Conflict, KubeError, NotFound
from tare.kube.port import RUN
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.kube.port import Document, Kind

__all__ = ["StoredRun", "apply_merge_patch"]


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """Apply a JSON merge patch as RFC 7386, section 2 writes it down."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = apply_merge_patch(result.get(name), value)
    return result


class StoredRun(MemoryCluster):
    """A cluster that holds one run; other objects are kept as `MemoryCluster` keeps them."""

    def __init__(self, document: Document) -> None:
        super().__init__()
        self.document = copy.deepcopy(document)
        self.patches: list[Document] = []
        """Bodies of the patches that arrived, the refused ones among them."""
        self.refusals: list[KubeError] = []
        """Raised one for each coming patch."""
        self.between: list[Callable[[Document], None]] = []
        """Changes by others, one before each coming patch."""

    @override
    async def get(self, kind: Kind, namespace: str, name: str) -> Document:
        if kind != RUN:
            return await super().get(kind, namespace, name)
        metadata = self.document["metadata"]
        if (namespace, name) != (metadata["namespace"], metadata["name"]):
            raise NotFound(f"{kind.plural} {name!r} not found")
        return copy.deepcopy(self.document)

    @override
    async def patch(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        body: Document,
        *,
        subresource: str | None = None,
    ) -> Document:
        if self.between:
            self.change(self.between.pop(0))
        await self.get(kind, namespace, name)
        self.patches.append(copy.deepcopy(body))
        if self.refusals:
            raise self.refusals.pop(0)
        version = (body.get("metadata") or {}).get("resourceVersion")
        if version not in (None, self.document["metadata"]["resourceVersion"]):
            raise Conflict("the object has been modified")
        self.change(lambda document: _merge(document, body, subresource))
        return await self.get(kind, namespace, name)

    def change(self, by: Callable[[Document], None]) -> None:
        """Change the stored object; its version grows with every change."""
        metadata = self.document["metadata"]
        by(self.document)
        metadata["resourceVersion"] = str(int(metadata["resourceVersion"]) + 1)


def _merge(document: Document, body: Document, subresource: str | None) -> None:
    """Merge what the endpoint may change: `/status` its part, the object all but that."""
    if subresource == "status":
        document["status"] = apply_merge_patch(document.get("status"), body.get("status", {}))
        return
    merged = apply_merge_patch(document, {k: v for k, v in body.items() if k != "status"})
    if merged["spec"] != document["spec"]:
        merged["metadata"]["generation"] += 1
    document.update(merged)
