"""Small operations on Kubernetes objects as plain JSON documents.

Stored documents are shared and never changed in place: whoever wants to change one makes a copy
first. That keeps reads, watches and lists free of copies.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import orjson

__all__ = [
    "Clock",
    "Document",
    "copy_of",
    "format_micro_time",
    "format_time",
    "key_of",
    "labels_of",
    "owner_uids",
    "parse_time",
    "path_of",
    "random_suffix",
    "utc_now",
]

Document = dict[str, Any]
"""A Kubernetes object as JSON."""

Clock = Callable[[], datetime]

_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
"""No vowels and no look-alikes, as generateName of the real server."""


def utc_now() -> datetime:
    """Read the wall clock."""
    return datetime.now(UTC)


def format_time(moment: datetime) -> str:
    """Write a `metav1.Time`: seconds, UTC."""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def format_micro_time(moment: datetime) -> str:
    """Write a `metav1.MicroTime`."""
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_time(text: str) -> datetime:
    """Read either of the two."""
    return datetime.fromisoformat(text)


def copy_of(document: Document) -> Document:
    """Copy deeply; a round trip through orjson is several times faster than `copy.deepcopy`."""
    copied: Document = orjson.loads(orjson.dumps(document))
    return copied


def random_suffix(length: int = 5) -> str:
    """Draw the ending that generateName appends."""
    return "".join(secrets.choice(_SUFFIX_ALPHABET) for _ in range(length))


def key_of(document: Document) -> tuple[str, str]:
    """Return (namespace, name); the namespace of a cluster-wide object is empty."""
    metadata = document["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def labels_of(document: Document) -> dict[str, str]:
    """Return the labels, an empty dict when there are none."""
    return document["metadata"].get("labels") or {}


def owner_uids(document: Document) -> Iterator[str]:
    """Yield the uids of an object's owners."""
    for reference in document["metadata"].get("ownerReferences") or ():
        yield reference["uid"]


def path_of(document: Document, path: str) -> Any:
    """Follow a dotted path; None where it ends early."""
    value: Any = document
    for part in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(part)
    return value
