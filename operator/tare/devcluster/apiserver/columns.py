"""The columns that `kubectl get` shows of built-in kinds, wide ones included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tare.devcluster.apiserver.documents import Clock, Document, parse_time, path_of
from tare.devcluster.apiserver.resources import Column
from tare.devcluster.apiserver.tables import NAME_COLUMN, age_column, human_age, human_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["builtin_columns"]

_NONE = "<none>"
_WIDE = 1


def builtin_columns(kind: str, clock: Clock) -> Sequence[Column]:
    """Return the columns of a built-in kind; the name and the age where none are special."""
    special = _SPECIAL.get(kind)
    return special(clock) if special else [NAME_COLUMN, age_column(clock)]


def _column(name: str, cell: Callable[[Document], Any], priority: int = 0) -> Column:
    return Column(name=name, cell=cell, priority=priority)


def _at(path: str) -> Callable[[Document], Any]:
    def cell(document: Document) -> Any:
        value = path_of(document, path)
        return _NONE if value is None else value

    return cell


def _pods(clock: Clock) -> Sequence[Column]:
    return [
        NAME_COLUMN,
        _column("Ready", _pod_ready),
        _column("Status", _pod_status),
        _column("Restarts", _pod_restarts),
        age_column(clock),
        _column("IP", _at("status.podIP"), _WIDE),
        _column("Node", _at("spec.nodeName"), _WIDE),
    ]


def _statuses(pod: Document) -> Sequence[Document]:
    return path_of(pod, "status.containerStatuses") or ()


def _pod_ready(pod: Document) -> str:
    ready = sum(bool(status.get("ready")) for status in _statuses(pod))
    return f"{ready}/{len(pod['spec'].get('containers') or ())}"


def _pod_restarts(pod: Document) -> str:
    return str(sum(status.get("restartCount", 0) for status in _statuses(pod)))


def _pod_status(pod: Document) -> str:
    """Return the word that says most: Terminating, a container's reason, else the phase."""
    if pod["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for status in _statuses(pod):
        state = status.get("state") or {}
        for part in ("waiting", "terminated"):
            if reason := (state.get(part) or {}).get("reason"):
                return str(reason)
    return str(path_of(pod, "status.reason") or path_of(pod, "status.phase") or "Unknown")


def _jobs(clock: Clock) -> Sequence[Column]:
    return [
        NAME_COLUMN,
        _column("Status", _job_status),
        _column("Completions", _job_completions),
        _column("Duration", lambda job: _job_duration(job, clock)),
        age_column(clock),
        _column("Containers", lambda job: _containers(job, "name"), _WIDE),
        _column("Images", lambda job: _containers(job, "image"), _WIDE),
    ]


def _containers(job: Document, field: str) -> str:
    return ",".join(item[field] for item in job["spec"]["template"]["spec"]["containers"])


def _job_status(job: Document) -> str:
    """Return the condition that says most."""
    found = {
        condition["type"]
        for condition in path_of(job, "status.conditions") or ()
        if condition["status"] == "True"
    }
    for condition in ("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if condition in found:
            return condition
    return "Terminating" if job["metadata"].get("deletionTimestamp") else "Running"


def _job_completions(job: Document) -> str:
    succeeded = path_of(job, "status.succeeded") or 0
    return f"{succeeded}/{job['spec'].get('completions', job['spec']['parallelism'])}"


def _job_duration(job: Document, clock: Clock) -> str:
    start, end = path_of(job, "status.startTime"), path_of(job, "status.completionTime")
    if not start:
        return ""
    until = parse_time(end) if end else clock()
    return human_duration((until - parse_time(start)).total_seconds())


def _services(clock: Clock) -> Sequence[Column]:
    return [
        NAME_COLUMN,
        _column("Type", _at("spec.type")),
        _column("Cluster-IP", _at("spec.clusterIP")),
        _column("External-IP", _at("spec.externalName")),
        _column("Port(s)", _service_ports),
        age_column(clock),
        _column("Selector", lambda service: _pairs(service["spec"].get("selector")), _WIDE),
    ]


def _service_ports(service: Document) -> str:
    ports = service["spec"].get("ports") or ()
    return ",".join(f"{port['port']}/{port['protocol']}" for port in ports) or _NONE


def _pairs(labels: dict[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in (labels or {}).items()) or _NONE


def _endpoint_slices(clock: Clock) -> Sequence[Column]:
    return [
        NAME_COLUMN,
        _column("AddressType", _at("addressType")),
        _column("Ports", _slice_ports),
        _column("Endpoints", _slice_addresses),
        age_column(clock),
    ]


def _slice_ports(document: Document) -> str:
    return ",".join(str(port["port"]) for port in document.get("ports") or ()) or "<unset>"


def _slice_addresses(document: Document) -> str:
    endpoints = document.get("endpoints") or ()
    return ",".join(address for item in endpoints for address in item["addresses"]) or "<unset>"


def _config_maps(clock: Clock) -> Sequence[Column]:
    return [NAME_COLUMN, _column("Data", _entries), age_column(clock)]


def _secrets(clock: Clock) -> Sequence[Column]:
    return [
        NAME_COLUMN,
        _column("Type", _at("type")),
        _column("Data", _entries),
        age_column(clock),
    ]


def _entries(document: Document) -> str:
    return str(len(document.get("data") or ()) + len(document.get("binaryData") or ()))


def _namespaces(clock: Clock) -> Sequence[Column]:
    return [NAME_COLUMN, _column("Status", _at("status.phase")), age_column(clock)]


def _leases(clock: Clock) -> Sequence[Column]:
    return [NAME_COLUMN, _column("Holder", _at("spec.holderIdentity")), age_column(clock)]


def _definitions(_clock: Clock) -> Sequence[Column]:
    return [NAME_COLUMN, _column("Created At", _at("metadata.creationTimestamp"))]


def _events(clock: Clock) -> Sequence[Column]:
    return [
        _column("Last Seen", lambda event: human_age(_last_seen(event), clock())),
        _column("Type", _at("type")),
        _column("Reason", _at("reason")),
        _column("Object", _event_object),
        _column("Message", lambda event: (event.get("message") or "").strip()),
        Column(name="Name", format="name", priority=_WIDE, cell=NAME_COLUMN.cell),
    ]


def _last_seen(event: Document) -> str | None:
    for field in ("lastTimestamp", "eventTime", "firstTimestamp"):
        if event.get(field):
            return str(event[field])
    return None


def _event_object(event: Document) -> str:
    involved = event["involvedObject"]
    return f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"


_SPECIAL: dict[str, Callable[[Clock], Sequence[Column]]] = {
    "ConfigMap": _config_maps,
    "CustomResourceDefinition": _definitions,
    "EndpointSlice": _endpoint_slices,
    "Event": _events,
    "Job": _jobs,
    "Lease": _leases,
    "Namespace": _namespaces,
    "Pod": _pods,
    "Secret": _secrets,
    "Service": _services,
}
