"""What Kubernetes 1.34 would say of a document, without a server: unknown fields, types, rules."""

from __future__ import annotations

import copy
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from tare.devcluster.apiserver.builtin import builtin_resources, metadata_schema
from tare.devcluster.apiserver.decoding import FieldValidation, check_kind, conform
from tare.devcluster.apiserver.metadata import check_metadata

if TYPE_CHECKING:
    from tare.kube.port import Document

__all__ = ["assert_valid"]


def assert_valid(document: Document) -> None:
    """Create `document` as a strict API server would, up to the point of storing it."""
    resources = builtin_resources(lambda: datetime.now(UTC), lambda: "10.0.0.1")
    resource = next(each for each in resources if each.kind == document["kind"])
    created = check_kind(resource, copy.deepcopy(document))
    conform(resource, created, FieldValidation.STRICT, metadata_schema())
    resource.fill(created)
    faults = [*check_metadata(created, None), *resource.check(created, None)]
    assert not faults, faults
