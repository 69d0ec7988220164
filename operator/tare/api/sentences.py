"""From pydantic's errors to sentences for people.

Each says what is wrong with which value, what is allowed and what to do. What is allowed comes from
the schema, so that a new field needs no new sentence; an unknown field gets the closest right name,
the camelCase spelling, or the place where a field of that name exists.
"""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from pydantic.alias_generators import to_camel

from tare.api.fields import BROKEN_RULES, NO_VARIANT, PATTERN_WORDS, Rule
from tare.api.paths import Step, join
from tare.api.schema import Schema, find, spec_schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from pydantic_core import ErrorDetails

__all__ = ["describe", "show", "unknown_field"]

Sentence = tuple[tuple[Step, ...], Any, str]
"""Path below spec, bad value, sentence."""

_SHOWN = 80
"""Characters of a bad value that are worth reading."""
_NOT_STEPS = ("[key]",)
"""What pydantic adds to the path of a map's key."""
_SHAPES = {
    "bool_type": "is no switch; write true or false",
    "dict_type": "is no object; write `name: value` lines below it",
    "float_type": "is no number; write one without quotes",
    "int_from_float": "is no whole number; remove the fraction",
    "int_type": "is no whole number; write one without quotes",
    "list_type": "is no list; write one, with a dash before each item",
    "model_type": "is no object; write `name: value` lines below it",
    "string_type": "is no text; put it in quotes",
    "tuple_type": "is no list; write one, with a dash before each item",
}
"""Error types about the shape of a value, with what to write instead."""


def describe(error: ErrorDetails) -> Iterator[Sentence]:
    """Say in sentences what one error of pydantic means."""
    path = tuple(step for step in error["loc"] if not _is_tag(step))
    context = error.get("ctx", {})
    if error["type"] == BROKEN_RULES:
        for rule in context[BROKEN_RULES]:
            yield _broken(path, rule, context["document"])
        return
    secret = _may_be_secret(path, error["input"])
    value = None if secret else error["input"]
    match error["type"]:
        case "too_short" if len(error["input"]) >= context["min_length"]:
            return  # pydantic counts the items that passed; those that did not are reported
        case "missing":
            yield path, None, f"is missing; add it: {_about(path)}"
        case "extra_forbidden":
            owner = find(spec_schema(), path[:-1]) or {}
            yield path, None, unknown_field(str(path[-1]), owner.get("properties", {}))
        case _:
            subject = "the value" if secret else show(value)
            yield path, value, f"{subject} {_predicate(path, error)}"


def unknown_field(name: str, known: Mapping[str, Any]) -> str:
    """Say what an unknown field was probably meant to be; `known` are the fields that exist there.

    The value is left out: a misspelt `apiKey` would carry a secret into a message.
    """
    camel = to_camel(name)
    if camel != name and camel in known:
        return f"unknown field; names are in camelCase, write {camel}"
    close = get_close_matches(camel, known, n=1)
    if close:
        return f"unknown field; did you mean {close[0]}?"
    elsewhere = _places(camel)
    if len(elsewhere) == 1:
        return f"unknown field here; {camel} stands at {elsewhere[0]}"
    allowed = ", ".join(known) or "none"
    return f"unknown field; remove it. Allowed here: {allowed}"


def show(value: Any) -> str:
    """Write a value as people wrote it, cut to a readable length."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    text = text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
    return f"'{text}'" if isinstance(value, str) else text


def _is_tag(step: Step) -> bool:
    """Whether a step of pydantic's path is the name of a union's variant, or another addition."""
    return isinstance(step, str) and (step.startswith("<") or step in _NOT_STEPS)


def _may_be_secret(path: tuple[Step, ...], value: Any) -> bool:
    """Whether a value must not be shown: that of a header or variable, a URL with a password."""
    if isinstance(value, str) and "://" in value and "@" in value:
        return True
    return path[-1:] == ("value",) and ("headers" in path or "env" in path)


def _about(path: tuple[Step, ...]) -> str:
    """What a field is for, from its description."""
    text = str((find(spec_schema(), path) or {}).get("description", path[-1]))
    sentence = text.partition(". ")[0].rstrip(".")
    return sentence[0].lower() + sentence[1:]


def _broken(path: tuple[Step, ...], rule: Rule, document: Mapping[str, Any]) -> Sentence:
    """Blame the rule's field, and show what is written there if that is short and harmless."""
    value = document.get(rule.field) if rule.field else None
    path = (*path, rule.field) if rule.field else path
    if isinstance(value, str | int | float):
        return path, value, f"{show(value)}: {rule.message}"
    return path, None, rule.message


def _predicate(path: tuple[Step, ...], error: ErrorDetails) -> str:
    """Say what is wrong with a value, and what is allowed."""
    kind, context, value = error["type"], error.get("ctx", {}), error["input"]
    if kind in _SHAPES:
        return _SHAPES[kind]
    match kind:
        case "literal_error":
            words = f"is not allowed; {_choices(path, value)}"
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            words = f"is out of range; {_range(find(spec_schema(), path) or {}, context)}"
        case "string_pattern_mismatch":
            words = f"does not fit; {PATTERN_WORDS[context['pattern']]}"
        case "string_too_short":
            words = "is empty; write something, or remove the line"
        case "string_too_long":
            words = f"is {len(value)} characters long; at most {context['max_length']} fit"
        case "too_short":
            words = f"has too few entries; give at least {context['min_length']}"
        case "too_long":
            words = f"has {context['actual_length']} entries; at most {context['max_length']} fit"
        case _ if kind == NO_VARIANT:
            words = f"does not fit; {error['msg']}"
        case _:
            words = f"does not fit; see `kubectl explain benchmarkrun.spec.{join(path)}`"
    return words


def _choices(path: tuple[Step, ...], value: Any) -> str:
    allowed = [str(each) for each in (find(spec_schema(), path) or {}).get("enum", ())]
    close = get_close_matches(str(value), allowed, n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"use one of {', '.join(allowed)}{hint}"


def _range(schema: Schema, context: Mapping[str, Any]) -> str:
    """Write the range of a number, both ends where both are known."""
    low = schema.get("minimum", context.get("ge", context.get("gt")))
    high = schema.get("maximum", context.get("le", context.get("lt")))
    above = "more than " if schema.get("exclusiveMinimum") or "gt" in context else ""
    if low is None:
        return f"use at most {high}"
    if high is None:
        return f"use {above or 'at least '}{low}"
    return f"use a number from {above}{low} to {high}"


def _places(name: str) -> list[str]:
    return [join(("spec", *path)) for path in _paths_of(name, spec_schema(), ())]


def _paths_of(name: str, schema: Schema, path: tuple[Step, ...]) -> Iterable[tuple[Step, ...]]:
    """Find where the schema has a field of a name."""
    for key, below in schema.get("properties", {}).items():
        here = (*path, key)
        if key == name:
            yield here
        yield from _paths_of(name, below, here)
        if "items" in below:
            yield from _paths_of(name, below["items"], (*here[:-1], f"{key}[]"))
