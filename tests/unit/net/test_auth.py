"""One list of headers for load and hooks, and secrets only where they must be."""

from __future__ import annotations

from typing import Any

import pytest

from tare.net.auth import (
    BadHeaderError,
    SecretKey,
    env_entries,
    headers_of,
    redact,
    resolve,
)
from tare.plan.order import HeaderOrder

KEY = {"name": "qwen-key", "key": "token"}
FROM_SECRET = {"name": "X-Auth", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        ({}, {}),
        ({"headers": [{"name": "X-Team", "value": "perf"}]}, {"X-Team": "perf"}),
        ({"apiKeySecretRef": KEY}, {"Authorization": "Bearer <TARE_HEADER_0>"}),
        (
            {"apiKeySecretRef": KEY, "apiKeyHeader": "x-api-key"},
            {"x-api-key": "<TARE_HEADER_0>"},
        ),
        ({"headers": [FROM_SECRET]}, {"X-Auth": "<TARE_HEADER_1>"}),
    ],
)
def test_a_header_is_a_literal_or_comes_from_a_secret(
    endpoint: dict[str, Any], expected: dict[str, str]
) -> None:
    headers = headers_of(endpoint)
    values = {header.env: f"<{header.env}>" for header in headers if header.env}
    assert resolve(headers, values) == expected


def test_the_kubelet_reads_the_secrets_of_a_worker() -> None:
    headers = headers_of(
        {"apiKeySecretRef": KEY, "headers": [{"name": "X-Team", "value": "perf"}, FROM_SECRET]}
    )
    assert env_entries(headers) == [
        {
            "name": "TARE_HEADER_0",
            "valueFrom": {"secretKeyRef": {"name": "qwen-key", "key": "token"}},
        },
        {
            "name": "TARE_HEADER_2",
            "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}},
        },
    ]
    assert [h.secret for h in headers] == [
        SecretKey(name="qwen-key", key="token"),
        None,
        SecretKey(name="s", key="k"),
    ]


def test_a_worker_resolves_its_order_from_its_environment() -> None:
    orders = [
        HeaderOrder(name="X-Team", value="perf"),
        HeaderOrder(name="Authorization", env="TARE_HEADER_0", prefix="Bearer "),
    ]
    assert resolve(orders, {"TARE_HEADER_0": "sk-1234\n"}) == {
        "X-Team": "perf",
        "Authorization": "Bearer sk-1234",
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "missing"),
        ({"E": " \n"}, "empty"),
        ({"E": "topsecret\r\nHost: evil"}, "control character"),
    ],
)
def test_a_value_that_http_cannot_carry_is_refused_without_being_shown(
    values: dict[str, str], message: str
) -> None:
    with pytest.raises(BadHeaderError, match=f"header X-Auth: .*{message}") as caught:
        resolve([HeaderOrder(name="X-Auth", env="E")], values)
    assert "topsecret" not in str(caught.value)


def test_a_server_that_repeats_a_key_does_not_publish_it() -> None:
    headers = {"Authorization": "Bearer sk-12345", "X-Team": "perf"}
    text = 'invalid key sk-12345 in "Bearer sk-12345" of perf'
    assert redact(text, headers) == 'invalid key *** in "***" of perf'
