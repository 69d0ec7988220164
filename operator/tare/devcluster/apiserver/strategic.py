"""Strategic merge patch, which `kubectl apply` and `kubectl patch` send for built-in kinds.

Lists of objects merge by the merge key that the OpenAPI document names, and directives inside the
patch delete, replace and order. Custom resources have no such keys and refuse this type.
https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from tare.devcluster.apiserver.documents import Document, copy_of
from tare.devcluster.apiserver.errors import bad_request
from tare.devcluster.apiserver.schema import FREE, Schema

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["strategic_merge_patch"]

_DIRECTIVE: Final = "$patch"
_RETAIN_KEYS: Final = "$retainKeys"
_SET_ORDER: Final = "$setElementOrder/"
_DELETE_PRIMITIVES: Final = "$deleteFromPrimitiveList/"


def strategic_merge_patch(schema: Schema, document: Document, patch: Any) -> Document:
    """Apply a strategic merge patch to a copy of a stored object."""
    if not isinstance(patch, dict):
        raise bad_request("a strategic merge patch must be a JSON object")
    return _merge_object(schema, copy_of(document), patch)


def _merge_object(schema: Schema, value: Document, patch: Document) -> Document:
    match patch.get(_DIRECTIVE):
        case "replace":
            replaced: Document = _without_directives(patch)
            return replaced
        case "delete":
            return {}
        case _:
            pass
    if _RETAIN_KEYS in patch:
        value = {key: item for key, item in value.items() if key in patch[_RETAIN_KEYS]}
    for key, part in patch.items():
        if key.startswith(_DELETE_PRIMITIVES):
            field = key.removeprefix(_DELETE_PRIMITIVES)
            value[field] = [item for item in value.get(field) or () if item not in part]
        elif not key.startswith("$"):
            _merge_field(schema.child(key) or FREE, value, key, part)
    for key, order in patch.items():
        if key.startswith(_SET_ORDER):
            field = key.removeprefix(_SET_ORDER)
            merge_key = (schema.child(field) or FREE).patch_merge_key
            value[field] = _ordered(value.get(field) or [], order, merge_key)
    return value


def _merge_field(schema: Schema, value: Document, key: str, part: Any) -> None:
    match part:
        case None:
            value.pop(key, None)
        case dict():
            current = value.get(key)
            value[key] = _merge_object(schema, current if isinstance(current, dict) else {}, part)
        case list() if "merge" in schema.patch_strategy.split(","):
            current = value.get(key)
            value[key] = _merge_list(schema, current if isinstance(current, list) else [], part)
        case _:
            value[key] = part


def _merge_list(schema: Schema, items: list[Any], patch: list[Any]) -> list[Any]:
    merge_key = schema.patch_merge_key
    if not merge_key:  # a set of primitives
        return items + [item for item in patch if item not in items]
    if any(_is_replacement(item) for item in patch):
        return [_without_directives(item) for item in patch if not _is_replacement(item)]
    merged = list(items)
    for part in patch:
        if merge_key not in part:
            raise bad_request(f"map: {part} does not contain declared merge key: {merge_key}")
        place = _place(merged, merge_key, part[merge_key])
        if part.get(_DIRECTIVE) == "delete":
            if place is not None:
                del merged[place]
        elif place is None:
            merged.append(_merge_object(schema.items or FREE, {}, part))
        else:
            merged[place] = _merge_object(schema.items or FREE, merged[place], part)
    return merged


def _place(items: list[Any], merge_key: str, wanted: Any) -> int | None:
    for index, item in enumerate(items):
        if item.get(merge_key) == wanted:
            return index
    return None


def _is_replacement(part: Any) -> bool:
    return isinstance(part, dict) and part == {_DIRECTIVE: "replace"}


def _ordered(items: list[Any], order: Sequence[Any], merge_key: str) -> list[Any]:
    """Put the items that the patch's author knows in the author's order, the others behind."""
    wanted = [entry[merge_key] if isinstance(entry, dict) else entry for entry in order]

    def rank(item: Any) -> int:
        identity = item.get(merge_key) if isinstance(item, dict) else item
        return wanted.index(identity) if identity in wanted else len(wanted)

    return sorted(items, key=rank)


def _without_directives(value: Any) -> Any:
    match value:
        case dict():
            return {
                key: _without_directives(item)
                for key, item in value.items()
                if not key.startswith("$")
            }
        case list():
            return [_without_directives(item) for item in value]
        case _:
            return value
