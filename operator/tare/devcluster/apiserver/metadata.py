"""Rules of `metadata` that hold for every kind: names, labels, what a client may not change."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from tare.devcluster.apiserver.errors import FieldError, FieldErrorType

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tare.devcluster.apiserver.documents import Document

__all__ = ["SYSTEM_FIELDS", "check_metadata", "keep_system_fields"]

SYSTEM_FIELDS: Final = (
    "uid",
    "creationTimestamp",
    "generation",
    "name",
    "namespace",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "resourceVersion",
    "selfLink",
)
"""The server writes these; what a client sends for them is not taken over."""

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_NAME_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    f"for validation is '{_SUBDOMAIN}')"
)
_LABEL_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value', "
    f" or '12345', regex used for validation is '{_LABEL}')"
)
_MAX_NAME = 253
_MAX_LABEL = 63
_MAX_ANNOTATIONS = 256 * 1024


def keep_system_fields(new: Document, old: Document) -> None:
    """Give a new state the server's own fields of the old one, in place."""
    metadata, before = new["metadata"], old["metadata"]
    for field in SYSTEM_FIELDS:
        if field in before:
            metadata[field] = before[field]
        else:
            metadata.pop(field, None)


def check_metadata(new: Document, old: Document | None) -> Iterator[FieldError]:
    """Find faults of names, labels, annotations and finalizers."""
    metadata = new["metadata"]
    if old is None:
        yield from _name(metadata["name"])
    for key, value in (metadata.get("labels") or {}).items():
        yield from _label(key, value)
    annotations = metadata.get("annotations") or {}
    size = sum(len(key) + len(value) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        detail = f"may not be more than {_MAX_ANNOTATIONS} bytes"
        yield FieldError(FieldErrorType.TOO_LONG, "metadata.annotations", detail)
    if old is not None and old["metadata"].get("deletionTimestamp"):
        yield from _finalizers(metadata, old["metadata"])


def _name(name: str) -> Iterator[FieldError]:
    if len(name) > _MAX_NAME:
        detail = f"must be no more than {_MAX_NAME} bytes"
        yield FieldError(FieldErrorType.INVALID, "metadata.name", detail, name)
    if not re.fullmatch(_SUBDOMAIN, name):
        yield FieldError(FieldErrorType.INVALID, "metadata.name", _NAME_RULE, name)


def _label(key: str, value: str) -> Iterator[FieldError]:
    plain = key.rpartition("/")[2]
    if not plain or len(plain) > _MAX_LABEL or not re.fullmatch(_LABEL, plain):
        detail = f"name part must be a label of at most {_MAX_LABEL} characters"
        yield FieldError(FieldErrorType.INVALID, "metadata.labels", detail, key)
    if len(value) > _MAX_LABEL:
        detail = f"must be no more than {_MAX_LABEL} bytes"
        yield FieldError(FieldErrorType.INVALID, "metadata.labels", detail, value)
    elif not re.fullmatch(_LABEL, value):
        yield FieldError(FieldErrorType.INVALID, "metadata.labels", _LABEL_RULE, value)


def _finalizers(metadata: Document, before: Document) -> Iterator[FieldError]:
    known = set(before.get("finalizers") or ())
    added = [name for name in metadata.get("finalizers") or () if name not in known]
    if added:
        shown = ", ".join(f'"{name}"' for name in added)
        yield FieldError(
            FieldErrorType.FORBIDDEN,
            "metadata.finalizers",
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{shown}}}",
        )
