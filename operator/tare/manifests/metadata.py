"""Labels and owner references that every child of a run carries.

The owner reference lets the API server delete the children with the run; the UID label lets the
operator select them, since names of runs may repeat over time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tare.api import names

if TYPE_CHECKING:
    from tare.decide.children import TrialKey

__all__ = ["Owner", "child_metadata", "owner_reference", "run_labels", "trial_labels"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The run that owns a child."""

    name: str
    namespace: str
    uid: str


def owner_reference(owner: Owner) -> dict[str, Any]:
    """Reference that makes the run the controller of a child."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def run_labels(owner: Owner) -> dict[str, str]:
    """Labels of every child."""
    return {
        names.LABEL_MANAGED_BY: names.MANAGED_BY,
        names.LABEL_RUN: names.label_value(owner.name),
        names.LABEL_RUN_UID: owner.uid,
    }


def trial_labels(owner: Owner, key: TrialKey) -> dict[str, str]:
    """Labels of what belongs to one attempt."""
    return {
        **run_labels(owner),
        names.LABEL_CELL: str(key.cell),
        names.LABEL_TRIAL: str(key.trial),
        names.LABEL_ATTEMPT: str(key.attempt),
    }


def child_metadata(owner: Owner, name: str, labels: dict[str, str]) -> dict[str, Any]:
    """Metadata of a child."""
    return {
        "name": name,
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": [owner_reference(owner)],
    }
