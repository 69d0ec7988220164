"""Label and field selectors: parsed once per request, then cheap predicates.

Grammar: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api and the
field selectors page beside it. Fields that the real server cannot select by are refused with 400.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping

from tare.devcluster.apiserver.documents import Document, labels_of, path_of
from tare.devcluster.apiserver.errors import bad_request

__all__ = ["Predicate", "field_selector", "label_selector", "match_labels"]

Predicate = Callable[[Document], bool]
_LabelTest = Callable[[Mapping[str, str]], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)$")
_EQUALITY = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!]*)$")
_EXISTS = re.compile(r"^(?P<negated>!?)\s*(?P<key>[^\s=!(),]+)$")


def label_selector(text: str) -> Predicate:
    """Parse a `labelSelector`; 400 when it is not one."""
    tests = [_label_test(part) for part in _split(text)]
    return lambda document: all(test(labels_of(document)) for test in tests)


def field_selector(text: str, selectable: Collection[str]) -> Predicate:
    """Parse a `fieldSelector`; 400 for a field that is not in `selectable`."""
    tests = [_field_test(part, selectable) for part in _split(text)]
    return lambda document: all(test(document) for test in tests)


def match_labels(wanted: Mapping[str, str], document: Document) -> bool:
    """Tell whether an object carries all of `wanted`; an empty selector matches nothing."""
    labels = labels_of(document)
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def _split(text: str) -> Iterator[str]:
    """Split at the commas that stand outside parentheses."""
    for part in re.split(r",(?![^(]*\))", text):
        if part.strip():
            yield part.strip()


def _label_test(part: str) -> _LabelTest:
    if found := _SET.match(part):
        key = found["key"]
        values = {value.strip() for value in found["values"].split(",")}
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUALITY.match(part):
        key, value = found["key"], found["value"]
        if found["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key, wanted = found["key"], not found["negated"]
        return lambda labels: (key in labels) == wanted
    raise bad_request(f"unable to parse requirement: {part!r} is not a label selector")


def _field_test(part: str, selectable: Collection[str]) -> Predicate:
    found = _EQUALITY.match(part)
    if found is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    path, value, wanted = found["key"], found["value"], found["operator"] != "!="
    if path not in selectable:
        raise bad_request(f"field label not supported: {path}")
    return lambda document: (_text(path_of(document, path)) == value) == wanted


def _text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case _:
            return str(value)
