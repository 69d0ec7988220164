"""Validation rules of custom resources in CEL (`x-kubernetes-validations`).

The engine is the cel-rust binding of PyPI's `common-expression-language`. It is dynamic: the real
server also type-checks a rule and estimates its cost when the CRD is created, which only the
conformance suite on a real server can see. `optionalOldSelf` and `.?` are not supported.
https://kubernetes.io/docs/reference/using-api/cel/
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import cel
from cel.stdlib import EXTENSIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tare.devcluster.apiserver.documents import Document
    from tare.devcluster.apiserver.schema import Schema

__all__ = [
    "CompileError",
    "Context",
    "Rule",
    "RuleError",
    "context_of",
    "escape",
    "object_view",
    "view",
]

Context = cel.Context

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_SYMBOLS = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_SYMBOL = re.compile(r"__|[./-]")
_ENGINE_ERRORS = (KeyError, IndexError, TypeError, ValueError, RuntimeError, ArithmeticError)


class CompileError(ValueError):
    """The rule is not CEL."""


class RuleError(Exception):
    """The rule could not be evaluated: a missing key, an overload that does not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One compiled rule of a schema node."""

    source: str
    message: str
    field_path: str
    reason: str
    transition: bool
    """It names `oldSelf`, so it is only asked on updates of a value that was there before."""
    program: cel.Program
    message_program: cel.Program | None

    @classmethod
    def compile(cls, raw: Mapping[str, str]) -> Rule:
        """Compile an entry of `x-kubernetes-validations`."""
        source = raw["rule"].strip()
        expression = raw.get("messageExpression")
        program = _compile(source)
        return cls(
            source=source,
            message=raw.get("message", "").strip() or f"failed rule: {source}",
            field_path=raw.get("fieldPath", ""),
            reason=raw.get("reason", ""),
            transition="oldSelf" in program.variables(),
            program=program,
            message_program=_compile(expression) if expression else None,
        )

    def holds(self, context: Context) -> bool:
        """Evaluate on the new and the old value; `RuleError` when it cannot be."""
        try:
            return self.program.execute(context) is True
        except _ENGINE_ERRORS as error:
            raise RuleError(f"{error} evaluating rule: {self.source}") from error

    def explain(self, context: Context) -> str:
        """Return the message for a value that failed."""
        if self.message_program is not None:
            try:
                return str(self.message_program.execute(context))
            except _ENGINE_ERRORS:
                return self.message
        return self.message


def _compile(source: str) -> cel.Program:
    try:
        return cel.compile(source)
    except ValueError as error:
        raise CompileError(f"compilation failed: {error}") from error


def view(schema: Schema, value: Any) -> Any:
    """Show a value as CEL sees it: typed fields only, names escaped, `number` as double."""
    match value:
        case dict():
            return {
                escape(key) if key in schema.properties else key: view(child, item)
                for key, item in value.items()
                if item is not None and (child := schema.child(key)) is not None
            }
        case list() if schema.items is not None:
            return [view(schema.items, item) for item in value]
        case int() if schema.type == "number" and not isinstance(value, bool):
            return float(value)
        case _:
            return value


@cache
def escape(name: str) -> str:
    """Write a field's name as a rule must: reserved words and symbols are escaped."""
    if name in _RESERVED:
        return f"__{name}__"
    return _SYMBOL.sub(lambda found: _SYMBOLS[found.group()], name)


def context_of(value: Any, old: Any) -> Context:
    """Hand the views of a new and an old value to the rules of their node.

    One serves all of them: to copy the values into the engine takes longer than a rule.
    """
    return Context({"self": value, "oldSelf": old}, _FUNCTIONS)


def _is_url(text: str) -> bool:
    """Follow Go's `url.ParseRequestURI`, which `isURL` is made of."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return bool(parts.scheme and parts.netloc) or (not parts.scheme and text.startswith("/"))


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group() if found else ""


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **EXTENSIONS["core"],
    **EXTENSIONS["strings"],
    **EXTENSIONS["sets"],
    "isURL": _is_url,
    "find": _find,
    "findAll": lambda text, pattern: [found.group() for found in re.finditer(pattern, text)],
    "isSorted": lambda items: list(items) == sorted(items),
}
"""Kubernetes' own libraries, as far as rules of CRDs use them; the engine has the core ones."""


def object_view(schema: Schema, document: Document) -> Document:
    """Show a whole object; of its metadata a rule sees the names only."""
    shown: Document = view(schema, document)
    metadata = document.get("metadata") or {}
    shown["metadata"] = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
    return shown
