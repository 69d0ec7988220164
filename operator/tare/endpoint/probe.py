"""One request as the load will send it, but short: is it accepted?

A field that the server does not know, a key it refuses or a model it cannot run would otherwise
fail ten thousand times in a measurement. The prompt is shorter than a block of any server's prefix
cache, and the caller resets the caches after it, so no measured cell starts warmer for it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.net.auth import redact
from tare.workload.body import request_body

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tare.endpoint.client import Answer
    from tare.plan.order import TargetOrder

__all__ = ["check_probe", "probe_body"]

_PROMPT = "Say yes."
_TOKENS = 2
_MAX_WORDS = 512
_PASSING = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_EARLY,
    HTTPStatus.TOO_MANY_REQUESTS,
)
"""Refusals of the moment; every other 4xx is a refusal of the request."""
_CLIENT_ERROR = 4


def probe_body(target: TargetOrder) -> bytes:
    """Write a request with the load's own code; only its length differs.

    `min_tokens` is cut with it: servers refuse a minimum above the maximum.
    """
    extra = dict(target.extra_body)
    if isinstance(extra.get("min_tokens"), int):
        extra["min_tokens"] = min(extra["min_tokens"], _TOKENS)
    short = replace(target, extra_body=extra)
    return request_body(short, prompt=_PROMPT, max_tokens=_TOKENS)


def check_probe(answer: Answer, url: str, headers: Mapping[str, str]) -> None:
    """Accept the answer or say why not.

    A 200 may carry an error, as an event of the stream or as the whole body; a vLLM whose engine
    died says so, and then ends the stream as if all were well.

    Raises:
        TargetError: final `RequestRejected` with the server's words; not final when the server is
            not ready.
    """
    words = redact(" ".join(answer.text.split()), headers)[:_MAX_WORDS]
    said = f"POST {url} answered {answer.status} {words}".rstrip()
    if not answer.ok:
        raise _refusal(answer.status, said)
    for document in _documents(answer.text):
        if error := document.get("error"):
            code = error.get("code") if isinstance(error, dict) else None
            status = code if isinstance(code, int) else HTTPStatus.INTERNAL_SERVER_ERROR
            raise _refusal(status, said)


def _refusal(status: int, said: str) -> TargetError:
    if status // 100 != _CLIENT_ERROR or status in _PASSING:
        return TargetError(Reason.TARGET_NOT_READY, said, final=False)
    advice = (
        "; check endpoint.apiKeySecretRef and endpoint.headers"
        if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
        else ""
    )
    return TargetError(Reason.REQUEST_REJECTED, f"the probe request: {said}{advice}", final=True)


def _documents(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of an event stream, or the one of a plain answer."""
    lines = [line.removeprefix("data:") for line in text.splitlines() if line.startswith("data:")]
    for part in lines or [text]:
        try:
            document = json.loads(part)
        except ValueError:
            continue
        if isinstance(document, dict):
            yield document
