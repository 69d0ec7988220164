"""The CustomResourceDefinition, generated from the models.

`crds/benchmarkruns.tare.dev.yaml` is this document; a test holds the two against each other. Rules
that need both `spec` and `status`, or the old object, stand here; all others stand in the models.
"""

from __future__ import annotations

from typing import Any

from tare.api import names
from tare.api.schema import Schema, spec_schema, structural
from tare.api.status import BenchmarkRunStatus

__all__ = ["THAWED", "build_crd"]

THAWED = ("suspend", "cancel", "ttlSecondsAfterFinished", "activeDeadlineSeconds")
"""Fields of the spec that may change after the start."""


def build_crd() -> dict[str, Any]:
    """Build the CRD as a plain document."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names.PLURAL}.{names.GROUP}"},
        "spec": {
            "group": names.GROUP,
            "names": {
                "kind": names.KIND,
                "listKind": f"{names.KIND}List",
                "plural": names.PLURAL,
                "singular": names.SINGULAR,
                "shortNames": [names.SHORT_NAME],
                "categories": ["tare"],
            },
            "scope": "Namespaced",
            "versions": [_version()],
        },
    }


def _version() -> dict[str, Any]:
    return {
        "name": names.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": _columns(),
        "schema": {"openAPIV3Schema": _root()},
    }


def _root() -> Schema:
    spec = spec_schema()
    frozen = [name for name in spec["properties"] if name not in THAWED]
    return {
        "description": "A benchmark of an LLM inference service: cells, their trials, a verdict.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": structural(BenchmarkRunStatus, mode="serialization"),
        },
        "x-kubernetes-validations": [_freeze(name) for name in frozen],
    }


def _freeze(field: str) -> dict[str, str]:
    """Write the rule that a field stays as it is, and stays there, once the run has started.

    It stands at the root, since only there a rule sees both the spec and `status.startTime`, and it
    compares whole values, so that it also sees changes inside free-form fields.
    """
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    return {
        "rule": "!has(oldSelf.status) || !has(oldSelf.status.startTime) || "
        f"(has({new}) == has({old}) && (!has({new}) || {new} == {old}))",
        "message": f"spec.{field} is frozen since the run has started; only {', '.join(THAWED)} "
        "may change; create a new run",
        "fieldPath": f".spec.{field}",
    }


def _columns() -> list[dict[str, Any]]:
    def column(name: str, path: str, kind: str = "string", *, wide: bool = False) -> dict[str, Any]:
        entry: dict[str, Any] = {"name": name, "type": kind, "jsonPath": path}
        return entry | {"priority": 1} if wide else entry

    return [
        column("Phase", ".status.phase"),
        column("Cells", ".status.progress.cells"),
        column("Model", ".spec.endpoint.model"),
        column("Best", ".status.summary.bestCell"),
        column("Goals", ".status.summary.goals"),
        column("Reason", ".status.reason", wide=True),
        column("Started", ".status.startTime", "date", wide=True),
        column("Target", ".status.target.address", wide=True),
        column("Age", ".metadata.creationTimestamp", "date"),
    ]
