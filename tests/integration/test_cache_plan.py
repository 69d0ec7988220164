"""What is done to caches behind a run's back is found, and said with numbers.

Each run goes to simulated servers, whose own log is the truth.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp import web

from support.bed import QUICK, Bed, manifest, told
from support.cluster import ADDRESS
from support.processes import kill, server_at
from tare.manifests.metadata import Owner
from tare.measure.cache import CacheWord
from tare.results.store import ResultStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tare.decide.records import TrialRecord
    from tare.kube.port import Document

ISOLATED = "warmup_isolation_first_turn"
WARMUP = b"[warmup]\\n\\n"
CHAT = "/v1/chat/completions"
PROFILING = {
    "name": "profiling",
    "kind": "profiling",
    "type": "concurrency",
    "concurrency": 4,
    "requests": 24,
}


def run_of(target: str, warmup: dict[str, Any], **endpoint: Any) -> Document:
    """A warm-up over the prompts that profiling sends, whose caches are emptied at the start."""
    document = manifest(
        dataset={"prompts": {"isl": 96, "osl": 4, "cacheBust": {"target": target}}, "seed": 5},
        phases=[{**PROFILING, "name": "warmup", "kind": "warmup", **warmup}, PROFILING],
        workers={"replicas": 1, "startTimeoutSeconds": 60},
    )
    fields = {**document["spec"]["endpoint"], "resetKvCache": True, **endpoint}
    document["spec"]["endpoint"] = {k: v for k, v in fields.items() if v is not None}
    return document


async def record_of(bed: Bed, run: Document) -> TrialRecord:
    """The only trial of a run, as it is stored."""
    metadata = run["metadata"]
    owner = Owner(name=metadata["name"], namespace=metadata["namespace"], uid=metadata["uid"])
    (trial,) = (await ResultStore(bed.cluster).load_trials(owner)).values()
    return trial.record


async def verdict_of(bed: Bed, namespace: str, document: Document) -> tuple[str, str, str]:
    """Run it to its end; verdict of the trial, reason and message of the condition."""
    run = await bed.submit(namespace, document)
    return await ended(bed, namespace, run)


async def ended(bed: Bed, namespace: str, run: Document) -> tuple[str, str, str]:
    status = await bed.finished(namespace, run["metadata"]["name"], seconds=90)
    cache = (await record_of(bed, run)).cache
    assert cache is not None
    condition = told(status, "CacheAsPlanned")
    expected = {CacheWord.AS_PLANNED: "True", CacheWord.CONTAMINATED: "False"}
    assert condition["status"] == expected.get(cache.verdict, "Unknown")
    return cache.verdict, condition["reason"], condition["message"]


async def test_nobody_interferes_and_every_token_is_where_the_plan_has_it(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    verdict, reason, _ = await verdict_of(bed, namespace, run_of("none", {"requests": 12}))
    assert (verdict, reason) == ("AsPlanned", "AsPlanned")
    load = [entry for entry in await server.requests() if entry["max_tokens"] == 4]
    warm = [entry["cached_tokens"] > 0 for entry in load]
    assert warm == [False] * 12 + [True] * 12 + [False] * 12
    (cell,) = (await bed.status(namespace))["cells"]
    assert "cache" not in cell, "it goes without saying"
    events = [event["reason"] for event in await bed.events(namespace)]
    assert events.count("AsPlanned") == 1


async def test_a_reset_that_empties_nothing_on_one_replica_is_found_by_the_load_itself(
    bed: Bed,
) -> None:
    """The canaries find it too; this is what the tokens of the load say."""
    namespace = await bed.namespace()
    servers = await bed.servers(namespace, *QUICK, replicas=2)
    await servers[1].faults(reset="silent")
    reset = {"at": "BeforeProfiling", "onFailure": "Continue"}
    document = run_of("none", {"requests": 24}, resetKvCache=reset)
    verdict, reason, _ = await verdict_of(bed, namespace, document)
    assert (verdict, reason) == ("Contaminated", "ResetIncomplete")


async def test_a_second_client_that_primes_the_cache_is_found(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, "--itl", "25ms", "--ttft-overhead", "1ms", replicas=1)
    first = run_of(ISOLATED, {"requests": 2})
    assert (await verdict_of(bed, namespace, first))[0] == "AsPlanned"
    bodies = [entry["messages"] for entry in (await server.requests())[-24:]]
    second = run_of(ISOLATED, {"requests": 60, "concurrency": 2})
    second["metadata"]["name"] = "second"
    before = (await server.counters())["requests"]
    run = await bed.submit(namespace, second)
    await server.under_load(before + 8)
    for messages in bodies[::-1]:
        await server.post(CHAT, {"model": "m", "messages": messages, "max_tokens": 1})
    verdict, reason, message = await ended(bed, namespace, run)
    assert (verdict, reason) == ("Contaminated", "Contaminated")
    assert "planned 0: " in message
    assert "; first request " in message


@pytest.fixture
async def stripping(bed: Bed) -> AsyncIterator[tuple[str, str]]:
    """A namespace with one server, and the URL of a proxy to it that takes markers out."""
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)

    async def forward(request: web.Request) -> web.StreamResponse:
        body = (await request.read()).replace(WARMUP, b"")
        kept = {k: v for k, v in request.headers.items() if k.lower() != "content-length"}
        url = f"{server.url}{request.path_qs}"
        async with session.request(request.method, url, data=body, headers=kept) as answer:
            content_type = answer.headers.get("Content-Type", "text/plain")
            response = web.StreamResponse(
                status=answer.status, headers={"Content-Type": content_type}
            )
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, ADDRESS, 0)
    await site.start()
    async with aiohttp.ClientSession() as session:
        host, port = runner.addresses[0][:2]
        yield namespace, f"http://{host}:{port}"
    await runner.cleanup()


async def test_a_proxy_that_strips_the_marker_is_found(
    bed: Bed, stripping: tuple[str, str]
) -> None:
    namespace, url = stripping
    document = run_of(ISOLATED, {"requests": 24}, service=None, url=url)
    verdict, reason, message = await verdict_of(bed, namespace, document)
    assert (verdict, reason) == ("Contaminated", "Contaminated")
    assert "phase profiling: " in message


async def test_a_server_that_restarts_leaves_nothing_to_be_said(bed: Bed) -> None:
    namespace = await bed.namespace()
    (server,) = await bed.servers(namespace, *QUICK, replicas=1)
    document = run_of(ISOLATED, {"requests": 4})
    document["spec"]["phases"][1] = {**PROFILING, "requests": None, "durationSeconds": 8}
    del document["spec"]["phases"][1]["requests"]
    run = await bed.submit(namespace, document)
    await server.under_load(40)
    kill(server_at(urlsplit(server.url).hostname or ""))
    verdict, reason, message = await ended(bed, namespace, run)
    assert (verdict, reason) == ("Unverified", "ServerRestarted")
    assert server.pod in message
