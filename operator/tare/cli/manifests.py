"""Read manifests as kubectl does: YAML of several documents, from a file or standard input.

Two habits of YAML would make an offline check lie: a date-like text becomes a date, and a key that
stands twice silently wins. Here the first stays a text and the second is an error, as on the API
server.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["STDIN", "ManifestError", "name_of", "read_documents"]

STDIN = "-"
_MERGE = "tag:yaml.org,2002:merge"
_TIMESTAMP = "tag:yaml.org,2002:timestamp"


class ManifestError(ValueError):
    """A file cannot be read as YAML; the message names it and the line."""


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes means it."""

    @override
    def construct_mapping(
        self,
        node: yaml.MappingNode,
        deep: bool = False,  # noqa: FBT002 - the signature of PyYAML
    ) -> dict[Any, Any]:
        """Build a mapping with distinct texts as keys."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == _MERGE:
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is no text; put it in quotes", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice; remove one", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [pair for pair in pairs if pair[0] != _TIMESTAMP]
    for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def name_of(run: Mapping[str, Any]) -> str:
    """Return the name of a checked run; the beginning of it when the API server draws the rest."""
    metadata = run["metadata"]
    return str(metadata.get("name") or metadata["generateName"])


def read_documents(source: str) -> Iterator[Any]:
    """Yield the documents of a file, or of standard input for `-`; empty ones are left out.

    Raises:
        ManifestError: the file is not there, is no text, or no YAML.
    """
    text = _read(source)
    try:
        documents = list(yaml.load_all(text, Loader=_Loader))
    except yaml.YAMLError as error:
        raise ManifestError(f"{source}: no YAML: {_where(error)}") from error
    yield from (document for document in documents if document is not None)


def _read(source: str) -> str:
    try:
        raw = sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
        return raw.decode()
    except OSError as error:
        raise ManifestError(f"{source}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{source}: no UTF-8 text (byte {error.start})") from error


def _where(error: yaml.YAMLError) -> str:
    """Say in one line what the parser stumbled over."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    if mark is None:
        return " ".join(problem.split())
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}"
