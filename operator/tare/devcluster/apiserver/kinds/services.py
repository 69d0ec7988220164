"""Services: defaults, and the cluster address that each one gets but headless ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tare.devcluster.apiserver.errors import FieldError, FieldErrorType

if TYPE_CHECKING:
    from collections.abc import Callable

    from tare.devcluster.apiserver.documents import Document

__all__ = ["HEADLESS", "check_service", "create_service", "fill_service"]

HEADLESS = "None"


def fill_service(document: Document) -> None:
    """Set the defaults of a Service."""
    spec = document.setdefault("spec", {})
    spec.setdefault("type", "ClusterIP")
    spec.setdefault("sessionAffinity", "None")
    document.setdefault("status", {"loadBalancer": {}})
    if spec["type"] == "ExternalName":
        return
    spec.setdefault("internalTrafficPolicy", "Cluster")
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    for port in spec.get("ports") or ():
        port.setdefault("protocol", "TCP")
        port.setdefault("targetPort", port.get("port"))


def create_service(allocate: Callable[[], str]) -> Callable[[Document], None]:
    """Return the step that gives a new Service its address."""

    def give_address(document: Document) -> None:
        spec = document["spec"]
        if spec["type"] != "ExternalName" and not spec.get("clusterIP"):
            spec["clusterIP"] = allocate()
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]

    return give_address


def check_service(new: Document, old: Document | None) -> list[FieldError]:
    """Find what a Service lacks, or what an update may not change."""
    spec = new["spec"]
    if old is not None and old["spec"].get("clusterIP") != spec.get("clusterIP"):
        detail = "may not change once set"
        value = spec.get("clusterIP")
        return [FieldError(FieldErrorType.INVALID, "spec.clusterIPs[0]", detail, value)]
    ports = spec.get("ports") or ()
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != HEADLESS:
        return [FieldError(FieldErrorType.REQUIRED, "spec.ports")]
    if len(ports) > 1:
        return [
            FieldError(FieldErrorType.REQUIRED, f"spec.ports[{index}].name")
            for index, port in enumerate(ports)
            if not port.get("name")
        ]
    return []
