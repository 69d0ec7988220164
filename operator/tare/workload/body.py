"""Request bodies of the completion APIs, encoded once, before the load begins.

What the user puts into `extraBody` is merged last and wins, object by object, so that asking for
`stream_options.continuous_usage_stats` does not take `include_usage` away. No sampling parameter is
sent unless the user gives it: a server's defaults are part of what is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tare.plan.order import TargetOrder

__all__ = ["request_body", "route"]

_ROUTES = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}


def route(target: TargetOrder) -> str:
    """Return the path of the target's API, below its base URL."""
    return _ROUTES[target.type]


def request_body(
    target: TargetOrder,
    *,
    prompt: str | Sequence[Mapping[str, Any]],
    max_tokens: int,
    salt: str | None = None,
) -> bytes:
    """Encode the body that asks `target` to answer `prompt` with at most `max_tokens` tokens.

    Args:
        target: whose API it is for.
        prompt: a text, or the messages of a chat.
        max_tokens: of the answer.
        salt: separates the request's part of the prefix cache from all others, where the server
            knows salts (https://docs.vllm.ai/en/stable/design/prefix_caching/).
    """
    body: dict[str, Any] = {"model": target.model}
    if target.type == "chat":
        one = [{"role": "user", "content": prompt}]
        body["messages"] = one if isinstance(prompt, str) else prompt
    else:
        body["prompt"] = prompt
    if salt is not None:
        body["cache_salt"] = salt
    body["max_tokens"] = max_tokens
    if target.streaming:
        body["stream"] = True
        body["stream_options"] = {"include_usage": True}
    return orjson.dumps(_merged(body, target.extra_body))


def _merged(base: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in extra.items():
        old = merged.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            merged[key] = _merged(old, value)
        else:
            merged[key] = value
    return merged
