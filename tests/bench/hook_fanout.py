"""How long a proven reset of many replicas takes: 100 of them within 2 s (design, section 6).

The replicas are scripted servers in this process, which answer at once, so most of the time is
theirs; what is measured is an upper bound for the operator's part.
"""

from __future__ import annotations

import asyncio
import sys
import time
from functools import partial
from typing import Any

from support.fleet import fleet, replicas_of
from support.scripted_http import json_reply
from tare.endpoint.client import ControlClient
from tare.endpoint.hooks.canary import Canary, canary_text, prove
from tare.endpoint.hooks.reset import reset
from tare.telemetry.clock import SystemClock

_RESET = "/reset_prefix_cache"
_BOUND = 2.0


async def measure(size: int) -> float:
    """Reset `size` replicas between canaries; seconds."""
    answers = [
        json_reply({"usage": {"prompt_tokens_details": {"cached_tokens": cached}}})
        for cached in (0, 224, 0)
    ]
    async with fleet(size) as servers, ControlClient() as http:
        for server in servers:
            server.on(_RESET, json_reply({"success": True})).on("/v1/completions", *answers)
        replicas = replicas_of(servers)
        common: dict[str, Any] = {
            "headers": {},
            "host": replicas.service_host,
            "http": http,
            "clock": SystemClock(),
        }
        canary = Canary(text=canary_text("bench"), model="m", timeout=30, **common)
        send = partial(
            reset, replicas, path=_RESET, timeout=30, max_retry=60, server="vllm", **common
        )
        began = time.perf_counter()
        report = await prove(replicas, send, canary=canary)
        took = time.perf_counter() - began
    assert report.proven, report.message
    return took


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seconds = asyncio.run(measure(count))
    print(f"{count} replicas: {seconds:.2f} s for canaries and reset (bound {_BOUND:g} s for 100)")
    sys.exit(seconds > _BOUND)
