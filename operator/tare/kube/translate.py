"""What an answer of the API server means: the one place where HTTP becomes `kube.errors`.

A pure function of status and body, so that every refusal seen on a real cluster is a row in a test
table. The text of an error is the server's own message: it names the object and the field better
than we could.

Status documents: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from tare.kube.errors import (
    AlreadyExists,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    Terminating,
    TooLarge,
    Unavailable,
)

__all__ = ["MAX_MESSAGE", "error_of"]

MAX_MESSAGE = 1024
"""Characters of an error's text; an Event's message is cut there too."""

_TOO_LARGE = ("request is too large", "trying to send message larger than max")
"""etcd's refusals, which the API server passes on as a 500."""

_NAMESPACE_ENDS = "NamespaceTerminating"
"""Cause of a refused create; the reason is Forbidden as for any other."""
_CLIENT_ERROR = 4
_BY_STATUS: dict[int, type[KubeError]] = {
    HTTPStatus.UNAUTHORIZED: Unavailable,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
    HTTPStatus.REQUEST_TIMEOUT: Unavailable,
    HTTPStatus.CONFLICT: Conflict,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: TooLarge,
    HTTPStatus.TOO_MANY_REQUESTS: Unavailable,
}


def error_of(status: int, body: bytes, request: str) -> KubeError:
    """Translate a refusal; `request` is `METHOD path`, for answers that carry no message.

    401 is `Unavailable`: a service account's token is renewed on disk, and the next try reads it.
    """
    document = _status_document(body)
    reason = document.get("reason", "")
    text = _one_line(document.get("message") or body.decode(errors="replace"))
    message = text if document.get("message") else f"{request}: HTTP {status} {text}".rstrip()
    if status == HTTPStatus.FORBIDDEN and _NAMESPACE_ENDS in _causes(document):
        return Terminating(message[:MAX_MESSAGE])
    return _kind(status, reason, text)(message[:MAX_MESSAGE])


def _kind(status: int, reason: str, text: str) -> type[KubeError]:
    if status == HTTPStatus.CONFLICT and reason == "AlreadyExists":
        return AlreadyExists
    if status == HTTPStatus.INTERNAL_SERVER_ERROR and any(words in text for words in _TOO_LARGE):
        return TooLarge
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return Invalid if status // 100 == _CLIENT_ERROR else Unavailable


def _status_document(body: bytes) -> dict[str, Any]:
    """Parse the Status; a proxy's page or an empty body is an empty one."""
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _causes(document: dict[str, Any]) -> set[str]:
    details = document.get("details") or {}
    return {cause.get("reason", "") for cause in details.get("causes") or ()}


def _one_line(text: str) -> str:
    return " ".join(text.split())
