"""Jobs: defaults, generated labels and selector, fields that are fixed after creation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.devcluster.apiserver.errors import FieldError, FieldErrorType
from tare.devcluster.apiserver.kinds.pods import check_pod_spec, fill_pod_spec

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document

__all__ = ["CONTROLLER_UID", "JOB_NAME", "check_job", "create_job", "fill_job"]

CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
_NO_LIMIT = 2**31 - 1
_LEFT_OUT = ("managedBy", "podFailurePolicy", "successPolicy")
_FIXED = ("completions", "selector", "template", "completionMode", "backoffLimitPerIndex")


def fill_job(document: Document) -> None:
    """Set the defaults of a Job."""
    spec = document.setdefault("spec", {})
    if "completions" not in spec and "parallelism" not in spec:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", _NO_LIMIT if "backoffLimitPerIndex" in spec else 6)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    replacement = "Failed" if "podFailurePolicy" in spec else "TerminatingOrFailed"
    spec.setdefault("podReplacementPolicy", replacement)
    template = spec.setdefault("template", {})
    _require_restart_policy(template.setdefault("spec", {}))


def _require_restart_policy(spec: Document) -> None:
    """Fill the template, but leave the default policy out: a Job must name another one."""
    stated = "restartPolicy" in spec
    fill_pod_spec(spec)
    if not stated:
        del spec["restartPolicy"]


def create_job(document: Document) -> None:
    """Generate the labels by which a Job finds its pods."""
    metadata = document["metadata"]
    labels = {
        CONTROLLER_UID: metadata["uid"],
        JOB_NAME: metadata["name"],
        "controller-uid": metadata["uid"],
        "job-name": metadata["name"],
    }
    template = document["spec"]["template"].setdefault("metadata", {})
    template["labels"] = {**(template.get("labels") or {}), **labels}
    if not metadata.get("labels"):
        metadata["labels"] = dict(template["labels"])
    document["spec"]["selector"] = {"matchLabels": {CONTROLLER_UID: metadata["uid"]}}
    document["status"] = {}


def check_job(new: Document, old: Document | None) -> list[FieldError]:
    """Find what a Job lacks, or what an update may not change."""
    spec = new["spec"]
    if old is not None:
        return [
            FieldError(FieldErrorType.INVALID, f"spec.{field}", "field is immutable", value)
            for field in _FIXED
            if (value := spec.get(field)) != old["spec"].get(field)
        ]
    errors = list(check_pod_spec(spec["template"]["spec"], "spec.template.spec"))
    errors += [
        FieldError(FieldErrorType.FORBIDDEN, f"spec.{field}", "the devcluster does not do that")
        for field in _LEFT_OUT
        if field in spec
    ]
    indexed = spec["completionMode"] == "Indexed"
    if indexed and "completions" not in spec:
        detail = "when completion mode is Indexed"
        errors.append(FieldError(FieldErrorType.REQUIRED, "spec.completions", detail))
    if "backoffLimitPerIndex" in spec and not indexed:
        detail = "requires indexed completion mode"
        value = spec["backoffLimitPerIndex"]
        errors.append(
            FieldError(FieldErrorType.INVALID, "spec.backoffLimitPerIndex", detail, value)
        )
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy not in {"Never", "OnFailure"}:
        kind = FieldErrorType.NOT_SUPPORTED if policy else FieldErrorType.REQUIRED
        words = "supported values" if policy else "valid values"
        detail = f'{words}: "OnFailure", "Never"'
        errors.append(FieldError(kind, "spec.template.spec.restartPolicy", detail, policy))
    return errors
