"""The part of JSONPath that printer columns use: fields, indices, wildcards, simple filters.

https://kubernetes.io/docs/reference/kubectl/jsonpath/ . A path that finds nothing gives an empty
list, never an error, as in `additionalPrinterColumns`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import orjson

__all__ = ["find"]

_Step = Callable[[Any], Sequence[Any]]

_TOKEN = re.compile(
    r"""
    \[\?\(\s*@\.(?P<filter>[\w.-]+)\s*(?P<operator>==|!=)\s*(?P<wanted>"[^"]*"|'[^']*'|[\w.-]+)\s*\)\]
    | \[(?P<index>-?\d+)\]
    | (?P<wildcard>\[\*\]|\.\*)
    | \[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]
    | \.(?P<field>(?:\\.|[^.\[\]\\])+)
    """,
    re.VERBOSE,
)


def find(path: str, document: Any) -> list[Any]:
    """Return every value that the path selects."""
    values = [document]
    for step in _steps(path):
        values = [found for value in values for found in step(value)]
    return values


@lru_cache(maxsize=256)
def _steps(path: str) -> Sequence[_Step]:
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps, position = [], 0
    while position < len(text):
        token = _TOKEN.match(text, position)
        if token is None:
            raise ValueError(f"unsupported JSONPath {path!r} at {text[position:]!r}")
        steps.append(_step(token))
        position = token.end()
    return steps


def _step(token: re.Match[str]) -> _Step:
    if token["filter"]:
        field, wanted = token["filter"], _literal(token["wanted"])
        equal = token["operator"] == "=="
        return lambda value: [
            item for item in _items(value) if (_field(item, field) == wanted) == equal
        ]
    if token["index"]:
        index = int(token["index"])
        return lambda value: value[index:][:1] if isinstance(value, list) else []
    if token["wildcard"]:
        return _items
    name = token["quoted"] or re.sub(r"\\(.)", r"\1", token["field"] or "")
    return lambda value: [value[name]] if isinstance(value, dict) and name in value else []


def _items(value: Any) -> Sequence[Any]:
    match value:
        case list():
            return value
        case dict():
            return list(value.values())
        case _:
            return []


def _field(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
