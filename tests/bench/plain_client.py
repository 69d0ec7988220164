"""A client as most benchmarks have it: aiohttp, one task for each slot, every chunk parsed as JSON.

It keeps what a benchmark needs at least (first chunk, gaps, latency, usage) and nothing else. With
`--uvloop` it runs on the event loop that ours uses, so that the rest can be compared alone.

    python -m bench.plain_client URL REQUESTS CONCURRENCY [--uvloop]
"""

from __future__ import annotations

import asyncio
import json
import sys
from itertools import pairwise
from time import perf_counter
from typing import Any

import aiohttp
import uvloop

__all__ = ["main"]

_BODY = {
    "model": "m",
    "messages": [{"role": "user", "content": "one two three four five six seven eight"}],
    "max_tokens": 4,
    "stream": True,
    "stream_options": {"include_usage": True},
}
_DATA = b"data: "


async def _ask(session: aiohttp.ClientSession, url: str) -> dict[str, Any]:
    began = perf_counter()
    arrivals: list[float] = []
    usage: dict[str, Any] = {}
    async with session.post(url, json=_BODY) as response:
        response.raise_for_status()
        async for line in response.content:
            now = perf_counter()
            data = line.strip().removeprefix(_DATA)
            if not data or data == b"[DONE]":
                continue
            document = json.loads(data)
            usage = document.get("usage") or usage
            if document["choices"] and document["choices"][0]["delta"].get("content"):
                arrivals.append(now)
    return {
        "time_to_first_token": arrivals[0] - began,
        "latency": arrivals[-1] - began,
        "gaps": [b - a for a, b in pairwise(arrivals)],
        "tokens": usage["completion_tokens"],
    }


async def _load(url: str, requests: int, concurrency: int) -> None:
    numbers = iter(range(requests))

    async def slot(session: aiohttp.ClientSession) -> list[dict[str, Any]]:
        return [await _ask(session, f"{url}/v1/chat/completions") for _ in numbers]

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        slots = await asyncio.gather(*(slot(session) for _ in range(concurrency)))
    assert sum(map(len, slots)) == requests


def main() -> None:
    """Send the load that the command line asks for."""
    url, requests, concurrency, *options = sys.argv[1:]
    run = uvloop.run if options == ["--uvloop"] else asyncio.run
    run(_load(url, int(requests), int(concurrency)))


if __name__ == "__main__":
    main()
