"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902): from a stored object to a new one.

The stored object is never changed: the result shares no part of it.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import jsonpatch

from tare.devcluster.apiserver.documents import Document, copy_of
from tare.devcluster.apiserver.errors import ApiError, bad_request

__all__ = ["json_patch", "merge_patch"]


def merge_patch(document: Document, patch: Any) -> Document:
    """Apply a merge patch: null deletes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        raise bad_request("a merge patch must be a JSON object")
    merged: Document = _merge(copy_of(document), patch)
    return merged


def _merge(value: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = value if isinstance(value, dict) else {}
    for key, part in patch.items():
        if part is None:
            merged.pop(key, None)
        else:
            merged[key] = _merge(merged.get(key), part)
    return merged


def json_patch(document: Document, patch: Any) -> Document:
    """Apply a JSON patch; 422 when a `test` fails or a path does not exist."""
    if not isinstance(patch, list):
        raise bad_request("a JSON patch must be a list of operations")
    try:
        patched: Document = jsonpatch.apply_patch(copy_of(document), patch, in_place=True)
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException) as error:
        raise ApiError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        ) from error
    return patched
