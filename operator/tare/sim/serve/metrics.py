"""`/metrics` in Prometheus text, under the names, labels and bucket bounds of the imitated server.

Names: https://docs.vllm.ai/en/stable/usage/metrics/ and
https://docs.sglang.io/docs/references/production_metrics. Written without a client library: the
server's image has none, and all values are known to the engine already.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from tare.sim.serve.options import Options, ServerStyle

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tare.sim.engine import Engine

__all__ = ["CONTENT_TYPE", "Metrics"]

CONTENT_TYPE = b"text/plain; version=1.0.0; charset=utf-8"
_NS = 1e9

# fmt: off
_TTFT_BOUNDS = (
    .001, .005, .01, .02, .04, .06, .08, .1, .25, .5, .75, 1., 2.5, 5., 7.5, 10., 20., 40., 80.,
    160., 640., 2560.,
)
_LATENCY_BOUNDS = (
    .3, .5, .8, 1., 1.5, 2., 2.5, 5., 10., 15., 20., 30., 40., 50., 60., 120., 240., 480., 960.,
    1920., 7680.,
)
# fmt: on
_FINISH_REASONS = ("stop", "length", "abort", "error")


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self, name: str, labels: str) -> Iterator[str]:
        yield f"# TYPE {name} histogram"
        total = 0
        for bound, count in zip((*self.bounds, "+Inf"), self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{{labels},le="{bound}"}} {total}'
        yield f"{name}_count{{{labels}}} {total}"
        yield f"{name}_sum{{{labels}}} {self.sum}"


class Metrics:
    """Observes complete answers; everything else is read from the engine when asked."""

    def __init__(self, options: Options, engine: Engine) -> None:
        self._options = options
        self._engine = engine
        self._time_to_first_token = _Histogram(_TTFT_BOUNDS)
        self._latency = _Histogram(_LATENCY_BOUNDS)
        self._success = dict.fromkeys(_FINISH_REASONS, 0)

    def on_complete(
        self, *, finish_reason: str, time_to_first_token_ns: int, latency_ns: int
    ) -> None:
        """Count a complete answer; aborted ones are not counted, as on vLLM."""
        self._success[finish_reason] += 1
        self._time_to_first_token.observe(time_to_first_token_ns / _NS)
        self._latency.observe(latency_ns / _NS)

    def render(self) -> bytes:
        """Return the exposition of this moment."""
        match self._options.server_style:
            case ServerStyle.VLLM:
                lines = self._vllm()
            case ServerStyle.SGLANG:
                lines = self._sglang()
        return ("\n".join(lines) + "\n").encode()

    def _vllm(self) -> Iterator[str]:
        engine, totals = self._engine, self._engine.totals
        cache, settings = engine.cache, engine.settings
        labels = f'engine="0",model_name="{_escaped(self._options.models[0])}"'
        computed = totals.prompt_tokens - totals.cached_tokens
        yield from _samples("vllm:num_requests_running", "gauge", {labels: engine.running})
        yield from _samples("vllm:num_requests_waiting", "gauge", {labels: engine.waiting})
        usage = cache.in_use / cache.capacity
        yield from _samples("vllm:kv_cache_usage_perc", "gauge", {labels: usage})
        for name, value in (
            ("prefix_cache_queries", totals.prefix_queries),
            ("prefix_cache_hits", totals.prefix_hits),
            ("num_preemptions", totals.preemptions),
            ("prompt_tokens", totals.prompt_tokens),
            ("prompt_tokens_cached", totals.cached_tokens),
            ("generation_tokens", totals.generated_tokens),
        ):
            yield from _samples(f"vllm:{name}_total", "counter", {labels: value})
        by_source = {
            f'{labels},source="local_compute"': computed,
            f'{labels},source="local_cache_hit"': totals.cached_tokens,
        }
        yield from _samples("vllm:prompt_tokens_by_source_total", "counter", by_source)
        success = {
            f'{labels},finished_reason="{reason}"': count for reason, count in self._success.items()
        }
        yield from _samples("vllm:request_success_total", "counter", success)
        yield from self._time_to_first_token.lines("vllm:time_to_first_token_seconds", labels)
        yield from self._latency.lines("vllm:e2e_request_latency_seconds", labels)
        config = (
            f'block_size="{settings.block_size}",enable_prefix_caching="True",engine="0",'
            f'num_gpu_blocks="{settings.kv_blocks}"'
        )
        yield from _samples("vllm:cache_config_info", "gauge", {config: 1.0})

    def _sglang(self) -> Iterator[str]:
        engine, totals = self._engine, self._engine.totals
        cache = engine.cache
        labels = f'engine_type="unified",model_name="{_escaped(self._options.models[0])}"'
        rate = totals.prefix_hits / totals.prefix_queries if totals.prefix_queries else 0.0
        for name, kind, value in (
            ("num_running_reqs", "gauge", engine.running),
            ("num_queue_reqs", "gauge", engine.waiting),
            ("token_usage", "gauge", cache.in_use / cache.capacity),
            ("cache_hit_rate", "gauge", rate),
            ("prompt_tokens_total", "counter", totals.prompt_tokens),
            ("generation_tokens_total", "counter", totals.generated_tokens),
            ("num_requests_total", "counter", sum(self._success.values())),
        ):
            yield from _samples(f"sglang:{name}", kind, {labels: value})
        cached = {f'{labels},cache_source="device"': totals.cached_tokens}
        yield from _samples("sglang:cached_tokens_total", "counter", cached)
        yield from self._time_to_first_token.lines("sglang:time_to_first_token_seconds", labels)
        yield from self._latency.lines("sglang:e2e_request_latency_seconds", labels)


def _samples(name: str, kind: str, values: Mapping[str, float]) -> Iterable[str]:
    yield f"# TYPE {name} {kind}"
    for labels, value in values.items():
        yield f"{name}{{{labels}}} {float(value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
