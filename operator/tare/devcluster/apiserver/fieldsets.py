"""Sets of fields in the `fieldsV1` form of `managedFields`, as nested dicts.

A key `f:name` is a field, `k:{...}` an item of a list-map by its keys, `v:...` an item of a set,
`.` the object itself. An empty dict is a leaf. Atomic lists and maps are leaves.
https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import orjson

from tare.devcluster.apiserver.schema import FREE, Schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.devcluster.apiserver.documents import Document

__all__ = [
    "MISSING",
    "FieldSet",
    "describe",
    "difference",
    "field_set",
    "intersection",
    "item_key",
    "lookup",
    "union",
]

FieldSet = dict[str, Any]

_SELF: Final = "."
MISSING: Final = object()


def field_set(schema: Schema, value: Any) -> FieldSet:
    """Return the fields that a document sets."""
    match value:
        case dict() if value and schema.map_type != "atomic":
            return {
                f"f:{key}": field_set(schema.child(key) or FREE, item)
                for key, item in value.items()
            }
        case list() if schema.list_type == "map":
            items = schema.items or FREE
            return {item_key(schema, item): {_SELF: {}, **field_set(items, item)} for item in value}
        case list() if schema.list_type == "set":
            return {_value_key(item): {} for item in value}
        case _:
            return {}


def item_key(schema: Schema, item: Document) -> str:
    """Return the `k:` key of an item of a list-map; a key field that is absent has its default."""
    identity = {
        name: item.get(name, _default_of(schema, name)) for name in sorted(schema.list_map_keys)
    }
    return f"k:{orjson.dumps(identity).decode()}"


def _default_of(schema: Schema, name: str) -> Any:
    """`protocol` is the one key of built-in list-maps that clients leave out."""
    child = schema.items.child(name) if schema.items else None
    if child is not None and isinstance(child.default, str):
        return child.default
    return "TCP" if name == "protocol" else None


def _value_key(item: Any) -> str:
    return f"v:{orjson.dumps(item).decode()}"


def lookup(schema: Schema, value: Any, key: str) -> tuple[Any, Schema]:
    """Step from a value to the part that a key of a field set names; MISSING when absent."""
    kind, _, rest = key.partition(":")
    if kind == "f" and isinstance(value, dict):
        return value.get(rest, MISSING), schema.child(rest) or FREE
    if kind == "k" and isinstance(value, list):
        for item in value:
            if isinstance(item, dict) and item_key(schema, item) == key:
                return item, schema.items or FREE
    if kind == "v" and isinstance(value, list):
        found = orjson.loads(rest)
        return (found if found in value else MISSING), schema.items or FREE
    return MISSING, FREE


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the fields in either."""
    merged = dict(left)
    for key, part in right.items():
        merged[key] = union(merged[key], part) if key in merged else part
    return merged


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the leaves of `left` that are not in `right`."""
    rest: FieldSet = {}
    for key, part in left.items():
        if key not in right:
            rest[key] = part
        elif part and (below := difference(part, right[key])):
            rest[key] = below
    return rest


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the leaves in both."""
    both: FieldSet = {}
    for key, part in left.items():
        if key not in right:
            continue
        if not part or not right[key]:
            both[key] = {}
        elif below := intersection(part, right[key]):
            both[key] = below
    return both


def describe(fields: FieldSet, path: str = "") -> Iterator[str]:
    """Yield the leaves as people read them: `.spec.parts[name="a"].weight`."""
    for key, part in fields.items():
        kind, _, rest = key.partition(":")
        match kind:
            case "f":
                where = f"{path}.{rest}"
            case "k":
                pairs = orjson.loads(rest).items()
                inner = ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in pairs)
                where = f"{path}[{inner}]"
            case "v":
                where = f"{path}[={rest}]"
            case _:
                continue
        if set(part) - {_SELF}:
            yield from describe(part, where)
        else:
            yield where
