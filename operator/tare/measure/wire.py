"""JSON for frozen dataclasses: what workers and the operator send each other.

Encoding is orjson's. Decoding checks names and types against the dataclass and names the field
that is wrong; pydantic would do the same at 60 ms of a worker's start-up.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

import orjson

__all__ = ["WireError", "decode", "decode_value", "encode"]

T = TypeVar("T")


class WireError(ValueError):
    """A document does not fit its dataclass; the message names the field."""


def encode(value: Any) -> bytes:
    """Encode a dataclass, or plain JSON, as UTF-8 JSON."""
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def decode(kind: type[T], raw: bytes | str) -> T:
    """Decode JSON text into the dataclass `kind`.

    Raises:
        WireError: the text is no JSON, or a field is missing, unknown or of another type.
    """
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise WireError(f"{kind.__name__}: not JSON: {error}") from error
    return typing.cast("T", decode_value(kind, document, kind.__name__))


def decode_value(kind: Any, value: Any, path: str) -> Any:  # noqa: C901 - one case a kind
    """Decode plain JSON into `kind`: a dataclass, an enum, a container of them, or a JSON type."""
    origin = typing.get_origin(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _dataclass(kind, value, path)
    if origin in (typing.Union, types.UnionType):
        return _union(kind, value, path)
    if origin is typing.Literal:
        if value not in typing.get_args(kind):
            raise WireError(f"{path}: {value!r} is none of {typing.get_args(kind)}")
        return value
    if origin in (tuple, list):
        return _sequence(kind, origin, value, path)
    if origin in (dict, Mapping):
        key, item = typing.get_args(kind)
        if not isinstance(value, dict):
            raise WireError(f"{path}: {value!r} is no object")
        return {_key(key, k): decode_value(item, v, f"{path}.{k}") for k, v in value.items()}
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(value)
        except ValueError as error:
            raise WireError(f"{path}: {error}") from error
    return _scalar(kind, value, path)


def _key(kind: Any, key: str) -> Any:
    return int(key) if kind is int else key


def _scalar(kind: Any, value: Any, path: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise WireError(f"{path}: {value!r} is no {getattr(kind, '__name__', kind)}")
    return value


def _sequence(kind: Any, origin: Any, value: Any, path: str) -> Any:
    if not isinstance(value, list):
        raise WireError(f"{path}: {value!r} is no list")
    arguments = typing.get_args(kind)
    if origin is tuple and len(arguments) > 1 and arguments[1] is not Ellipsis:
        if len(arguments) != len(value):
            raise WireError(f"{path}: {len(value)} items, {len(arguments)} expected")
        pairs = zip(arguments, value, strict=True)
        return tuple(decode_value(k, v, f"{path}[{i}]") for i, (k, v) in enumerate(pairs))
    return origin(decode_value(arguments[0], item, f"{path}[{i}]") for i, item in enumerate(value))


def _union(kind: Any, value: Any, path: str) -> Any:
    options = typing.get_args(kind)
    if value is None and type(None) in options:
        return None
    error: WireError | None = None
    for option in options:
        if option is type(None):
            continue
        try:
            return decode_value(option, value, path)
        except WireError as failed:
            error = failed
    raise error or WireError(f"{path}: {value!r} fits none of {options}")


@functools.cache
def _fields(kind: type) -> dict[str, tuple[Any, bool]]:
    hints = typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    return {
        field.name: (
            hints[field.name],
            field.default is missing and field.default_factory is missing,
        )
        for field in dataclasses.fields(kind)
    }


def _dataclass(kind: type, value: Any, path: str) -> Any:
    if not isinstance(value, dict):
        raise WireError(f"{path}: {value!r} is no object")
    fields = _fields(kind)
    if unknown := sorted(value.keys() - fields.keys()):
        raise WireError(f"{path}: unknown field {unknown[0]!r}")
    arguments = {}
    for name, (hint, required) in fields.items():
        if name in value:
            arguments[name] = decode_value(hint, value[name], f"{path}.{name}")
        elif required:
            raise WireError(f"{path}: field {name!r} is missing")
    return kind(**arguments)
