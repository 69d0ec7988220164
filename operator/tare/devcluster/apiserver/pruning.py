"""Unknown fields and defaults: what the API server does to a document before it looks at it.

Both change the document in place, so it must be the caller's own copy.
"""

from __future__ import annotations

from typing import Any

from tare.devcluster.apiserver.documents import copy_of
from tare.devcluster.apiserver.schema import ABSENT, Schema

__all__ = ["apply_defaults", "prune"]


def prune(schema: Schema, value: Any, path: str = "") -> list[str]:
    """Drop the fields that the schema does not know; return their paths in document order."""
    unknown: list[str] = []
    _prune(schema, value, path, unknown)
    return unknown


def _prune(schema: Schema, value: Any, path: str, unknown: list[str]) -> None:
    if isinstance(value, list):
        if schema.items is not None:
            for index, item in enumerate(value):
                _prune(schema.items, item, f"{path}[{index}]", unknown)
        return
    if not isinstance(value, dict):
        return
    gone: list[str] = []
    for key, item in value.items():
        child = schema.child(key)
        if child is not None:
            if isinstance(item, dict | list):
                _prune(child, item, f"{path}.{key}" if path else key, unknown)
        elif not schema.preserve_unknown and not (schema.embedded and key in _EMBEDDED):
            gone.append(key)
            unknown.append(f"{path}.{key}" if path else key)
    for key in gone:
        del value[key]


_EMBEDDED = frozenset({"apiVersion", "kind", "metadata"})


def apply_defaults(schema: Schema, value: Any) -> None:
    """Fill in what is absent; a null where null is not allowed counts as absent."""
    match value:
        case dict():
            for key, child in schema.properties.items():
                if value.get(key, ABSENT) is None and not child.nullable:
                    del value[key]
                if key not in value and child.default is not ABSENT:
                    value[key] = _fresh(child.default)
            for key, item in value.items():
                if isinstance(item, dict | list) and (known := schema.child(key)) is not None:
                    apply_defaults(known, item)
        case list() if schema.items is not None:
            for item in value:
                apply_defaults(schema.items, item)
        case _:
            pass


def _fresh(default: Any) -> Any:
    return copy_of({"": default})[""] if isinstance(default, dict | list) else default
