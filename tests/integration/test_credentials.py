"""Credentials of the model service: every request carries them, and nothing tells them."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from support.bed import QUICK, Bed, manifest, secret, told
from support.cluster import ADDRESS
from support.scripted_http import Reply, ScriptedServer, json_reply, scripted
from support.sightings import sightings
from tare.kube.port import CONFIG_MAP, EVENT, JOB, POD, RUN, SECRET

if TYPE_CHECKING:
    from tare.kube.port import Document

KEY = "sk-5b1946ac92492d2347c6235b4d2611184f1a"
TOKEN = "tok-7d865e959b2466918c9863afca942d0fb89d"
CREDENTIALS: dict[str, Any] = {
    "apiKeySecretRef": {"name": "qwen-key", "key": "token"},
    "headers": [
        {"name": "X-Team", "value": "perf"},
        {"name": "X-Auth", "valueFrom": {"secretKeyRef": {"name": "qwen-key", "key": "auth"}}},
    ],
}
ANSWER = {
    "id": "c",
    "object": "chat.completion",
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "a b"},
            "finish_reason": "length",
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 4, "total_tokens": 9},
}


def run(**endpoint: Any) -> Document:
    document = manifest(workers={"replicas": 1})
    document["spec"]["endpoint"] |= {**CREDENTIALS, **endpoint}
    return document


def model_server(server: ScriptedServer) -> ScriptedServer:
    done = json_reply({"success": True})
    for path in ("/reset_prefix_cache", "/start_profile", "/stop_profile"):
        server.on(path, done)
    server.on("/health", Reply())
    server.on("/v1/models", json_reply({"object": "list", "data": [{"id": "m"}]}))
    return server.on("/v1/chat/completions", json_reply(ANSWER))


async def test_load_and_hooks_carry_the_credentials_and_nothing_else_holds_them(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.cluster.create(SECRET, namespace, secret("qwen-key", token=KEY, auth=TOKEN))
    kinds = (RUN, JOB, POD, CONFIG_MAP, EVENT)
    async with scripted(host=ADDRESS) as server, sightings(bed, namespace, *kinds) as seen:
        model_server(server)
        document = run(streaming=False, resetKvCache=True, serverProfiler=True, url=server.origin)
        del document["spec"]["endpoint"]["service"]
        await bed.submit(namespace, document)
        assert (await bed.finished(namespace))["phase"] == "Succeeded"

    canaries = 2
    assert len(server.calls("/v1/chat/completions")) == 1 + 2 + 8 + canaries
    for path in ("/reset_prefix_cache", "/start_profile", "/stop_profile"):
        assert len(server.calls(path)) == 1
    for request in server.requests:
        told_as = {
            name: request.headers.get(name) for name in ("Authorization", "X-Auth", "X-Team")
        }
        wanted = {"Authorization": f"Bearer {KEY}", "X-Auth": TOKEN, "X-Team": "perf"}
        assert told_as == wanted, request.path
    assert all(seen[kind] for kind in kinds), "each kind was looked at while it was there"
    everything = json.dumps([list(objects.values()) for objects in seen.values()])
    for place in (everything, bed.operator.log.read_text(), await bed.metrics()):
        for value in (KEY, TOKEN):
            assert value not in place
            assert base64.b64encode(value.encode()).decode() not in place
    (job,) = seen[JOB].values()
    (container,) = job["spec"]["template"]["spec"]["containers"]
    references = [
        entry["valueFrom"].get("secretKeyRef") for entry in container["env"] if "valueFrom" in entry
    ]
    assert {"name": "qwen-key", "key": "token"} in references
    assert {"name": "qwen-key", "key": "auth"} in references


async def test_a_server_that_asks_for_a_key_gets_it(bed: Bed) -> None:
    namespace = await bed.namespace()
    await bed.cluster.create(SECRET, namespace, secret("qwen-key", token=KEY, auth=TOKEN))
    (server,) = await bed.servers(namespace, *QUICK, "--api-key", KEY, replicas=1)
    await bed.submit(namespace, run(resetKvCache=True))

    assert (await bed.finished(namespace))["phase"] == "Succeeded"
    requests = await server.requests()
    canaries = 3
    assert len(requests) == 1 + 2 + 8 + canaries
    assert {request["headers"]["x-auth"] for request in requests} == {TOKEN}


async def test_a_key_that_the_server_refuses_is_found_by_the_preflight_and_not_told(
    bed: Bed,
) -> None:
    namespace = await bed.namespace()
    await bed.cluster.create(SECRET, namespace, secret("qwen-key", token=KEY, auth=TOKEN))
    (server,) = await bed.servers(namespace, *QUICK, "--api-key", "another", replicas=1)
    await bed.submit(namespace, run())

    finished = told(await bed.finished(namespace), "Finished")
    assert finished["reason"] == "RequestRejected"
    assert "401" in finished["message"]
    assert "apiKeySecretRef" in finished["message"]
    assert KEY not in finished["message"]
    assert (await server.counters())["requests"] == 0
    assert await bed.children(namespace) == []
