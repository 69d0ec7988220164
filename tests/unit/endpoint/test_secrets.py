"""Header values from Secrets, and the command that a missing right costs."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

import pytest

from support.kube_api import kube_api
from support.scripted_http import Reply, json_reply
from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.endpoint.secrets import read_headers
from tare.net.auth import headers_of

if TYPE_CHECKING:
    from pathlib import Path

    from tare.kube.port import Document

SECRET = "/api/v1/namespaces/bench/secrets/qwen"
ENDPOINT = {
    "apiKeySecretRef": {"name": "qwen", "key": "token"},
    "headers": [
        {"name": "X-Team", "value": "perf"},
        {"name": "X-Auth", "valueFrom": {"secretKeyRef": {"name": "qwen", "key": "other"}}},
    ],
}
FORBIDDEN = (
    'secrets "qwen" is forbidden: User "{user}" cannot get resource "secrets" in API group ""'
    ' in the namespace "bench"'
)


def secret(**values: bytes) -> Document:
    return {"data": {key: base64.b64encode(value).decode() for key, value in values.items()}}


async def read(tmp_path: Path, reply: Reply) -> tuple[dict[str, str], int]:
    async with kube_api(tmp_path) as (server, cluster):
        server.on(SECRET, reply)
        return await read_headers(cluster, "bench", headers_of(ENDPOINT)), len(server.requests)


async def refusal(tmp_path: Path, reply: Reply) -> TargetError:
    with pytest.raises(TargetError) as caught:
        await read(tmp_path, reply)
    assert caught.value.reason is Reason.SECRET_MISSING
    return caught.value


async def test_values_come_from_secrets_and_each_is_read_once(tmp_path: Path) -> None:
    headers, reads = await read(tmp_path, json_reply(secret(token=b"sk-1\n", other=b"o")))
    assert headers == {"Authorization": "Bearer sk-1", "X-Team": "perf", "X-Auth": "o"}
    assert reads == 1


async def test_headers_without_secrets_ask_nobody(tmp_path: Path) -> None:
    async with kube_api(tmp_path) as (server, cluster):
        headers = headers_of({"headers": [{"name": "X-Team", "value": "perf"}]})
        assert await read_headers(cluster, "bench", headers) == {"X-Team": "perf"}
        assert server.requests == []


@pytest.mark.parametrize(
    ("user", "subject"),
    [
        ("system:serviceaccount:tare-system:tare", "--serviceaccount=tare-system:tare"),
        ("alice@example.com", "--user=alice@example.com"),
    ],
)
async def test_a_missing_right_is_answered_with_the_command_that_grants_it(
    tmp_path: Path, user: str, subject: str
) -> None:
    message = FORBIDDEN.format(user=user)
    status = {"kind": "Status", "reason": "Forbidden", "message": message, "code": 403}
    error = await refusal(tmp_path, json_reply(status, 403))
    assert error.final
    assert str(error) == (
        "the operator may not read Secret bench/qwen; allow it with: kubectl create rolebinding"
        " tare-secret-reader --namespace=bench --clusterrole=tare-secret-reader " + subject
    )


async def test_a_secret_that_is_missing_may_still_come(tmp_path: Path) -> None:
    error = await refusal(tmp_path, json_reply({"reason": "NotFound", "message": "no"}, 404))
    assert str(error) == "Secret bench/qwen does not exist"
    assert not error.final


async def test_a_missing_key_lists_the_keys_that_are_there(tmp_path: Path) -> None:
    error = await refusal(tmp_path, json_reply(secret(password=b"x", user=b"y")))
    assert str(error) == "Secret bench/qwen has no key 'token'; its keys are: password, user"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (b"\xff\xfe", "key 'token' holds no text"),
        (b"hidden\nhidden", "Authorization: its value holds a line break"),
        (b"", "Authorization: its value is empty"),
    ],
)
async def test_a_value_that_is_no_header_value_is_refused_and_not_shown(
    tmp_path: Path, value: bytes, message: str
) -> None:
    error = await refusal(tmp_path, json_reply(secret(token=value, other=b"o")))
    assert message in str(error)
    assert "hidden" not in str(error)
