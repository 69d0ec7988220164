"""Schemas compiled into nodes: one form for built-in kinds and for custom resources.

Built-in kinds come from the OpenAPI documents of Kubernetes and refer to each other by `$ref`,
custom ones are structural schemas of a CRD. Everything that reads a schema (pruning, defaults,
validation, CEL, strategic merge, server-side apply) walks these nodes and never the JSON.
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#specifying-a-structural-schema
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tare.devcluster.apiserver.cel import Rule

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document

__all__ = ["ABSENT", "FREE", "Definitions", "Schema", "compile_structural"]


class _Absent:
    """Marks a missing default, since null is a possible one."""


ABSENT: Final = _Absent()


@dataclass(slots=True, kw_only=True, eq=False)
class Schema:
    """One node; treat as immutable once compiled (recursive kinds need the late assignment)."""

    type: str = ""
    """Empty: any type."""
    properties: dict[str, Schema] = field(default_factory=dict)
    values: Schema | None = None
    """Schema of a map's values (`additionalProperties`)."""
    items: Schema | None = None
    required: Sequence[str] = ()
    enum: Sequence[Any] | None = None
    nullable: bool = False
    default: Any = ABSENT
    format: str = ""
    minimum: float | None = None
    maximum: float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: float | None = None
    pattern: re.Pattern[str] | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    all_of: Sequence[Schema] = ()
    any_of: Sequence[Schema] = ()
    one_of: Sequence[Schema] = ()
    negated: Schema | None = None
    preserve_unknown: bool = False
    embedded: bool = False
    int_or_string: bool = False
    list_type: str = "atomic"
    list_map_keys: Sequence[str] = ()
    map_type: str = "granular"
    patch_strategy: str = ""
    patch_merge_key: str = ""
    rules: Sequence[Rule] = ()

    def child(self, key: str) -> Schema | None:
        """Return the schema of an object's field or a map's value; None when it is not known."""
        return self.properties.get(key) or self.values


FREE: Final = Schema(preserve_unknown=True)
"""Anything goes."""

_PLAIN: Final = {
    "type": "type",
    "required": "required",
    "enum": "enum",
    "nullable": "nullable",
    "default": "default",
    "format": "format",
    "minimum": "minimum",
    "maximum": "maximum",
    "exclusiveMinimum": "exclusive_minimum",
    "exclusiveMaximum": "exclusive_maximum",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "minItems": "min_items",
    "maxItems": "max_items",
    "minProperties": "min_properties",
    "maxProperties": "max_properties",
    "x-kubernetes-preserve-unknown-fields": "preserve_unknown",
    "x-kubernetes-embedded-resource": "embedded",
    "x-kubernetes-int-or-string": "int_or_string",
    "x-kubernetes-list-type": "list_type",
    "x-kubernetes-list-map-keys": "list_map_keys",
    "x-kubernetes-map-type": "map_type",
    "x-kubernetes-patch-strategy": "patch_strategy",
    "x-kubernetes-patch-merge-key": "patch_merge_key",
}
_JUNCTORS: Final = {"allOf": "all_of", "anyOf": "any_of", "oneOf": "one_of"}


def compile_structural(raw: Document) -> Schema:
    """Compile the `openAPIV3Schema` of a CRD; raises `CompileError` for a rule that is not CEL."""
    node = Schema(**{name: raw[key] for key, name in _PLAIN.items() if key in raw})
    if "pattern" in raw:
        node.pattern = re.compile(raw["pattern"])
    node.properties = {
        key: compile_structural(value) for key, value in (raw.get("properties") or {}).items()
    }
    if isinstance(raw.get("additionalProperties"), dict):
        node.values = compile_structural(raw["additionalProperties"])
    if isinstance(raw.get("items"), dict):
        node.items = compile_structural(raw["items"])
    for key, name in _JUNCTORS.items():
        if not node.int_or_string:  # there anyOf only repeats what the extension says
            setattr(node, name, [compile_structural(value) for value in raw.get(key) or ()])
    if isinstance(raw.get("not"), dict):
        node.negated = compile_structural(raw["not"])
    node.rules = [Rule.compile(rule) for rule in raw.get("x-kubernetes-validations") or ()]
    return node


class Definitions:
    """The built-in kinds: `components.schemas` of the OpenAPI documents, compiled on demand."""

    def __init__(self, raw: Mapping[str, Document]) -> None:
        self.raw = raw
        self._compiled: dict[str, Schema] = {}

    def schema(self, name: str) -> Schema:
        """Compile a definition; a kind that contains itself gets the same node back."""
        if name in self._compiled:
            return self._compiled[name]
        node = Schema()
        self._compiled[name] = node
        self._fill(node, self.raw[name])
        return node

    def _resolve(self, raw: Document) -> Schema:
        reference = raw.get("$ref") or next(
            (part["$ref"] for part in raw.get("allOf") or () if "$ref" in part), None
        )
        if reference is not None:
            return self.schema(reference.rpartition("/")[2])
        node = Schema()
        self._fill(node, raw)
        return node

    def _fill(self, node: Schema, raw: Document) -> None:
        """Copy what the server checks while it decodes; limits are checked by code there."""
        if raw.get("format") == "int-or-string":
            node.int_or_string = True
            return
        if "oneOf" in raw:  # a quantity: number or string
            return
        for key in ("type", "required", "format"):
            if key in raw:
                setattr(node, key, raw[key])
        for key, name in _PLAIN.items():
            if key.startswith("x-kubernetes-") and key in raw:
                setattr(node, name, raw[key])
        node.nullable = True  # null reads as "not set" for every built-in field
        node.properties = {
            key: self._resolve(value) for key, value in (raw.get("properties") or {}).items()
        }
        if isinstance(raw.get("additionalProperties"), dict):
            node.values = self._resolve(raw["additionalProperties"])
        if isinstance(raw.get("items"), dict):
            node.items = self._resolve(raw["items"])
        if node.type in {"", "object"} and not node.properties and node.values is None:
            node.preserve_unknown = True
