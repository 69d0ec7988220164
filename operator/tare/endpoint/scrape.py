"""Reading a replica's own counters from its Prometheus endpoint.

A counter may carry `_total` or not, and appears once for each engine of a server; its samples are
added up. A server without such an endpoint (TensorRT-LLM answers JSON there, and empties it) or
without a counter simply says nothing: results then lack the servers' view, and the run goes on.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

from tare.endpoint.client import CallError
from tare.measure.servers import ServerCount

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from tare.endpoint.client import Control
    from tare.measure.hooks import Replica

__all__ = ["read_counts", "scrape"]

_LOG = logging.getLogger(__name__)
_PATH = "/metrics"
_TIMEOUT = 5.0
_OK = 200
_PREFIX = {"sglang": "sglang:"}
_NAMES = {
    # https://docs.vllm.ai/en/stable/usage/metrics/ and
    # https://docs.sglang.io/docs/references/production_metrics
    "request_success": ServerCount.REQUESTS,
    "num_requests": ServerCount.REQUESTS,
    "prompt_tokens": ServerCount.PROMPT_TOKENS,
    "generation_tokens": ServerCount.OUTPUT_TOKENS,
    "prefix_cache_queries": ServerCount.CACHE_QUERIES,
    "prefix_cache_hits": ServerCount.CACHE_HITS,
    "cached_tokens": ServerCount.CACHE_HITS,
    "external_prefix_cache_hits": ServerCount.EXTERNAL_HITS,
}


async def scrape(
    replicas: Iterable[Replica],
    *,
    headers: Mapping[str, str],
    host: str | None,
    server: str,
    http: Control,
) -> dict[str, dict[str, float]]:
    """Read the counters of every replica, by its name; one that cannot be read has none."""

    async def one(replica: Replica) -> tuple[str, dict[str, float]]:
        url = replica.origin + _PATH
        try:
            answer = await http.call("GET", url, headers=headers, timeout=_TIMEOUT, host=host)
        except CallError as error:
            _LOG.info("counters of %s cannot be read: %s", replica.name, error)
            return replica.name, {}
        kind = answer.headers.get("content-type", "")
        if answer.status != _OK or not kind.startswith(("text/plain", "application/openmetrics")):
            _LOG.info("%s answers %s with %s %s", replica.name, _PATH, answer.status, kind)
            return replica.name, {}
        return replica.name, read_counts(answer.text, server)

    return dict(await asyncio.gather(*(one(replica) for replica in replicas)))


def read_counts(text: str, server: str) -> dict[str, float]:
    """Add up the counters that are known; {} when the text is no Prometheus exposition."""
    prefix = _PREFIX.get(server, "vllm:")
    found: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            name = _NAMES.get(family.name.removeprefix(prefix).removesuffix("_total"))
            if name is None or not family.name.startswith(prefix):
                continue
            values = [s.value for s in family.samples if not s.name.endswith("_created")]
            found[name] = found.get(name, 0.0) + sum(values)
    except ValueError as error:
        _LOG.info("counters cannot be read: %s", error)
        return {}
    return found
