"""The measuring client alone against two real vLLM servers: what it counts is what they count.

As for `test_vllm.py`, `TARE_VLLM_URLS` names them; they need --enable-prompt-tokens-details.
Requests of others change the counters too: a round with such is measured again.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from support.load import closed_loop, histogram, run_load, work_order
from tare.endpoint.client import ControlClient
from tare.endpoint.scrape import scrape
from tare.measure.hooks import Replica
from tare.measure.servers import ServerCount, ServerCounts
from tare.plan.order import DatasetOrder, Lengths

if TYPE_CHECKING:
    from tare.measure.messages import PhaseResult

DEFAULT = "http://127.0.0.1:18800 http://127.0.0.1:18801"
URLS = tuple(url.rstrip("/") for url in os.environ.get("TARE_VLLM_URLS", DEFAULT).split())
REQUESTS = 125
"""Of each way to ask: 500 together."""
DATASET = DatasetOrder(entries=50, isl=Lengths(min=40, max=200), osl=Lengths(min=1, max=24))
"""Fewer prompts than requests: they come again, and are found in the cache."""
ROUNDS = 5
SETTLE = 0.2
"""Seconds from the last answer to the counters."""

COUNTS = {
    ServerCount.PROMPT_TOKENS: "prompt_tokens",
    ServerCount.OUTPUT_TOKENS: "output_tokens",
    ServerCount.CACHE_HITS: "cached_tokens",
}
WAYS: dict[str, dict[str, Any]] = {
    "chat, streaming": {"type": "chat"},
    "completions, streaming": {"type": "completions"},
    "chat, in one piece": {"type": "chat", "streaming": False},
    "chat, usage on every chunk": {
        "type": "chat",
        "extra_body": {"stream_options": {"continuous_usage_stats": True}},
    },
}


async def counters() -> dict[str, dict[str, float]]:
    """Counters by server."""
    replicas = [Replica(uid=url, name=url, origin=url) for url in URLS]
    async with ControlClient() as http:
        return await scrape(replicas, headers={}, host=None, server="vllm", http=http)


async def measured(way: dict[str, Any]) -> tuple[PhaseResult, list[ServerCounts]]:
    """Send the load; return our result and what the servers counted meanwhile."""
    order = work_order(
        phases=(closed_loop(requests=REQUESTS, concurrency=8),),
        target={"urls": URLS, "model": "tiny", **way},
    )
    order = replace(order, dataset=DATASET)
    before = await counters()
    (phase,) = (await run_load(order)).phases
    await asyncio.sleep(SETTLE)
    after = await counters()
    return phase, [ServerCounts(replica=u, before=before[u], after=after[u]) for u in URLS]


async def undisturbed(way: dict[str, Any]) -> tuple[PhaseResult, list[ServerCounts]]:
    """Measure until the servers had no other requests than ours."""
    for _ in range(ROUNDS):
        phase, servers = await measured(way)
        if sum(counts.delta(ServerCount.REQUESTS) or 0 for counts in servers) <= REQUESTS:
            return phase, servers
    pytest.skip(f"the servers of {URLS} had other requests in each of {ROUNDS} rounds")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_requests_and_tokens_are_those_that_the_servers_counted(way: dict[str, Any]) -> None:
    phase, servers = await undisturbed(way)
    assert phase.counts["ok"] == REQUESTS
    assert phase.token_sources == {"usage": REQUESTS}
    for counts in servers:
        assert phase.endpoints[counts.replica] == counts.delta(ServerCount.REQUESTS)
    told = {metric: histogram(phase, metric).sum for metric in COUNTS.values()}
    assert told == {
        metric: sum(counts.delta(name) or 0 for counts in servers)
        for name, metric in COUNTS.items()
    }
    assert told["cached_tokens"] > 0
