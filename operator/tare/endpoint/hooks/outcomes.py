"""What one answer to a hook means: pure rules over status and body.

HTTP 200 is not success: vLLM denies a reset with `{"success": false}` in a 200, Dynamo lists the
workers that failed, old servers answer with nothing whatever happened. Whether a call is worth
repeating is decided here too, because only the reading of the answer knows it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from tare.endpoint.client import CallError, CallFailure
from tare.endpoint.presets import PRESETS
from tare.measure.hooks import CallOutcome, HookKind
from tare.net.auth import redact

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tare.endpoint.client import Answer

__all__ = ["MAX_MESSAGE", "Verdict", "classify", "unanswered"]

MAX_MESSAGE = 1024
"""Characters of a message; `HookCall.message` promises it."""

_MAX_WORDS = 512
"""Characters of the server's own words, so that the advice behind them always fits."""
_NO_ROUTE = (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED, HTTPStatus.NOT_IMPLEMENTED)
_NO_ACCESS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_REDIRECTION = 3
_NO_WORKERS = "No active worker groups found"
"""Dynamo's frontend, with status 200:
https://github.com/ai-dynamo/dynamo/blob/06cb9b3b2f4fc8e486532cc4809ba81039ae24dc/lib/llm/src/http/service/clear_kv_blocks.rs
"""
_FLUSH = "/flush_cache"
"""SGLang's route, whatever the server is called in the spec; it says "busy" with a 400."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How a call ended, in one sentence, and whether the same call may end otherwise later."""

    outcome: CallOutcome
    message: str
    retry: bool = False


def classify(
    hook: HookKind, answer: Answer, *, path: str, server: str, headers: Mapping[str, str]
) -> Verdict:
    """Judge an answer; `server` is `spec.endpoint.server`, `headers` are hidden in what it says."""
    words = redact(" ".join(answer.text.split()), headers)[:_MAX_WORDS]
    said = f"{answer.status} {words or '(empty)'}"
    if answer.ok:
        return _accepted(answer.text, said, text_confirms=PRESETS[server].text_confirms)
    if hook is HookKind.RESET and _is_busy(answer.status, path, server):
        return Verdict(outcome=CallOutcome.BUSY, message=said, retry=True)
    advice = _advice(hook, answer, server)
    return Verdict(outcome=CallOutcome.REFUSED, message=f"{said}: {advice}" if advice else said)


def unanswered(error: CallError, hook: HookKind) -> Verdict:
    """Judge a call that got no answer."""
    match error.failure:
        case CallFailure.TIMEOUT:
            return Verdict(outcome=CallOutcome.TIMEOUT, message=str(error), retry=True)
        case CallFailure.CERTIFICATE:
            return Verdict(outcome=CallOutcome.UNREACHABLE, message=str(error)[:MAX_MESSAGE])
        case CallFailure.CLOSED:
            field = "resetKvCache" if hook is HookKind.RESET else "serverProfiler"
            advice = f"strict mTLS of a mesh does that to pods' addresses; {field}.target helps"
            message = f"{str(error)[:_MAX_WORDS]}: {advice}"
            return Verdict(outcome=CallOutcome.UNREACHABLE, message=message, retry=True)
        case CallFailure.UNREACHABLE:
            message = str(error)[:MAX_MESSAGE]
            return Verdict(outcome=CallOutcome.UNREACHABLE, message=message, retry=True)


def _accepted(text: str, said: str, *, text_confirms: bool) -> Verdict:
    document = _json(text)
    if isinstance(document, dict):
        if document.get("success") is False:
            message = f"{said}: the server did not do it, as while a request runs"
            return Verdict(outcome=CallOutcome.BUSY, message=message, retry=True)
        if any(value for key, value in document.items() if key.startswith("failed")):
            return Verdict(outcome=CallOutcome.REFUSED, message=f"{said}: not all workers did it")
    if _NO_WORKERS in text:
        return Verdict(outcome=CallOutcome.REFUSED, message=said)
    if (isinstance(document, dict) and document) or (text_confirms and text.strip()):
        return Verdict(outcome=CallOutcome.CONFIRMED, message=said)
    message = f"{said}: the answer does not say whether it was done"
    return Verdict(outcome=CallOutcome.UNVERIFIED, message=message)


def _is_busy(status: int, path: str, server: str) -> bool:
    if status in PRESETS[server].busy:
        return True
    return status == HTTPStatus.BAD_REQUEST and path.partition("?")[0].endswith(_FLUSH)


def _advice(hook: HookKind, answer: Answer, server: str) -> str:
    if answer.status in _NO_ROUTE:
        preset = PRESETS[server]
        return preset.no_reset_route if hook is HookKind.RESET else preset.no_profiler_route
    if answer.status in _NO_ACCESS:
        return "hooks send the headers of endpoint.apiKeySecretRef and endpoint.headers; check them"
    if answer.status // 100 == _REDIRECTION:
        return "redirects are not followed; give the address that it points to"
    return ""


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None
