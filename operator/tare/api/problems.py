"""What is wrong with a manifest, in sentences: field path, bad value, what is allowed, what to do.

`check_spec` is the one check of a spec: the operator runs it before it creates anything, and `tare
validate` gives the same answers offline. It sees more than the API server can: unions, key
patterns, fields that this version does not build. Values that may be secret are never shown.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from tare.api import names
from tare.api.fields import is_dns_name
from tare.api.paths import Step, join
from tare.api.schema import Schema, spec_schema
from tare.api.sentences import describe, show, unknown_field
from tare.api.spec import BenchmarkRunSpec
from tare.api.unbuilt import find_unbuilt
from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Problem", "check_manifest", "check_spec"]

_TOP_LEVEL = dict.fromkeys(("apiVersion", "kind", "metadata", "spec", "status"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One thing that is wrong."""

    path: str
    """Path in the manifest, as spec.phases[0].rate."""
    value: Any
    """The bad value; None when it is missing, may be secret, or holds values that may be."""
    message: str
    """The value, what is allowed and what to do."""

    @override
    def __str__(self) -> str:
        """Write it as one line."""
        return f"{self.path}: {self.message}"


def check_spec(document: Any) -> tuple[BenchmarkRunSpec | None, tuple[Problem, ...]]:
    """Check the plain document of a spec; the spec is None when anything is wrong with it.

    Args:
        document: `spec` as JSON. Its sweep is checked for its shape only (see
            `decide.acceptance`).
    """
    if not isinstance(document, dict):
        message = f"{show(document)} is no spec; write an object with endpoint and phases"
        return None, (Problem(path="spec", value=document, message=message),)
    try:
        text = json.dumps(_without_nulls(document, spec_schema()), allow_nan=False)
    except (TypeError, ValueError) as error:
        message = f"holds a value that JSON does not know ({error}); write a number or a text"
        return None, (Problem(path="spec", value=None, message=message),)
    problems: list[Problem] = []
    spec = None
    try:
        spec = BenchmarkRunSpec.model_validate_json(text)
    except ValidationError as error:
        for entry in error.errors(include_url=False):
            problems += [_problem(*each) for each in describe(entry)]
    known = {problem.path for problem in problems}
    problems += [problem for problem in _unbuilt(document) if problem.path not in known]
    return (None if problems else spec), tuple(problems)


def check_manifest(manifest: Any) -> tuple[Problem, ...]:
    """Check what stands around the spec: version, kind, name, and that a spec is there."""
    if not isinstance(manifest, dict):
        return (Problem(path="manifest", value=manifest, message=f"{show(manifest)} is no object"),)
    problems = [
        Problem(path=key, value=None, message=unknown_field(key, _TOP_LEVEL))
        for key in manifest
        if key not in _TOP_LEVEL
    ]
    expected = {"apiVersion": names.API_VERSION, "kind": names.KIND}
    for key, value in expected.items():
        given = manifest.get(key)
        if given != value:
            problems.append(Problem(path=key, value=given, message=f"{show(given)}; use {value}"))
    problems += _check_name(manifest.get("metadata"))
    if "spec" not in manifest:
        message = "is missing; write what to measure, with endpoint and phases"
        problems.append(Problem(path="spec", value=None, message=message))
    return tuple(problems)


def _check_name(metadata: Any) -> Iterator[Problem]:
    """Check the name as Kubernetes does; children of a run get shortened names of their own."""
    metadata = metadata if isinstance(metadata, dict) else {}
    name = metadata.get("name")
    if name is None and metadata.get("generateName"):
        return
    if not isinstance(name, str) or not is_dns_name(name):
        message = (
            f"{show(name)} is no name; use at most 253 lower-case letters, digits, '-' "
            "and '.', with a letter or digit at both ends"
        )
        yield Problem(path="metadata.name", value=name, message=message)


def _problem(path: tuple[Step, ...], value: Any, message: str) -> Problem:
    return Problem(path=join(("spec", *path)), value=value, message=message)


def _unbuilt(document: dict[str, Any]) -> Iterator[Problem]:
    for found in find_unbuilt(document):
        subject = "" if isinstance(found.value, dict | list) else f"{show(found.value)} is "
        yield _problem(
            found.path, found.value, f"{subject}not built in this version; {found.advice}"
        )


def _without_nulls(value: Any, schema: Schema | None) -> Any:
    """Drop known fields without a value, as the API server does; free-form objects keep theirs."""
    if schema is None:
        return value
    if isinstance(value, list):
        return [_without_nulls(each, schema.get("items")) for each in value]
    if not isinstance(value, dict):
        return value
    known = schema.get("properties", {})
    return {
        key: _without_nulls(each, known.get(key))
        for key, each in value.items()
        if each is not None or key not in known
    }
