"""Server-side apply: create or merge, with an owner for every applied field.

Ownership is tracked from the first apply on: an object that nobody applied has no `managedFields`
at all, and its first apply finds one manager, `before-first-apply`, that owns what is there. The
real server does the same for objects that lost theirs; here it keeps plain writes cheap.
https://kubernetes.io/docs/reference/using-api/server-side-apply/
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final

from tare.devcluster.apiserver.documents import Document, copy_of
from tare.devcluster.apiserver.errors import ApiError
from tare.devcluster.apiserver.fieldsets import (
    MISSING,
    FieldSet,
    describe,
    difference,
    field_set,
    intersection,
    item_key,
    lookup,
    union,
)
from tare.devcluster.apiserver.schema import FREE, Schema

__all__ = ["ApplyOptions", "merge_applied", "track_update"]

_BEFORE_FIRST_APPLY: Final = "before-first-apply"
_UNMANAGED: Final = (
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "generation",
    "resourceVersion",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyOptions:
    """Who applies what part of the object, and when."""

    manager: str
    force: bool = False
    subresource: str = ""
    time: str


def merge_applied(
    schema: Schema, live: Document | None, applied: Document, options: ApplyOptions
) -> Document:
    """Return the object after the apply; 409 for fields that another manager holds otherwise."""
    configuration = _managed_part(applied)
    wanted = field_set(schema, configuration)
    entries = _entries(schema, live, options)
    mine, others = _split(entries, options)
    base = copy_of(live) if live is not None else {}
    if live is not None:
        others = _settle_conflicts(schema, base, configuration, wanted, others, options)
    merged: Document = _merge(schema, base, copy_of(applied))
    if mine is not None:
        orphaned = difference(mine["fieldsV1"], wanted)
        for entry in others:
            orphaned = difference(orphaned, entry["fieldsV1"])
        _remove(schema, merged, orphaned)
    if mine is None or mine["fieldsV1"] != wanted or live is None:
        mine = _entry("Apply", wanted, applied["apiVersion"], options)
    merged.setdefault("metadata", {})["managedFields"] = [mine, *others]
    return merged


def track_update(schema: Schema, old: Document, new: Document, options: ApplyOptions) -> None:
    """Give the fields that a plain write changed to its manager, in place."""
    if not old["metadata"].get("managedFields"):
        return
    before, after = _managed_part(old), _managed_part(new)
    changed = _changed(schema, before, after)
    present = field_set(schema, after)
    kept: list[Document] = []
    own: FieldSet = changed
    for entry in old["metadata"]["managedFields"]:
        fields = intersection(entry["fieldsV1"], present)
        if _is_own_update(entry, options):
            own = union(fields, changed)
            continue
        fields = difference(fields, changed)
        if fields:
            kept.append({**entry, "fieldsV1": fields})
    if own:
        kept.append(_entry("Update", own, new["apiVersion"], options))
    new["metadata"]["managedFields"] = kept


def _managed_part(document: Document) -> Document:
    part = {key: value for key, value in document.items() if key not in {"apiVersion", "kind"}}
    metadata = {
        key: value
        for key, value in (document.get("metadata") or {}).items()
        if key not in _UNMANAGED
    }
    part.pop("metadata", None)
    return {"metadata": metadata, **part} if metadata else part


def _entries(schema: Schema, live: Document | None, options: ApplyOptions) -> list[Document]:
    if live is None:
        return []
    entries: list[Document] = list(live["metadata"].get("managedFields") or ())
    if not entries:
        fields = field_set(schema, _managed_part(live))
        before = ApplyOptions(manager=_BEFORE_FIRST_APPLY, time=options.time)
        entries = [_entry("Update", fields, live["apiVersion"], before)]
    return entries


def _entry(operation: str, fields: FieldSet, version: str, options: ApplyOptions) -> Document:
    entry: Document = {
        "manager": options.manager,
        "operation": operation,
        "apiVersion": version,
        "time": options.time,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    if options.subresource:
        entry["subresource"] = options.subresource
    return entry


def _split(
    entries: list[Document], options: ApplyOptions
) -> tuple[Document | None, list[Document]]:
    mine, others = None, []
    for entry in entries:
        if entry["operation"] == "Apply" and _same_manager(entry, options):
            mine = entry
        else:
            others.append(entry)
    return mine, others


def _same_manager(entry: Document, options: ApplyOptions) -> bool:
    owner = (entry["manager"], entry.get("subresource", ""))
    return owner == (options.manager, options.subresource)


def _is_own_update(entry: Document, options: ApplyOptions) -> bool:
    return entry["operation"] == "Update" and _same_manager(entry, options)


def _settle_conflicts(
    schema: Schema,
    live: Document,
    configuration: Document,
    wanted: FieldSet,
    others: list[Document],
    options: ApplyOptions,
) -> list[Document]:
    """Take contested fields from their managers if forced, else refuse with their names."""
    contested = _differing(schema, live, configuration, wanted)
    settled, causes = [], []
    for entry in others:
        overlap = intersection(entry["fieldsV1"], contested)
        if not overlap:
            settled.append(entry)
        elif options.force:
            rest = difference(entry["fieldsV1"], overlap)
            if rest:
                settled.append({**entry, "fieldsV1": rest})
        else:
            using = f" using {entry['apiVersion']}" if entry["operation"] == "Update" else ""
            causes += [
                {
                    "reason": "FieldManagerConflict",
                    "message": f'conflict with "{entry["manager"]}"{using}',
                    "field": path,
                }
                for path in describe(overlap)
            ]
    if causes:
        raise _conflict(causes)
    return settled


def _conflict(causes: list[Document]) -> ApiError:
    """Word the refusal; the causes carry field and manager for kubectl's advice."""
    plural = "" if len(causes) == 1 else "s"
    lines = [f"{cause['message']}: {cause['field']}" for cause in causes]
    listed = lines[0] if len(lines) == 1 else "\n- " + "\n- ".join(lines)
    return ApiError(
        HTTPStatus.CONFLICT,
        "Conflict",
        f"Apply failed with {len(causes)} conflict{plural}: {listed}",
        details={"causes": causes},
    )


def _differing(schema: Schema, live: Any, applied: Any, fields: FieldSet) -> FieldSet:
    """Return the leaves of `fields` whose applied value is not the live one."""
    found: FieldSet = {}
    for key, part in fields.items():
        if key == ".":
            continue
        here, child = lookup(schema, live, key)
        there, _ = lookup(schema, applied, key)
        if here is MISSING:
            continue
        if part:
            if below := _differing(child, here, there, part):
                found[key] = below
        elif here != there:
            found[key] = {}
    return found


def _changed(schema: Schema, old: Any, new: Any) -> FieldSet:
    """Return the leaves of the new document that are new or have another value."""
    return _changed_in(schema, old, new, field_set(schema, new))


def _changed_in(schema: Schema, old: Any, new: Any, fields: FieldSet) -> FieldSet:
    found: FieldSet = {}
    for key, part in fields.items():
        if key == ".":
            continue
        here, child = lookup(schema, old, key)
        there, _ = lookup(schema, new, key)
        if here is MISSING:
            found[key] = part
        elif part:
            if below := _changed_in(child, here, there, part):
                found[key] = below
        elif here != there:
            found[key] = {}
    return found


def _merge(schema: Schema, live: Any, applied: Any) -> Any:
    match applied:
        case dict() if schema.map_type != "atomic":
            merged = live if isinstance(live, dict) else {}
            for key, item in applied.items():
                if item is None:
                    continue
                merged[key] = _merge(schema.child(key) or FREE, merged.get(key), item)
            return merged
        case list() if schema.list_type == "map":
            return _merge_items(schema, live if isinstance(live, list) else [], applied)
        case list() if schema.list_type == "set":
            known = live if isinstance(live, list) else []
            return known + [item for item in applied if item not in known]
        case _:
            return applied


def _merge_items(schema: Schema, live: list[Any], applied: list[Any]) -> list[Any]:
    merged = list(live)
    places = {item_key(schema, item): index for index, item in enumerate(merged)}
    for item in applied:
        place = places.get(item_key(schema, item))
        if place is None:
            merged.append(item)
        else:
            merged[place] = _merge(schema.items or FREE, merged[place], item)
    return merged


def _remove(schema: Schema, value: Any, fields: FieldSet) -> None:
    """Take out the fields that their last owner no longer applies."""
    for key, part in fields.items():
        kind, _, rest = key.partition(":")
        child_value, child = lookup(schema, value, key)
        if child_value is MISSING:
            continue
        if part and "." not in part:
            _remove(child, child_value, part)
            if kind == "f" and child_value == {}:
                del value[rest]
        elif kind == "f":
            del value[rest]
        elif kind in {"k", "v"}:
            value.remove(child_value)
