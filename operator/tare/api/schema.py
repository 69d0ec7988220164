"""From pydantic's JSON schema to the structural schema of a CRD.

A structural schema has no references, no `null`, one type for each node, and no union. A union
becomes an untyped node whose bounds no value of a foreign type can meet, so that `kubectl explain`
and type checks still work; booleans are the one type that cannot be kept out this way. No defaults
are written: the stored run stays what its author wrote, descriptions say what is assumed.

Facts, tried on an API server: reference/operators.md, section 6.7. Rules of structural schemas:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Literal, cast

from tare.api.spec import BenchmarkRunSpec

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = ["PRESERVE", "Schema", "find", "spec_schema", "structural"]

Schema = dict[str, Any]
PRESERVE = "x-kubernetes-preserve-unknown-fields"

_KEPT = (
    "enum",
    "format",
    "maxItems",
    "maxLength",
    "maximum",
    "maxProperties",
    "minItems",
    "minLength",
    "minimum",
    "minProperties",
    "oneOf",
    "pattern",
    "required",
)
_IMPOSSIBLE: dict[str, Schema] = {
    "array": {"minItems": 1, "maxItems": 0},
    "number": {"minimum": 1, "maximum": 0},
    "object": {"minProperties": 1, "maxProperties": 0},
    "string": {"minLength": 1, "maxLength": 0},
}
"""Bounds that no value of a type meets."""


@functools.cache
def spec_schema() -> Schema:
    """Return the structural schema of `spec`; shared, so do not change it."""
    return structural(BenchmarkRunSpec)


def structural(
    model: type[BaseModel], mode: Literal["validation", "serialization"] = "validation"
) -> Schema:
    """Write the structural schema of a model."""
    document = model.model_json_schema(by_alias=True, mode=mode)
    return _node(document, document.get("$defs", {}))


def find(schema: Schema, path: tuple[str | int, ...]) -> Schema | None:
    """Return the node at a path of keys and list indices; None when the schema has none."""
    node: Any = schema
    for step in path:
        if isinstance(step, int):
            node = node.get("items")
        else:
            node = node.get("properties", {}).get(step) or node.get("additionalProperties")
        if not isinstance(node, dict):
            return None
    return cast("Schema", node)


def _node(source: Schema, definitions: dict[str, Schema]) -> Schema:
    """Convert one node, references resolved."""
    source = _resolved(source, definitions)
    variants = _variants(source, definitions)
    if len(variants) > 1:
        node = _union(variants, definitions)
    else:
        source = {**variants[0], **source} if variants else source
        node = _plain(source, definitions)
    text = _description(source)
    return {"description": text, **node} if text else node


def _resolved(source: Schema, definitions: dict[str, Schema]) -> Schema:
    """Follow references; what stands beside one (a field's description) wins."""
    while "$ref" in source:
        name = source["$ref"].rpartition("/")[2]
        source = {**definitions[name], **{k: v for k, v in source.items() if k != "$ref"}}
    return source


def _variants(source: Schema, definitions: dict[str, Schema]) -> list[Schema]:
    """List what a union allows besides null; empty for a node that is no union."""
    found: list[Schema] = []
    alternatives = source.get("anyOf") or source.get("oneOf") or []
    for each in alternatives:
        if set(each) == {"required"}:
            return []
        variant = _resolved(each, definitions)
        found.extend(_variants(variant, definitions) or [variant])
    return [variant for variant in found if variant.get("type") != "null"]


def _plain(source: Schema, definitions: dict[str, Schema]) -> Schema:
    node: Schema = {}
    kind = source.get("type")
    if kind is None and "properties" not in source:
        node[PRESERVE] = True
    else:
        node["type"] = kind or "object"
    node |= {key: value for key, value in source.items() if key in _KEPT}
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if bound in source:
            node |= {limit: source[bound], bound: True}
    if "properties" in source:
        node["properties"] = {
            name: _node(each, definitions) for name, each in source["properties"].items()
        }
    elif (values := _map_values(source)) is not None:
        node["additionalProperties"] = _node(values, definitions)
    elif kind == "object":
        node[PRESERVE] = True
    if "items" in source:
        node["items"] = _node(source["items"], definitions)
    return node | {key: value for key, value in source.items() if key.startswith("x-kubernetes-")}


def _map_values(source: Schema) -> Schema | None:
    """Return what a map holds; patterns of its keys are left to the operator."""
    patterns = source.get("patternProperties")
    if patterns:
        return cast("Schema", next(iter(patterns.values())))
    values = source.get("additionalProperties")
    return values if isinstance(values, dict) else None


def _union(variants: list[Schema], definitions: dict[str, Schema]) -> Schema:
    """Merge variants into one node: their bounds side by side, the other types ruled out."""
    kinds = {variant["type"] for variant in variants}
    merged: Schema = {}
    for variant in variants:
        merged |= _plain(variant, definitions)
    del merged["type"]
    merged.pop("description", None)
    if kinds == {"integer", "string"}:
        return merged | {"x-kubernetes-int-or-string": True}
    if "integer" in kinds:
        kinds.add("number")
        merged["multipleOf"] = 1
    for kind, bounds in _IMPOSSIBLE.items():
        if kind not in kinds:
            merged |= bounds
    return merged | {PRESERVE: True}


def _description(source: Schema) -> str:
    """Take the docstring as one paragraph, and say the default."""
    text = " ".join(source.get("description", "").split())
    default = source.get("default")
    if default in (None, {}, []) or isinstance(default, dict):
        return text
    shown = (
        {True: "true", False: "false"}.get(default, default)
        if isinstance(default, bool)
        else default
    )
    return f"{text} Default: {shown}." if default != "" else text
