"""Public bug cases of group F: workloads and the servers' own counters.

Numbers and wanted values: reference/bug-cases.md. Servers are real ones on loopback. What a cache
finds in a run is measured on the embedded cluster: B86 and B88 in tests/integration/
test_cache_bust.py.
"""

from __future__ import annotations

import logging

import pytest

from support.scripted_http import Reply, ScriptedServer, json_reply, scripted
from tare.endpoint.client import ControlClient
from tare.endpoint.scrape import read_counts, scrape
from tare.measure.hooks import Replica
from tare.measure.servers import ServerCount, ServerCounts, cached_by_counters

TEXT = {"Content-Type": "text/plain; version=0.0.4"}


def exposition(*engines: tuple[int, int], suffix: str) -> str:
    """Queries and hits of the prefix cache of each engine, as vLLM writes them."""
    lines = []
    for name, values in zip(("queries", "hits"), zip(*engines, strict=True), strict=True):
        lines.append(f"# TYPE vllm:prefix_cache_{name}{suffix} counter")
        lines += [
            f'vllm:prefix_cache_{name}{suffix}{{engine="{n}"}} {value}'
            for n, value in enumerate(values)
        ]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("suffix", ["", "_total"])
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (((1000, 800), (0, 0)), ((1300, 860), (200, 40))),
        (((1000, 800),), ((1500, 900),)),
    ],
)
def test_b95_the_hit_rate_is_that_of_the_trial_and_not_of_the_servers_life(
    suffix: str, before: tuple[tuple[int, int], ...], after: tuple[tuple[int, int], ...]
) -> None:
    ends = [read_counts(exposition(*counts, suffix=suffix), "vllm") for counts in (before, after)]
    counts = ServerCounts(replica="qwen-0", before=ends[0], after=ends[1])
    assert counts.delta(ServerCount.CACHE_QUERIES) == 500
    assert counts.delta(ServerCount.CACHE_HITS) == 100
    assert cached_by_counters([counts], 1) == 100
    assert not counts.restarted


async def counted(
    server: ScriptedServer, told: set[str], path: str | None = None
) -> dict[str, float]:
    replica = Replica(uid="u", name="trt-0", origin=server.origin)
    async with ControlClient() as http:
        found = await scrape(
            (replica,), headers={}, host=None, server="vllm", http=http, path=path, told=told
        )
    return found["trt-0"]


async def test_b97_metrics_that_are_no_prometheus_are_told_once_and_left_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told: set[str] = set()
    async with scripted() as server:
        server.on("/metrics", json_reply([]))
        with caplog.at_level(logging.WARNING):
            assert [await counted(server, told) for _ in range(3)] == [{}] * 3
        (warning,) = caplog.messages
        assert "trt-0 answers /metrics with 200 application/json" in warning
        text = exposition((7, 5), suffix="_total").encode()
        server.on("/prometheus/metrics", Reply(body=text, headers=TEXT))
        found = await counted(server, told, "/prometheus/metrics")
    assert found[ServerCount.CACHE_HITS] == 5
