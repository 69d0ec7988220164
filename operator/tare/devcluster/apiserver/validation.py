"""Validation of custom resources: schema, list types, then CEL rules.

A value that did not change in an update is not refused for an old fault ("ratcheting", on by
default since Kubernetes 1.30), which also makes a status patch cheap: the spec is not walked.
The words of the messages are the real server's (kube-openapi's `validation/errors`).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any

import orjson

from tare.devcluster.apiserver.cel import (
    Context,
    Rule,
    RuleError,
    context_of,
    escape,
    object_view,
)
from tare.devcluster.apiserver.errors import FieldError, FieldErrorType

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.schema import Schema

__all__ = ["type_name", "validate"]

Errors = Iterator[FieldError]

_BLOCKING = {
    FieldErrorType.NOT_SUPPORTED,
    FieldErrorType.REQUIRED,
    FieldErrorType.TOO_LONG,
    FieldErrorType.TOO_MANY,
    FieldErrorType.TYPE_INVALID,
}
_RULES_SKIPPED = FieldError(
    FieldErrorType.INVALID,
    "",
    "some validation rules were not checked because the object was invalid; "
    "correct the existing errors to complete validation",
)
_INT32 = 2**31


def validate(schema: Schema, new: Document, old: Document | None) -> list[FieldError]:
    """Check an object against its schema; `old` is None for a creation."""
    errors = list(_value(schema, new, old, ""))
    if any(error.kind in _BLOCKING for error in errors):
        return [*errors, _RULES_SKIPPED]
    shown_old = None if old is None else object_view(schema, old)
    errors += _rules(schema, object_view(schema, new), shown_old, "")
    return errors


def type_name(value: Any) -> str:
    """Name a JSON value's type as OpenAPI does."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _value(schema: Schema, value: Any, old: Any, path: str) -> Errors:
    if old is not None and value == old:
        return
    if value is None and (schema.nullable or not schema.type):
        return
    if not _has_type(schema, value):
        yield _wrong_type(schema, value, path)
        return
    if schema.enum is not None and value not in schema.enum:
        allowed = ", ".join(f'"{_plain(item)}"' for item in schema.enum)
        detail = f"supported values: {allowed}"
        yield FieldError(FieldErrorType.NOT_SUPPORTED, path, detail, value)
    match value:
        case str():
            yield from _string(schema, value, path)
        case dict():
            yield from _object(schema, value, old if isinstance(old, dict) else {}, path)
        case list():
            yield from _list(schema, value, old if isinstance(old, list) else [], path)
        case int() | float() if not isinstance(value, bool):
            yield from _number(schema, value, path)
        case _:
            pass
    yield from _junctors(schema, value, path)


def _has_type(schema: Schema, value: Any) -> bool:
    if schema.int_or_string:
        return isinstance(value, int | str) and not isinstance(value, bool)
    actual = type_name(value)
    match schema.type:
        case "":
            return True
        case "number":
            return actual in {"number", "integer"}
        case "integer":
            return actual == "integer" or (isinstance(value, float) and value.is_integer())
        case wanted:
            return actual == wanted


def _wrong_type(schema: Schema, value: Any, path: str) -> FieldError:
    wanted = "integer,string" if schema.int_or_string else schema.type
    actual = type_name(value)
    detail = f'{path} in body must be of type {wanted}: "{actual}"'
    return FieldError(FieldErrorType.TYPE_INVALID, path, detail, actual)


def _invalid(path: str, value: Any, rule: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, path, f"{path} in body {rule}", value)


def _string(schema: Schema, value: str, path: str) -> Errors:
    """Check a text; its first fault is the only one, as the real server reports it."""
    if schema.max_length is not None and len(value) > schema.max_length:
        unit = "byte" if schema.max_length == 1 else "bytes"
        detail = f"may not be more than {schema.max_length} {unit}"
        yield FieldError(FieldErrorType.TOO_LONG, path, detail)
    elif schema.min_length is not None and len(value) < schema.min_length:
        yield _invalid(path, value, f"should be at least {schema.min_length} chars long")
    elif schema.pattern is not None and not schema.pattern.search(value):
        yield _invalid(path, value, f"should match '{schema.pattern.pattern}'")
    elif schema.format == "date-time" and not _is_date_time(value):
        yield _invalid(path, value, f'must be of type date-time: "{value}"')


def _is_date_time(value: str) -> bool:
    try:
        return datetime.fromisoformat(value).tzinfo is not None
    except ValueError:
        return False


def _number(schema: Schema, value: float, path: str) -> Errors:
    if (low := schema.minimum) is not None:
        if schema.exclusive_minimum and value <= low:
            yield _invalid(path, value, f"should be greater than {low:g}")
        elif value < low:
            yield _invalid(path, value, f"should be greater than or equal to {low:g}")
    if (high := schema.maximum) is not None:
        if schema.exclusive_maximum and value >= high:
            yield _invalid(path, value, f"should be less than {high:g}")
        elif value > high:
            yield _invalid(path, value, f"should be less than or equal to {high:g}")
    if schema.multiple_of is not None and value % schema.multiple_of:
        yield _invalid(path, value, f"should be a multiple of {schema.multiple_of:g}")
    if schema.format == "int32" and not -_INT32 <= value < _INT32:
        yield _invalid(path, value, f'must be of type int32: "{value}"')


def _too_many(path: str, actual: int, allowed: int) -> FieldError:
    items = "item" if allowed == 1 else "items"
    return FieldError(FieldErrorType.TOO_MANY, path, f"must have at most {allowed} {items}", actual)


def _object(schema: Schema, value: Document, old: Document, path: str) -> Errors:
    if schema.max_properties is not None and len(value) > schema.max_properties:
        yield _too_many(path, len(value), schema.max_properties)
    if schema.min_properties is not None and len(value) < schema.min_properties:
        yield _invalid(path, len(value), f"should have at least {schema.min_properties} properties")
    # By name, as the real server reports them.
    for key in sorted({*value, *schema.required}):
        where = f"{path}.{key}" if path else key
        if key in value:
            child = schema.child(key)
            if child is not None:
                yield from _value(child, value[key], old.get(key), where)
        else:
            yield FieldError(FieldErrorType.REQUIRED, where)


def _list(schema: Schema, value: list[Any], old: list[Any], path: str) -> Errors:
    if schema.max_items is not None and len(value) > schema.max_items:
        yield _too_many(path, len(value), schema.max_items)
    if schema.min_items is not None and len(value) < schema.min_items:
        yield _invalid(path, len(value), f"should have at least {schema.min_items} items")
    if schema.items is not None:
        before = _by_key(schema, old)
        for index, item in enumerate(value):
            same = before.get(_key(schema, item, index))
            yield from _value(schema.items, item, same, f"{path}[{index}]")
    yield from _duplicates(schema, value, path)


def _duplicates(schema: Schema, value: list[Any], path: str) -> Errors:
    if schema.list_type not in {"set", "map"}:
        return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        shown = item
        if schema.list_type == "map" and isinstance(item, dict):
            shown = {key: item[key] for key in schema.list_map_keys if key in item}
        key = orjson.dumps(shown, option=orjson.OPT_SORT_KEYS)
        if key in seen:
            yield FieldError(FieldErrorType.DUPLICATE, f"{path}[{index}]", "", shown)
        seen.add(key)


def _key(schema: Schema, item: Any, index: int) -> Any:
    """Tell which old item a new one is compared with: the one of its key, in maps alone."""
    if schema.list_type == "map" and isinstance(item, dict):
        return tuple(str(item.get(key)) for key in schema.list_map_keys)
    return index


def _by_key(schema: Schema, items: list[Any]) -> dict[Any, Any]:
    return {_key(schema, item, index): item for index, item in enumerate(items)}


def _junctors(schema: Schema, value: Any, path: str) -> Errors:
    for part in schema.all_of:
        yield from _value(part, value, None, path)
    if schema.any_of:
        tries = [list(_value(part, value, None, path)) for part in schema.any_of]
        if all(tries):
            yield _no_match(path, "must validate at least one schema (anyOf)")
            yield from tries[0]
    if schema.one_of:
        tries = [list(_value(part, value, None, path)) for part in schema.one_of]
        if sum(not errors for errors in tries) != 1:
            yield _no_match(path, "must validate one and only one schema (oneOf)")
    if schema.negated is not None and not list(_value(schema.negated, value, None, path)):
        yield _no_match(path, "must not validate the schema (not)")


def _no_match(path: str, rule: str) -> FieldError:
    return FieldError(FieldErrorType.INVALID, "", f'"{path}" {rule}', "")


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _rules(schema: Schema, value: Any, old: Any, path: str) -> Errors:
    """Ask the rules of a node and of the nodes below it; the values are CEL's views."""
    if value is None:
        return
    unchanged = old is not None and value == old
    asked = [
        rule for rule in schema.rules if (old is not None if rule.transition else not unchanged)
    ]
    if asked:
        context = context_of(value, old)
        for rule in asked:
            yield from _ask(schema, rule, context, path)
    match value:
        case dict():
            before = old if isinstance(old, dict) else {}
            for key, child in schema.properties.items():
                where, shown = f"{path}.{key}" if path else key, escape(key)
                yield from _rules(child, value.get(shown), before.get(shown), where)
            if schema.values is not None:
                for key, item in value.items():
                    yield from _rules(schema.values, item, before.get(key), f"{path}[{key}]")
        case list() if schema.items is not None:
            # Items of a list have no identity but in a map, so only there is an old self.
            known = _by_key(schema, old or []) if schema.list_type == "map" else {}
            for index, item in enumerate(value):
                same = known.get(_key(schema, item, index))
                yield from _rules(schema.items, item, same, f"{path}[{index}]")
        case _:
            pass


def _ask(schema: Schema, rule: Rule, context: Context, path: str) -> Errors:
    where = path + rule.field_path
    try:
        if rule.holds(context):
            return
        message = rule.explain(context)
    except RuleError as error:
        yield FieldError(FieldErrorType.INVALID, path, str(error), schema.type)
        return
    match rule.reason:
        case "FieldValueForbidden":
            yield FieldError(FieldErrorType.FORBIDDEN, where, message)
        case "FieldValueRequired":
            yield FieldError(FieldErrorType.REQUIRED, where, message)
        case "FieldValueDuplicate":
            yield FieldError(FieldErrorType.DUPLICATE, where, "", schema.type)
        case _:
            yield FieldError(FieldErrorType.INVALID, where, message, schema.type)
