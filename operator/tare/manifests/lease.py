"""The Lease by which a run owns its target, for the eyes of other operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.manifests.metadata import Owner, child_metadata, run_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["build_lease", "holder_of"]


def build_lease(owner: Owner, name: str) -> dict[str, Any]:
    """Build the Lease `name` held by a run; it is deleted with the run."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": child_metadata(owner, name, run_labels(owner)),
        "spec": {"holderIdentity": owner.name},
    }


def holder_of(lease: Mapping[str, Any]) -> str:
    """Name of the run that holds a Lease."""
    return str((lease.get("spec") or {}).get("holderIdentity") or "somebody")
