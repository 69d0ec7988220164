"""Evaluate the CEL rules of our CRD on plain documents.

Only what our rules use: they are found by walking schema and value together, as the API server
does. The engine lacks `lowerAscii`, one of Kubernetes' own functions, so it is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cel

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["broken_rules", "holds"]


def holds(rule: str, **variables: Any) -> bool:
    """Whether a rule holds for `self` and, for transitions, `oldSelf`."""
    context = cel.Context()
    for name, value in variables.items():
        context.add_variable(name, value)
    context.add_function("lowerAscii", str.lower)
    return cel.evaluate(rule, context) is True


def broken_rules(schema: Mapping[str, Any], value: Any) -> Iterator[str]:
    """Yield the messages of all rules that a value breaks; transitions are left out."""
    for entry in schema.get("x-kubernetes-validations", ()):
        if "oldSelf" not in entry["rule"] and not holds(entry["rule"], self=value):
            yield entry["message"]
    if isinstance(value, dict):
        known = schema.get("properties", {})
        for key, each in value.items():
            yield from broken_rules(known.get(key, {}), each)
    elif isinstance(value, list):
        for each in value:
            yield from broken_rules(schema.get("items", {}), each)
