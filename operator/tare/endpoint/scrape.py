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
from tare.measure.servers import ServerCount, ServerFact

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tare.endpoint.client import Control
    from tare.measure.hooks import Replica

__all__ = ["read_counts", "scrape"]

_LOG = logging.getLogger(__name__)
_PATHS = {"trtllm": "/prometheus/metrics"}
_PATH = "/metrics"
"""Of all others. TensorRT-LLM answers JSON there, which it forgets as it is read."""
_TIMEOUT = 5.0
_OK = 200
_PREFIX = {"sglang": "sglang:", "trtllm": "trtllm_"}
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
    "prompt_cached_tokens": ServerCount.CACHE_HITS,
    "external_prefix_cache_hits": ServerCount.EXTERNAL_HITS,
}
_STARTED = "process_start_time_seconds"
"""https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics"""
_CONFIG = "cache_config_info"
_LABELS = {"block_size": ServerFact.BLOCK_SIZE, "num_gpu_blocks": ServerFact.BLOCKS}


async def scrape(
    replicas: Iterable[Replica],
    *,
    headers: Mapping[str, str],
    host: str | None,
    server: str,
    http: Control,
    path: str | None = None,
    told: set[str] | None = None,
) -> dict[str, dict[str, float]]:
    """Read the counters of every replica, by its name; one that cannot be read has none.

    Args:
        replicas: to be asked.
        headers: of each call.
        host: `Host` header, where it differs from the address.
        server: kind of the servers.
        http: sends the calls.
        path: of the metrics; None for that of `server`.
        told: replicas of which the log says already that their metrics cannot be read; others are
            added, so that each is told once.
    """
    path = path or _PATHS.get(server, _PATH)
    told = set() if told is None else told

    async def one(replica: Replica) -> tuple[str, dict[str, float]]:
        url = replica.origin + path
        try:
            answer = await http.call("GET", url, headers=headers, timeout=_TIMEOUT, host=host)
        except CallError as error:
            _LOG.info("counters of %s cannot be read: %s", replica.name, error)
            return replica.name, {}
        kind = answer.headers.get("content-type", "")
        if answer.status != _OK or not kind.startswith(("text/plain", "application/openmetrics")):
            if replica.name not in told:
                told.add(replica.name)
                _LOG.warning(
                    "%s answers %s with %s %s, which are no Prometheus metrics: what it counts is "
                    "left out; endpoint.metricsPath names another path",
                    *(replica.name, path, answer.status, kind),
                )
            return replica.name, {}
        return replica.name, read_counts(answer.text, server)

    return dict(await asyncio.gather(*(one(replica) for replica in replicas)))


def read_counts(text: str, server: str) -> dict[str, float]:
    """Add up the counters that are known, and read what the server tells of itself.

    {} when the text is no Prometheus exposition.
    """
    prefix = _PREFIX.get(server, "vllm:")
    found: dict[str, float] = {}
    try:
        for family in text_string_to_metric_families(text):
            if family.name == _STARTED:
                # Of several processes behind one address, the last to start.
                found[ServerFact.STARTED] = max(s.value for s in family.samples)
            if family.name == prefix + _CONFIG:
                found |= _read_config([sample.labels for sample in family.samples])
            name = _NAMES.get(family.name.removeprefix(prefix).removesuffix("_total"))
            if name is None or not family.name.startswith(prefix):
                continue
            values = [s.value for s in family.samples if not s.name.endswith("_created")]
            found[name] = found.get(name, 0.0) + sum(values)
    except ValueError as error:
        _LOG.info("counters cannot be read: %s", error)
        return {}
    return found


def _read_config(engines: Sequence[Mapping[str, str]]) -> dict[str, float]:
    """Read the labels that say how the KV cache of each engine is made."""
    found: dict[str, float] = {ServerFact.ENGINES: float(len(engines))}
    for label, fact in _LABELS.items():
        values = [labels[label] for labels in engines if labels.get(label, "").isdigit()]
        if values:
            found[fact] = float(min(map(int, values)))
    return found
