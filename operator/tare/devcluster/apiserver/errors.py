"""Refusals of the API server: one exception that renders itself as a `Status`, and field errors.

The wording is the real server's, because people, kubectl and tests read it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from tare.telemetry.overriding import override

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tare.devcluster.apiserver.documents import Document

__all__ = [
    "ApiError",
    "FieldError",
    "FieldErrorType",
    "already_exists",
    "bad_request",
    "conflict",
    "expired",
    "forbidden",
    "invalid",
    "not_found",
    "not_implemented",
    "resource_not_found",
    "success_status",
    "unsupported_media_type",
]


class ApiError(Exception):
    """A request that is answered with a `Status` of Failure."""

    def __init__(
        self, code: int, reason: str, message: str, *, details: Document | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details or {}

    def to_status(self) -> Document:
        """Render as the `Status` object that clients expect."""
        status: Document = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "code": self.code,
        }
        if self.details:
            status["details"] = self.details
        return status


class FieldErrorType(StrEnum):
    """Kinds of field errors; the value is the reason that a cause carries."""

    DUPLICATE = "FieldValueDuplicate"
    FORBIDDEN = "FieldValueForbidden"
    INVALID = "FieldValueInvalid"
    NOT_SUPPORTED = "FieldValueNotSupported"
    REQUIRED = "FieldValueRequired"
    TOO_LONG = "FieldValueTooLong"
    TOO_MANY = "FieldValueTooMany"
    TYPE_INVALID = "FieldValueTypeInvalid"


_WORDS = {
    FieldErrorType.DUPLICATE: "Duplicate value",
    FieldErrorType.FORBIDDEN: "Forbidden",
    FieldErrorType.INVALID: "Invalid value",
    FieldErrorType.NOT_SUPPORTED: "Unsupported value",
    FieldErrorType.REQUIRED: "Required value",
    FieldErrorType.TOO_LONG: "Too long",
    FieldErrorType.TOO_MANY: "Too many",
    FieldErrorType.TYPE_INVALID: "Invalid value",
}
_WITHOUT_VALUE = {FieldErrorType.REQUIRED, FieldErrorType.FORBIDDEN, FieldErrorType.TOO_LONG}


@dataclass(frozen=True, slots=True)
class FieldError:
    """One wrong field; `path` is empty for the object as a whole."""

    kind: FieldErrorType
    path: str
    detail: str = ""
    value: Any = None

    @property
    def body(self) -> str:
        """Return the message without the field's path."""
        text = _WORDS[self.kind]
        if self.kind not in _WITHOUT_VALUE:
            text += f": {_quote(self.value)}"
        return f"{text}: {self.detail}" if self.detail else text

    @override
    def __str__(self) -> str:
        return f"{self.path or '<nil>'}: {self.body}"

    def to_cause(self) -> Document:
        """Render as an entry of `Status.details.causes`."""
        return {
            "reason": str(self.kind),
            "message": self.body,
            "field": self.path or "<nil>",
        }


def _quote(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return orjson.dumps(value).decode()


def _details(group: str, kind: str, name: str = "", **more: Any) -> Document:
    details = {"name": name, "group": group, "kind": kind, **more}
    return {key: value for key, value in details.items() if value}


def _qualified(plural: str, group: str) -> str:
    return f"{plural}.{group}" if group else plural


def not_found(group: str, plural: str, name: str) -> ApiError:
    """404: there is no such object."""
    return ApiError(
        HTTPStatus.NOT_FOUND,
        "NotFound",
        f'{_qualified(plural, group)} "{name}" not found',
        details=_details(group, plural, name),
    )


def resource_not_found() -> ApiError:
    """404: there is no such resource type or path."""
    return ApiError(
        HTTPStatus.NOT_FOUND, "NotFound", "the server could not find the requested resource"
    )


def already_exists(group: str, plural: str, name: str) -> ApiError:
    """409: the name is taken."""
    return ApiError(
        HTTPStatus.CONFLICT,
        "AlreadyExists",
        f'{_qualified(plural, group)} "{name}" already exists',
        details=_details(group, plural, name),
    )


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    """409: the object is not what the request says."""
    return ApiError(
        HTTPStatus.CONFLICT,
        "Conflict",
        f'Operation cannot be fulfilled on {_qualified(plural, group)} "{name}": {why}',
        details=_details(group, plural, name),
    )


def invalid(group: str, kind: str, name: str, errors: Sequence[FieldError]) -> ApiError:
    """422: fields are wrong; every one is named."""
    text = str(errors[0]) if len(errors) == 1 else f"[{', '.join(map(str, errors))}]"
    return ApiError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        "Invalid",
        f'{_qualified(kind, group)} "{name}" is invalid: {text}',
        details=_details(group, kind, name, causes=[error.to_cause() for error in errors]),
    )


def bad_request(message: str) -> ApiError:
    """400: the request makes no sense."""
    return ApiError(HTTPStatus.BAD_REQUEST, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    """403: refused by a rule, not by the schema."""
    subject = f'{_qualified(plural, group)} "{name}"' if name else _qualified(plural, group)
    return ApiError(
        HTTPStatus.FORBIDDEN,
        "Forbidden",
        f"{subject} is forbidden: {why}",
        details=_details(group, plural, name),
    )


def expired(message: str) -> ApiError:
    """410: the revision asked for is no longer in the log."""
    return ApiError(HTTPStatus.GONE, "Expired", message)


def not_implemented(what: str) -> ApiError:
    """501: a part of Kubernetes that the devcluster leaves out."""
    return ApiError(
        HTTPStatus.NOT_IMPLEMENTED,
        "NotImplemented",
        f"the devcluster does not implement {what}; use a real cluster for it "
        "(tests/conformance/README.md lists what the devcluster does)",
    )


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    """415: the body's content type is not one of `accepted`."""
    return ApiError(
        HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        "UnsupportedMediaType",
        "the body of the request was in an unknown format - accepted media types include: "
        + ", ".join(accepted),
    )


def success_status(group: str, plural: str, name: str, uid: str) -> Document:
    """Render the `Status` that answers a DELETE which removed the object at once."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": _details(group, plural, name, uid=uid),
    }
