"""Kinds with a line or two of their own: Secrets, Namespaces, reviews."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from tare.devcluster.apiserver.errors import FieldError, FieldErrorType, bad_request

if TYPE_CHECKING:
    from tare.devcluster.apiserver.documents import Document

__all__ = ["check_config_map", "check_secret", "create_namespace", "fill_secret"]

_MAX_DATA = 1024 * 1024


def fill_secret(document: Document) -> None:
    """Move `stringData` into `data`, which is what is stored; 400 for data that is not base64."""
    for key, value in (document.get("data") or {}).items():
        try:
            base64.b64decode(value or "", validate=True)
        except binascii.Error as error:
            raise bad_request(
                'Secret in version "v1" cannot be handled as a Secret: '
                f"illegal base64 data in {key}: {error}"
            ) from error
    texts = document.pop("stringData", None) or {}
    if texts:
        encoded = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        document["data"] = {**(document.get("data") or {}), **encoded}
    document.setdefault("type", "Opaque")


def check_secret(new: Document, old: Document | None) -> list[FieldError]:
    """Refuse a change of an immutable Secret, or one above 1 MiB."""
    return [*_immutable(new, old), *_too_long(new, "data")]


def check_config_map(new: Document, old: Document | None) -> list[FieldError]:
    """Refuse a change of an immutable ConfigMap, or one above 1 MiB."""
    return [*_immutable(new, old), *_too_long(new, "")]


def _immutable(new: Document, old: Document | None) -> list[FieldError]:
    if old is None or not old.get("immutable"):
        return []
    detail = "field is immutable when `immutable` is set"
    return [
        FieldError(FieldErrorType.FORBIDDEN, field, detail)
        for field in ("data", "binaryData", "immutable")
        if new.get(field) != old.get(field)
    ]


def _too_long(new: Document, path: str) -> list[FieldError]:
    size = sum(
        len(value) for field in ("data", "binaryData") for value in (new.get(field) or {}).values()
    )
    if size <= _MAX_DATA:
        return []
    detail = f"may not be more than {_MAX_DATA} bytes"
    return [FieldError(FieldErrorType.TOO_LONG, path, detail)]


def create_namespace(document: Document) -> None:
    """Give a namespace its label, its phase and the finalizer that its content waits for."""
    metadata = document["metadata"]
    labels = metadata.get("labels") or {}
    metadata["labels"] = {**labels, "kubernetes.io/metadata.name": metadata["name"]}
    document["spec"] = {"finalizers": ["kubernetes"]}
    document["status"] = {"phase": "Active"}
