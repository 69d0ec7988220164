"""Writing a run's status: one merge patch a pass, only what changed, never over somebody else's.

Each patch carries the resourceVersion that was read. Kopf's own patches of the finalizer collide
with ours; then the object is read again, and the patch repeated as long as `status.operator` still
names this process. If it names another, that one drives the run now and this driver ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tare.kube.errors import Conflict, NotFound, TooLarge
from tare.kube.port import RUN, Cluster, Document

__all__ = ["StatusWriter", "SupersededError", "merge_patch"]

_MAX_TRIES = 8


class SupersededError(Exception):
    """Another operator process has taken the run over."""


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Build the JSON merge patch (RFC 7386) that turns `before` into `after`; lists go whole."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := merge_patch(old, value):
                patch[key] = inner
        elif value != old:
            patch[key] = value
    return patch


class StatusWriter:
    """Writes the status of one run."""

    def __init__(self, cluster: Cluster, operator_id: str) -> None:
        self._cluster = cluster
        self._operator_id = operator_id
        self._trims = False

    def fitting(self, status: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what will be stored of `status`: all of it, unless that was too large before."""
        return _trimmed(status) if self._trims else status

    async def write(self, document: Document, status: Mapping[str, Any]) -> Document:
        """Make the stored status equal `status`; returns the object as stored then.

        Raises:
            SupersededError: another operator's id is in the stored status.
            KubeError: as the port says; `NotFound` when the run is gone, `TooLarge` when it is even
                without the rows of its cells.
        """
        for _ in range(_MAX_TRIES):
            self._check_operator(document)
            try:
                return await self._patch(document, self.fitting(status))
            except Conflict:
                document = await self._read_again(document)
            except TooLarge:
                if self._trims:
                    raise
                self._trims = True
        raise Conflict("the status kept changing while it was written")

    async def take_over(self, document: Document) -> Document:
        """Write this process's id first, so that an earlier one notices."""
        for _ in range(_MAX_TRIES):
            status = {**(document.get("status") or {}), "operator": self._operator_id}
            try:
                return await self._patch(document, status)
            except Conflict:
                document = await self._read_again(document)
        raise Conflict("the status kept changing while the run was taken over")

    async def _patch(self, document: Document, status: Mapping[str, Any]) -> Document:
        patch = merge_patch(document.get("status") or {}, status)
        if not patch:
            return document
        metadata = document["metadata"]
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": patch,
        }
        return await self._cluster.patch(
            RUN, metadata["namespace"], metadata["name"], body, subresource="status"
        )

    async def _read_again(self, document: Document) -> Document:
        """Read the run; one of the same name that was created since is another run."""
        metadata = document["metadata"]
        found = await self._cluster.get(RUN, metadata["namespace"], metadata["name"])
        if found["metadata"]["uid"] != metadata["uid"]:
            raise NotFound(f"run {metadata['name']} was deleted and created again")
        return found

    def _check_operator(self, document: Document) -> None:
        """Stop where another operator has signed: its watch event may come before any conflict."""
        writer = (document.get("status") or {}).get("operator")
        if writer not in (None, self._operator_id):
            raise SupersededError


def _trimmed(status: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the rows of the cells: they lie in the results too, and the run must end."""
    return {key: value for key, value in status.items() if key != "cells"}
