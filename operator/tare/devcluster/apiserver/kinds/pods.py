"""Pods and pod templates: defaults, required fields, what an update may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.devcluster.apiserver.errors import FieldError, FieldErrorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.devcluster.apiserver.documents import Document

__all__ = ["check_pod", "check_pod_spec", "fill_pod", "fill_pod_spec"]

_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
    "additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set "
    "to 1 if it was previously negative)"
)


def fill_pod(document: Document) -> None:
    """Set the defaults of a pod."""
    spec = document.setdefault("spec", {})
    fill_pod_spec(spec)
    # What follows is not part of a template's defaults.
    spec.setdefault("enableServiceLinks", True)
    spec.setdefault("serviceAccountName", "default")
    spec.setdefault("serviceAccount", spec["serviceAccountName"])
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")
    spec.setdefault("priority", 0)
    status = document.setdefault("status", {})
    status.setdefault("phase", "Pending")
    status.setdefault("qosClass", _quality(spec))


def fill_pod_spec(spec: Document) -> None:
    """Set the defaults of a pod's or a template's spec."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        _fill_container(container)


def _fill_container(container: Document) -> None:
    image = container.get("image", "")
    tag = image.rpartition("/")[2].partition(":")[2]
    container.setdefault("imagePullPolicy", "Always" if tag in {"", "latest"} else "IfNotPresent")
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    resources = container.setdefault("resources", {})
    if resources.get("limits"):
        resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        reference = (variable.get("valueFrom") or {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for name in _PROBES:
        if name in container:
            _fill_probe(container[name])


def _fill_probe(probe: Document) -> None:
    for field, value in _PROBE_DEFAULTS.items():
        probe.setdefault(field, value)
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _quality(spec: Document) -> str:
    """Return the quality-of-service class: Guaranteed, Burstable or BestEffort."""
    resources = [container.get("resources") or {} for container in spec.get("containers") or ()]
    if not any(part.get("requests") or part.get("limits") for part in resources):
        return "BestEffort"
    for part in resources:
        limits = part.get("limits") or {}
        if not {"cpu", "memory"} <= limits.keys() or part.get("requests") != limits:
            return "Burstable"
    return "Guaranteed"


def check_pod(new: Document, old: Document | None) -> list[FieldError]:
    """Find what a pod lacks, or what an update may not change."""
    if old is None:
        return list(check_pod_spec(new["spec"], "spec"))
    if _frozen(new["spec"]) != _frozen(old["spec"]):
        return [FieldError(FieldErrorType.FORBIDDEN, "spec", _IMMUTABLE)]
    return []


def _frozen(spec: Document) -> Document:
    """Return the part of a spec that no update may change; binding it to a node is no update."""
    loose = {"activeDeadlineSeconds", "tolerations", "nodeName", "containers"}
    containers = [
        {key: value for key, value in container.items() if key != "image"}
        for container in spec.get("containers") or ()
    ]
    return {**{k: v for k, v in spec.items() if k not in loose}, "containers": containers}


def check_pod_spec(spec: Document, path: str) -> Iterator[FieldError]:
    """Find the required fields that are absent."""
    containers = spec.get("containers")
    if not containers:
        yield FieldError(FieldErrorType.REQUIRED, f"{path}.containers")
    for index, container in enumerate(containers or ()):
        for field in ("name", "image"):
            if not container.get(field):
                yield FieldError(FieldErrorType.REQUIRED, f"{path}.containers[{index}].{field}")
