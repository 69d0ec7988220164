"""A system prompt from a ConfigMap."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.kube_api import kube_api
from support.scripted_http import Reply, json_reply
from tare.api.endpoint import ConfigMapKey
from tare.api.reasons import Reason
from tare.endpoint.errors import TargetError
from tare.endpoint.prompts import read_prompt

if TYPE_CHECKING:
    from pathlib import Path

PATH = "/api/v1/namespaces/bench/configmaps/prompts"
SOURCE = ConfigMapKey(name="prompts", key="brief")
GONE = json_reply({"kind": "Status", "reason": "NotFound", "code": 404}, status=404)
DENIED = json_reply(
    {"kind": "Status", "reason": "Forbidden", "code": 403, "message": "no"}, status=403
)


async def read(tmp_path: Path, reply: Reply) -> str:
    async with kube_api(tmp_path) as (server, cluster):
        server.on(PATH, reply)
        return await read_prompt(cluster, "bench", SOURCE)


def holding(**data: Any) -> Reply:
    return json_reply({"data": data})


async def test_the_text_is_taken_as_it_is(tmp_path: Path) -> None:
    text = 'Be brief.\n\n  Say "yes". é'
    assert await read(tmp_path, holding(brief=text)) == text


@pytest.mark.parametrize(
    ("reply", "words", "reason", "final"),
    [
        (GONE, "bench/prompts does not exist", Reason.CONFIG_MAP_MISSING, False),
        (holding(long="x"), "no key 'brief'; its keys are: long", Reason.CONFIG_MAP_MISSING, False),
        (json_reply({}), "its keys are: none", Reason.CONFIG_MAP_MISSING, False),
        (DENIED, "may not read ConfigMap bench/prompts", Reason.CONFIG_MAP_MISSING, True),
        (holding(brief=""), "has 0 bytes", Reason.INVALID_SPEC, True),
        (holding(brief="é" * 40_000), "has 80000 bytes", Reason.INVALID_SPEC, True),
    ],
)
async def test_what_is_wrong_with_it_is_said(
    tmp_path: Path, reply: Reply, words: str, reason: Reason, *, final: bool
) -> None:
    with pytest.raises(TargetError, match=words) as caught:
        await read(tmp_path, reply)
    assert (caught.value.reason, caught.value.final) == (reason, final)
