"""PATCH of any type, and the ownership of fields that plain writes take over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from tare.devcluster.apiserver import errors
from tare.devcluster.apiserver.apply import ApplyOptions, merge_applied, track_update
from tare.devcluster.apiserver.builtin import metadata_schema
from tare.devcluster.apiserver.decoding import (
    FieldValidation,
    check_kind,
    conform,
    strict_error,
    unknown_fields,
)
from tare.devcluster.apiserver.documents import Document, format_time
from tare.devcluster.apiserver.patches import json_patch, merge_patch
from tare.devcluster.apiserver.schema import Schema
from tare.devcluster.apiserver.strategic import strategic_merge_patch

if TYPE_CHECKING:
    from tare.devcluster.apiserver.registry import Registry, Written
    from tare.devcluster.apiserver.resources import Resource
    from tare.devcluster.apiserver.routes import Target

__all__ = ["Patched", "Patcher"]

_JSON = "application/json-patch+json"
_MERGE = "application/merge-patch+json"
_STRATEGIC = "application/strategic-merge-patch+json"
_APPLY = "application/apply-patch+yaml"
_NO_MANAGER = errors.FieldError(
    errors.FieldErrorType.REQUIRED, "fieldManager", "is required for apply patch"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Patched:
    """The answer to a PATCH."""

    document: Document
    created: bool = False
    warnings: Sequence[str] = ()


class Patcher:
    """Computes the new state that a patch asks for, and stores it under the registry's rules."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def patch(
        self,
        target: Target,
        patch: Any,
        media_type: str,
        query: Mapping[str, str],
        validation: FieldValidation,
    ) -> Patched:
        """Apply a patch; only server-side apply may create the object."""
        if media_type == _APPLY:
            return self._apply(target, patch, query, validation)
        old = self._registry.get(target.resource, target.place, target.name)
        new = _patched(target.resource, old, patch, media_type)
        warnings = _conform(target.resource, new, validation)
        written = self.replace(target, new, query)
        return Patched(document=written.document, warnings=warnings)

    def replace(self, target: Target, new: Document, query: Mapping[str, str]) -> Written:
        """Store a new state and note whose fields changed."""
        resource = target.resource
        old = self._registry.get(resource, target.place, target.name)
        if old["metadata"].get("managedFields"):
            track_update(_with_metadata(resource), old, new, self._options(target, query))
        return self._registry.replace(
            resource,
            target.place,
            target.name,
            new,
            subresource=target.subresource,
            dry_run=query.get("dryRun") == "All",
        )

    def _apply(
        self,
        target: Target,
        patch: Any,
        query: Mapping[str, str],
        validation: FieldValidation,
    ) -> Patched:
        if not query.get("fieldManager"):
            raise errors.invalid("meta.k8s.io", "PatchOptions", "", [_NO_MANAGER])
        resource = target.resource
        applied = check_kind(resource, patch)
        if "managedFields" in applied["metadata"]:
            raise errors.bad_request("metadata.managedFields must be nil")
        applied["metadata"].setdefault("name", target.name)
        warnings = conform(resource, applied, validation, metadata_schema())
        live = self._registry.store.find(resource.key, target.place, target.name)
        if live is None and target.subresource:
            raise errors.not_found(resource.group, resource.plural, target.name)
        if live is not None and target.subresource != "status" and resource.has_status:
            applied.pop("status", None)
        options = self._options(target, query)
        new = merge_applied(_with_metadata(resource), live, applied, options)
        dry_run = query.get("dryRun") == "All"
        if live is None:
            created = self._registry.create(resource, target.place, new, dry_run=dry_run)
            return Patched(document=created, created=True, warnings=warnings)
        written = self._registry.replace(
            resource,
            target.place,
            target.name,
            new,
            subresource=target.subresource,
            dry_run=dry_run,
        )
        return Patched(document=written.document, warnings=warnings)

    def _options(self, target: Target, query: Mapping[str, str]) -> ApplyOptions:
        return ApplyOptions(
            manager=query.get("fieldManager") or "unknown",
            force=query.get("force") in {"true", "1"},
            subresource=target.subresource,
            time=format_time(self._registry.clock()),
        )


def _patched(resource: Resource, old: Document, patch: Any, media_type: str) -> Document:
    match media_type:
        case "application/json-patch+json":
            return json_patch(old, patch)
        case "application/merge-patch+json":
            return merge_patch(old, patch)
        case "application/strategic-merge-patch+json" if not resource.custom:
            return strategic_merge_patch(resource.schema, old, patch)
        case _:
            accepted = [_JSON, _MERGE, *([] if resource.custom else [_STRATEGIC]), _APPLY]
            raise errors.unsupported_media_type(accepted)


def _conform(resource: Resource, new: Document, validation: FieldValidation) -> list[str]:
    """Handle unknown fields of a patched object; strict clients get 422 here, not 400."""
    if validation is not FieldValidation.STRICT:
        return conform(resource, new, validation, metadata_schema())
    text = orjson.dumps(new).decode()
    unknown = unknown_fields(resource, new, metadata_schema())
    if unknown:
        error = errors.FieldError(
            errors.FieldErrorType.INVALID, "patch", strict_error(unknown), text
        )
        raise errors.invalid("", "", "", [error])
    return conform(resource, new, validation, metadata_schema())


def _with_metadata(resource: Resource) -> Schema:
    """Return a schema whose `metadata` is typed too, which custom ones leave out."""
    if not resource.custom:
        return resource.schema
    return Schema(
        type="object",
        properties={**resource.schema.properties, "metadata": metadata_schema()},
        preserve_unknown=resource.schema.preserve_unknown,
    )
