"""`/metrics` in Prometheus text, under the names, labels and bucket bounds of the imitated server.

Names: https://docs.vllm.ai/en/stable/usage/metrics/ and
https://docs.sglang.io/docs/references/production_metrics. Written without a client library: the
server's image has none, and all values are known to the engine already.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from tare.sim.serve.arguments import ServerStyle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tare.sim.core.engine import Engine

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


_Family = tuple[str, str, dict[str, float]]
"""Name and kind of a metric with its samples, whose keys are what follows the name."""


class _Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def samples(self, labels: str) -> dict[str, float]:
        totals = accumulate(self.counts)
        bounds = (*self.bounds, "+Inf")
        found: dict[str, float] = {
            f'_bucket{{{labels},le="{bound}"}}': total
            for bound, total in zip(bounds, totals, strict=True)
        }
        count = sum(self.counts)
        return {**found, f"_count{{{labels}}}": count, f"_sum{{{labels}}}": self.sum}


class _Served:
    """What is known of one engine and of the answers that it gave."""

    def __init__(self, number: int, model: str, engine: Engine) -> None:
        self.number = number
        self.model = _escaped(model)
        self.engine = engine
        self.time_to_first_token = _Histogram(_TTFT_BOUNDS)
        self.latency = _Histogram(_LATENCY_BOUNDS)
        self.success = dict.fromkeys(_FINISH_REASONS, 0)

    def vllm(self) -> Iterator[_Family]:
        engine, totals = self.engine, self.engine.totals
        memory, settings = engine.memory, engine.settings
        labels = f'engine="{self.number}",model_name="{self.model}"'
        usage = memory.held / memory.capacity
        for name, kind, value in (
            ("num_requests_running", "gauge", engine.running),
            ("num_requests_waiting", "gauge", engine.waiting),
            ("kv_cache_usage_perc", "gauge", usage),
            ("prefix_cache_queries_total", "counter", totals.prefix_queries),
            ("prefix_cache_hits_total", "counter", totals.prefix_hits),
            ("num_preemptions_total", "counter", totals.preemptions),
            ("prompt_tokens_total", "counter", totals.prompt_tokens),
            ("prompt_tokens_cached_total", "counter", totals.cached_tokens),
            ("generation_tokens_total", "counter", totals.generated_tokens),
        ):
            yield f"vllm:{name}", kind, {f"{{{labels}}}": value}
        sources = {
            "local_compute": totals.prompt_tokens - totals.cached_tokens,
            "local_cache_hit": totals.cached_tokens,
        }
        by_source: dict[str, float] = {
            f'{{{labels},source="{name}"}}': n for name, n in sources.items()
        }
        yield "vllm:prompt_tokens_by_source_total", "counter", by_source
        success: dict[str, float] = {
            f'{{{labels},finished_reason="{name}"}}': n for name, n in self.success.items()
        }
        yield "vllm:request_success_total", "counter", success
        first, latency = self.time_to_first_token.samples(labels), self.latency.samples(labels)
        yield "vllm:time_to_first_token_seconds", "histogram", first
        yield "vllm:e2e_request_latency_seconds", "histogram", latency
        config = (
            f'block_size="{settings.block_size}",enable_prefix_caching="True",'
            f'engine="{self.number}",num_gpu_blocks="{settings.kv_blocks}"'
        )
        yield "vllm:cache_config_info", "gauge", {f"{{{config}}}": 1.0}

    def sglang(self) -> Iterator[_Family]:
        engine, totals = self.engine, self.engine.totals
        memory = engine.memory
        labels = f'engine_type="unified",model_name="{self.model}"'
        rate = totals.prefix_hits / totals.prefix_queries if totals.prefix_queries else 0.0
        for name, kind, value in (
            ("num_running_reqs", "gauge", engine.running),
            ("num_queue_reqs", "gauge", engine.waiting),
            ("token_usage", "gauge", memory.held / memory.capacity),
            ("cache_hit_rate", "gauge", rate),
            ("prompt_tokens_total", "counter", totals.prompt_tokens),
            ("generation_tokens_total", "counter", totals.generated_tokens),
            ("num_requests_total", "counter", sum(self.success.values())),
        ):
            yield f"sglang:{name}", kind, {f"{{{labels}}}": value}
        cached = {f'{{{labels},cache_source="device"}}': float(totals.cached_tokens)}
        yield "sglang:cached_tokens_total", "counter", cached
        first, latency = self.time_to_first_token.samples(labels), self.latency.samples(labels)
        yield "sglang:time_to_first_token_seconds", "histogram", first
        yield "sglang:e2e_request_latency_seconds", "histogram", latency


class Metrics:
    """Observes complete answers; everything else is read from the engines when asked."""

    def __init__(self, style: ServerStyle, engines: Mapping[str, Engine]) -> None:
        """`engines` are those of the served names; of one with several the first counts."""
        self._style = style
        self._served: dict[int, _Served] = {}
        self._by_model: dict[str, _Served] = {}
        for model, engine in engines.items():
            known = self._served.get(id(engine))
            served = known or _Served(len(self._served), model, engine)
            self._served[id(engine)] = self._by_model[model] = served
        self._started = time.time()

    def on_complete(
        self, model: str, *, finish_reason: str, time_to_first_token_ns: int, latency_ns: int
    ) -> None:
        """Count a complete answer; aborted ones are not counted, as on vLLM."""
        served = self._by_model[model]
        served.success[finish_reason] += 1
        served.time_to_first_token.observe(time_to_first_token_ns / _NS)
        served.latency.observe(latency_ns / _NS)

    def render(self) -> bytes:
        """Return the exposition of this moment."""
        # https://prometheus.io/docs/instrumenting/writing_clientlibs/#process-metrics
        families: dict[str, tuple[str, dict[str, float]]] = {
            "process_start_time_seconds": ("gauge", {"": self._started})
        }
        for served in self._served.values():
            found = served.vllm() if self._style is ServerStyle.VLLM else served.sglang()
            for name, kind, samples in found:
                families.setdefault(name, (kind, {}))[1].update(samples)
        lines = []
        for name, (kind, samples) in families.items():
            lines.append(f"# TYPE {name} {kind}")
            lines += (f"{name}{rest} {float(value)}" for rest, value in samples.items())
        return ("\n".join(lines) + "\n").encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
