"""From a request's body to a document: media type, kind, unknown fields, types.

`fieldValidation` decides about unknown fields: Strict refuses, Warn (the default) drops them and
tells the client in a `Warning` header, Ignore drops them silently.
https://kubernetes.io/docs/reference/using-api/api-concepts/#field-validation
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from tare.devcluster.apiserver import protobuf
from tare.devcluster.apiserver.errors import ApiError, bad_request, unsupported_media_type
from tare.devcluster.apiserver.pruning import prune
from tare.devcluster.apiserver.schema import FREE, Schema
from tare.devcluster.apiserver.validation import type_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.resources import Resource

__all__ = [
    "FieldValidation",
    "check_kind",
    "conform",
    "parse_body",
    "strict_error",
    "unknown_fields",
]

_JSON = "application/json"
_YAML = "application/yaml"
_GO_TYPES = {"int32": "int32", "int64": "int64", "number": "float64", "boolean": "bool"}


class FieldValidation(StrEnum):
    """What to do about fields that the schema does not know."""

    IGNORE = "Ignore"
    WARN = "Warn"
    STRICT = "Strict"


def parse_body(raw: bytes, media_type: str) -> Any:
    """Parse a body; 415 for a type that is not served, 400 for one that is not what it says."""
    if media_type == protobuf.MEDIA_TYPE:
        return protobuf.decode(raw)
    if media_type.endswith("yaml"):
        try:
            return orjson.loads(raw)  # kubectl sends JSON under the YAML type
        except orjson.JSONDecodeError:
            return _parse_yaml(raw)
    if media_type not in {_JSON, ""} and not media_type.endswith("+json"):
        raise unsupported_media_type([_JSON, _YAML])
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_request(f"the body is not JSON: {error}") from error


def _parse_yaml(raw: bytes) -> Any:
    try:
        return yaml.safe_load(raw)
    except yaml.YAMLError as error:
        raise bad_request(f"the body is not YAML: {error}") from error


def check_kind(resource: Resource, document: Any) -> Document:
    """Refuse a body that is not an object of the resource's kind and version."""
    if not isinstance(document, dict):
        raise bad_request(
            f"{resource.kind} cannot be read: the body is a JSON {type_name(document)}, "
            "not an object"
        )
    if resource.custom and "kind" not in document:  # built-in kinds are known by the path
        raise bad_request(
            f"the object provided is unrecognized (must be of type {resource.kind}): Object "
            "'Kind' is missing"
        )
    for field, wanted, what in (
        ("apiVersion", resource.api_version, "API version"),
        ("kind", resource.kind, "kind"),
    ):
        if document.setdefault(field, wanted) != wanted:
            raise bad_request(
                f"the {what} in the data ({document[field]}) does not match the expected {what} "
                f"({wanted})"
            )
    if not isinstance(document.setdefault("metadata", {}), dict):
        raise bad_request("metadata must be an object")
    return document


def conform(
    resource: Resource, document: Document, validation: FieldValidation, metadata: Schema
) -> list[str]:
    """Drop unknown fields, in place, and check types; return warnings for the client."""
    unknown = unknown_fields(resource, document, metadata)
    wrong = _wrong_type(resource.schema, document, "") if not resource.custom else ""
    if wrong:
        raise _cannot_be_handled(resource, f"json: cannot unmarshal {wrong}")
    if unknown and validation is FieldValidation.STRICT:
        raise _cannot_be_handled(resource, strict_error(unknown))
    if validation is FieldValidation.WARN:
        return [f'unknown field "{path}"' for path in unknown]
    return []


def unknown_fields(resource: Resource, document: Document, metadata: Schema) -> list[str]:
    """Drop the fields that neither the schema nor `ObjectMeta` know; return their paths, sorted."""
    root = resource.schema
    if resource.custom and root is not FREE:
        content = {key: document.pop(key) for key in _TYPE_META if key in document}
        about = document.pop("metadata")
        unknown = prune(root, document)
        # The fields that are not the schema's stand in front again.
        rest = dict(document)
        document.clear()
        document.update(**content, metadata=about, **rest)
    else:
        unknown = prune(root, document)
    return sorted(unknown + prune(metadata, document["metadata"], "metadata"))


_TYPE_META = ("apiVersion", "kind")


def strict_error(unknown: Sequence[str]) -> str:
    """Word the refusal of unknown fields."""
    return "strict decoding error: " + ", ".join(f'unknown field "{path}"' for path in unknown)


def _cannot_be_handled(resource: Resource, why: str) -> ApiError:
    return bad_request(
        f'{resource.kind} in version "{resource.version}" cannot be handled as a '
        f"{resource.kind}: {why}"
    )


def _wrong_type(schema: Schema, value: Any, path: str) -> str:
    """Find the first value that a built-in kind cannot hold, worded as Go's decoder does."""
    if value is None or not schema.type:
        return ""
    actual = type_name(value)
    fits = actual == schema.type or (schema.type == "number" and actual == "integer")
    if not fits:
        go_type = _GO_TYPES.get(schema.format) or _GO_TYPES.get(schema.type, schema.type)
        return f"{actual} into Go struct field {path.lstrip('.')} of type {go_type}"
    match value:
        case dict():
            parts = ((f"{path}.{key}", schema.child(key), item) for key, item in value.items())
        case list():
            parts = ((path, schema.items, item) for item in value)
        case _:
            return ""
    for where, child, item in parts:
        if child is not None and (wrong := _wrong_type(child, item, where)):
            return wrong
    return ""
