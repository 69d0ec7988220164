"""Every refusal that was seen on a real API server, and what it means to Tare."""

from __future__ import annotations

import json

import pytest

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
from tare.kube.translate import MAX_MESSAGE, error_of

QUOTA = (
    'pods "w-0" is forbidden: exceeded quota: cpu, requested: cpu=1, used: cpu=4, limited: cpu=4'
)
MODIFIED = (
    'Operation cannot be fulfilled on benchmarkruns.tare.dev "a": the object has been modified;'
    " please apply your changes to the latest version and try again"
)


def status(code: int, reason: str, message: str) -> bytes:
    return json.dumps(
        {"kind": "Status", "apiVersion": "v1", "reason": reason, "message": message, "code": code}
    ).encode()


@pytest.mark.parametrize(
    ("code", "reason", "message", "expected"),
    [
        (400, "BadRequest", 'strict decoding error: unknown field "spec.x"', Invalid),
        (401, "Unauthorized", "Unauthorized", Unavailable),
        (403, "Forbidden", QUOTA, Forbidden),
        (404, "NotFound", 'services "qwen" not found', NotFound),
        (405, "MethodNotAllowed", "the server does not allow this method", Invalid),
        (409, "AlreadyExists", 'jobs.batch "a" already exists', AlreadyExists),
        (409, "Conflict", MODIFIED, Conflict),
        (413, "RequestEntityTooLarge", "limit is 3145728", TooLarge),
        (415, "UnsupportedMediaType", "the body of the request was in an unknown format", Invalid),
        (422, "Invalid", "spec: Invalid value: spec is frozen", Invalid),
        (429, "TooManyRequests", "too many requests, please try again later", Unavailable),
        (500, "InternalError", "etcdserver: leader changed", Unavailable),
        (500, "", "etcdserver: request is too large", TooLarge),
        (500, "", "rpc error: trying to send message larger than max (3 vs. 2)", TooLarge),
        (503, "ServiceUnavailable", "apiserver is shutting down", Unavailable),
        (504, "Timeout", "Timeout: request did not complete within requested timeout", Unavailable),
    ],
)
def test_a_refusal_has_one_meaning_and_keeps_the_servers_words(
    code: int, reason: str, message: str, expected: type[KubeError]
) -> None:
    error = error_of(code, status(code, reason, message), "POST /x")
    assert type(error) is expected
    assert str(error) == message


def test_a_namespace_that_is_being_deleted_is_told_by_the_cause() -> None:
    """Kubernetes 1.34 on a create; the reason is that of a missing right."""
    text = 'jobs.batch "a" is forbidden: unable to create new content in namespace b because ...'
    cause = {"reason": "NamespaceTerminating", "field": "metadata.namespace"}
    document = json.loads(status(403, "Forbidden", text)) | {"details": {"causes": [cause]}}
    error = error_of(403, json.dumps(document).encode(), "POST /x")
    assert type(error) is Terminating
    assert str(error) == text


def test_an_answer_that_is_no_status_document_names_the_request() -> None:
    error = error_of(502, b"<html>\n <h1>Bad Gateway</h1>\n</html>", "GET /api")
    assert type(error) is Unavailable
    assert str(error) == "GET /api: HTTP 502 <html> <h1>Bad Gateway</h1> </html>"


def test_an_empty_answer_is_still_a_sentence() -> None:
    assert str(error_of(503, b"", "GET /api")) == "GET /api: HTTP 503"


def test_a_message_is_one_line_of_bounded_length() -> None:
    error = error_of(422, status(422, "Invalid", "a\n\t b" + "x" * 5000), "POST /x")
    assert str(error).startswith("a b")
    assert len(str(error)) == MAX_MESSAGE
