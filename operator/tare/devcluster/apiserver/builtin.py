"""The built-in resource types, with the schemas of Kubernetes 1.34.

`kubernetes-v1.34.json` is cut out of Kubernetes' own OpenAPI documents by
`tests/support/kubernetes_schemas.py`; a conformance test compares it with the real server.
"""

from __future__ import annotations

from functools import cache
from importlib import resources as package_files
from typing import TYPE_CHECKING, Any, Final

import orjson

from tare.devcluster.apiserver.columns import builtin_columns
from tare.devcluster.apiserver.kinds.jobs import check_job, create_job, fill_job
from tare.devcluster.apiserver.kinds.plain import (
    check_config_map,
    check_secret,
    create_namespace,
    fill_secret,
)
from tare.devcluster.apiserver.kinds.pods import check_pod, fill_pod
from tare.devcluster.apiserver.kinds.services import (
    check_service,
    create_service,
    fill_service,
)
from tare.devcluster.apiserver.resources import CREATE_ONLY, Propagation, Resource
from tare.devcluster.apiserver.schema import Definitions, Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tare.devcluster.apiserver.documents import Clock

__all__ = ["builtin_resources", "definitions", "metadata_schema"]

_META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
_CORE: Final = "io.k8s.api.core.v1."


@cache
def definitions() -> Definitions:
    """Load the schemas of the built-in kinds, once a process."""
    text = package_files.files(__package__).joinpath("kubernetes-v1.34.json").read_bytes()
    return Definitions(orjson.loads(text))


def metadata_schema() -> Schema:
    """Return the schema of `metadata`, the same for every kind."""
    return definitions().schema(_META)


def builtin_resources(clock: Clock, allocate_address: Callable[[], str]) -> Iterator[Resource]:
    """Yield the built-in types; `allocate_address` gives a new Service its cluster address."""
    yield from _core_resources(clock, allocate_address)
    yield from _group_resources(clock)


def _core_resources(clock: Clock, allocate_address: Callable[[], str]) -> Iterator[Resource]:
    def core(kind: str, plural: str, **more: Any) -> Resource:
        return _resource(clock, "", kind, plural, _CORE, **more)

    yield core(
        "Namespace",
        "namespaces",
        namespaced=False,
        short_names=("ns",),
        has_status=True,
        create=create_namespace,
        selectable=frozenset({"status.phase"}),
    )
    yield core(
        "Pod",
        "pods",
        short_names=("po",),
        categories=("all",),
        has_status=True,
        has_generation=True,
        fill=fill_pod,
        check=check_pod,
        selectable=_POD_FIELDS,
    )
    yield core(
        "Service",
        "services",
        short_names=("svc",),
        categories=("all",),
        has_status=True,
        fill=fill_service,
        create=create_service(allocate_address),
        check=check_service,
        selectable=frozenset({"spec.clusterIP", "spec.type"}),
    )
    yield core("ConfigMap", "configmaps", short_names=("cm",), check=check_config_map)
    yield core(
        "Secret", "secrets", fill=fill_secret, check=check_secret, selectable=frozenset({"type"})
    )
    yield core("ServiceAccount", "serviceaccounts", short_names=("sa",))
    yield core("Event", "events", short_names=("ev",), selectable=_EVENT_FIELDS)


def _group_resources(clock: Clock) -> Iterator[Resource]:
    yield _resource(
        clock,
        "batch",
        "Job",
        "jobs",
        "io.k8s.api.batch.v1.",
        categories=("all",),
        has_status=True,
        has_generation=True,
        default_propagation=Propagation.ORPHAN,  # kept by batch/v1 for old clients
        fill=fill_job,
        create=create_job,
        check=check_job,
        selectable=frozenset({"status.successful"}),
    )
    yield _resource(
        clock,
        "discovery.k8s.io",
        "EndpointSlice",
        "endpointslices",
        "io.k8s.api.discovery.v1.",
        has_generation=True,
    )
    yield _resource(clock, "coordination.k8s.io", "Lease", "leases", "io.k8s.api.coordination.v1.")
    yield _resource(
        clock,
        "authorization.k8s.io",
        "SelfSubjectAccessReview",
        "selfsubjectaccessreviews",
        "io.k8s.api.authorization.v1.",
        namespaced=False,
        verbs=CREATE_ONLY,
    )


_POD_FIELDS: Final = frozenset(
    {
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
    }
)
_EVENT_FIELDS: Final = frozenset(
    {
        *(f"involvedObject.{name}" for name in ("kind", "namespace", "name", "uid")),
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    }
)


def _resource(
    clock: Clock, group: str, kind: str, plural: str, package: str, **more: Any
) -> Resource:
    name = package + kind
    return Resource(
        group=group,
        version="v1",
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        schema=definitions().schema(name),
        schema_name=name,
        columns=builtin_columns(kind, clock),
        **more,
    )
