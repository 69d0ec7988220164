from __future__ import annotations

from typing import Any

import orjson
import pytest

from tare.plan.order import TargetOrder
from tare.workload.body import request_body, route


def _body(**target: Any) -> dict[str, Any]:
    order = TargetOrder(urls=("http://h",), model="meta-llama/Llama:fp8@v2", **target)
    body: dict[str, Any] = orjson.loads(request_body(order, prompt="hello", max_tokens=128))
    return body


def test_a_chat_asks_for_a_stream_with_usage_and_for_no_sampling() -> None:
    assert _body() == {
        "model": "meta-llama/Llama:fp8@v2",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 128,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_completions_take_the_prompt_as_text() -> None:
    body = _body(type="completions", streaming=False)
    assert body == {"model": "meta-llama/Llama:fp8@v2", "prompt": "hello", "max_tokens": 128}


def test_the_users_own_fields_come_last_and_win() -> None:
    extra = {
        "temperature": 0,
        "max_tokens": 5,
        "stream_options": {"continuous_usage_stats": True},
        "model": "other",
    }
    body = _body(extra_body=extra)
    assert (body["temperature"], body["max_tokens"], body["model"]) == (0, 5, "other")
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize(
    ("kind", "path"), [("chat", "/v1/chat/completions"), ("completions", "/v1/completions")]
)
def test_each_api_has_its_route(kind: Any, path: str) -> None:
    assert route(TargetOrder(urls=("http://h",), model="m", type=kind)) == path
