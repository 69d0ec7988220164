"""The one table of metrics: names, units, which way is better, and how each is computed.

Schema, goals, status, Prometheus, exports and docs take their names from here. A *distribution* is
made of one value for each ok request (or gap) and has all statistics; it is kept as a histogram of
the same name. A *scalar* is one number for a trial; its only statistic is its mean over trials.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "GOODPUT_METRICS",
    "HEADLINES",
    "METRICS",
    "PERCENTILES",
    "SCALAR_STATISTIC",
    "STATISTICS",
    "Better",
    "Kind",
    "Metric",
    "Unit",
    "statistics_of",
]


class Kind(StrEnum):
    """Where a metric's value comes from."""

    DISTRIBUTION = "distribution"
    SCALAR = "scalar"


class Unit(StrEnum):
    """Unit of the published value."""

    SECONDS = "seconds"
    TOKENS = "tokens"
    CHUNKS = "chunks"
    RATIO = "ratio"
    """0 to 1."""
    REQUESTS_PER_SECOND = "requests/s"
    TOKENS_PER_SECOND = "tokens/s"
    TOKENS_PER_CHUNK = "tokens/chunk"
    USD = "USD"


class Better(StrEnum):
    """Which direction is an improvement."""

    LOWER = "lower"
    HIGHER = "higher"
    NEITHER = "neither"
    """The metric describes the workload."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the table."""

    name: str
    unit: Unit
    kind: Kind
    better: Better
    description: str
    """Definition in one or two sentences; published in the reference."""
    source: str = ""
    """Where the definition comes from; empty when it is ours."""


PERCENTILES: Final = {"p50": 50, "p90": 90, "p95": 95, "p99": 99}
"""Nearest-rank percentiles that are published."""
SCALAR_STATISTIC: Final = "mean"
STATISTICS: Final = ("mean", *PERCENTILES, "min", "max", "stddev")

_NIM: Final = "https://docs.nvidia.com/nim/benchmarking/llm/metrics"
_GOODPUT: Final = "https://github.com/kubernetes-sigs/inference-perf/blob/main/docs/goodput.md"
_OMISSION: Final = "https://github.com/giltene/wrk2#acknowledgements"


def _time(name: str, description: str, source: str = _NIM) -> Metric:
    return Metric(
        name=name,
        unit=Unit.SECONDS,
        kind=Kind.DISTRIBUTION,
        better=Better.LOWER,
        description=description,
        source=source,
    )


def _amount(name: str, description: str, better: Better, unit: Unit = Unit.TOKENS) -> Metric:
    return Metric(
        name=name, unit=unit, kind=Kind.DISTRIBUTION, better=better, description=description
    )


def _scalar(name: str, unit: Unit, better: Better, description: str, source: str = "") -> Metric:
    return Metric(
        name=name,
        unit=unit,
        kind=Kind.SCALAR,
        better=better,
        description=description,
        source=source,
    )


_TIMES: Final = (
    _time(
        "time_to_first_token",
        "Send to the first non-empty text of any kind: content, reasoning or tool arguments.",
    ),
    _time("time_to_first_event", "Send to the first event, which may carry no text.", ""),
    _time(
        "time_to_first_output_token", "Send to the first non-empty text that is not reasoning.", ""
    ),
    _time("request_latency", "Send to the last text of the answer."),
    _time(
        "request_latency_from_due",
        "Due time to the last text: includes the wait of a request that was sent late.",
        _OMISSION,
    ),
    _time(
        "inter_chunk_latency",
        "Gaps between successive chunks with text, all requests together. A chunk may hold "
        "several tokens.",
        "",
    ),
    _time(
        "time_per_output_token",
        "(request_latency - time_to_first_token) / (output tokens - 1). Undefined for one token "
        "and for one arrival.",
    ),
    _time("stream_closed", "Send to the end of the stream, after usage event and [DONE].", ""),
    _time(
        "schedule_lag",
        "Due time to the first byte sent: what a user waits for a slot and a connection.",
        _OMISSION,
    ),
    _time(
        "send_lag",
        "Due time, or the moment a slot became free, to the send: how late the client itself was.",
        "",
    ),
)

_AMOUNTS: Final = (
    _amount("output_tokens", "Output tokens of a request.", Better.NEITHER),
    _amount("prompt_tokens", "Prompt tokens of a request.", Better.NEITHER),
    _amount(
        "cached_tokens",
        "Prompt tokens that the server found in its cache, by its own account.",
        Better.HIGHER,
    ),
    _amount("chunks", "Chunks with text of a request.", Better.NEITHER, Unit.CHUNKS),
)

_RATES: Final = (
    _scalar(
        "request_throughput",
        Unit.REQUESTS_PER_SECOND,
        Better.HIGHER,
        "Ok requests that ended in the window / window. The window is from the gate to the end "
        "of sending.",
        _NIM,
    ),
    _scalar(
        "output_token_throughput",
        Unit.TOKENS_PER_SECOND,
        Better.HIGHER,
        "Output tokens that arrived in the window / window.",
        _NIM,
    ),
    _scalar(
        "prompt_token_throughput",
        Unit.TOKENS_PER_SECOND,
        Better.HIGHER,
        "Prompt tokens of the requests whose first text arrived in the window / window.",
    ),
    _scalar(
        "request_throughput_with_drain",
        Unit.REQUESTS_PER_SECOND,
        Better.HIGHER,
        "All ok requests / (gate to the end of the last answer): what tools without a fixed "
        "window print.",
    ),
    _scalar(
        "output_token_throughput_with_drain",
        Unit.TOKENS_PER_SECOND,
        Better.HIGHER,
        "Output tokens of all ok requests / (gate to the end of the last answer).",
    ),
)

_SHARES: Final = (
    _scalar(
        "error_rate",
        Unit.RATIO,
        Better.LOWER,
        "(issued - ok) / issued. Requests that were cancelled on purpose are in neither.",
    ),
    _scalar(
        "goodput",
        Unit.REQUESTS_PER_SECOND,
        Better.HIGHER,
        "Requests that met every goodput limit / window.",
        _GOODPUT,
    ),
    _scalar(
        "good_request_fraction",
        Unit.RATIO,
        Better.HIGHER,
        "Requests that met every goodput limit / issued; a failed request is not good. Requests "
        "that were cancelled on purpose count as not issued.",
        _GOODPUT,
    ),
    _scalar(
        "output_length_mismatch",
        Unit.RATIO,
        Better.LOWER,
        "Share of ok requests with another number of output tokens than asked for.",
    ),
    _scalar(
        "tokens_per_chunk",
        Unit.TOKENS_PER_CHUNK,
        Better.NEITHER,
        "Output tokens / chunks with text, over all ok requests.",
    ),
)

_COSTS: Final = (
    _scalar(
        "monthly_cost",
        Unit.USD,
        Better.LOWER,
        "cost.usdPerHour x cost.replicas x 730 hours.",
    ),
    _scalar(
        "cost_per_million_output_tokens",
        Unit.USD,
        Better.LOWER,
        "Cost of an hour / output tokens of an hour at output_token_throughput x 1,000,000.",
    ),
)

METRICS: Final[Mapping[str, Metric]] = {
    metric.name: metric for metric in (*_TIMES, *_AMOUNTS, *_RATES, *_SHARES, *_COSTS)
}

GOODPUT_METRICS: Final = (
    "time_to_first_token",
    "time_to_first_output_token",
    "time_per_output_token",
    "inter_chunk_latency",
    "request_latency",
    "request_latency_from_due",
)
"""Metrics that a goodput limit can judge: one value for each request, or the mean of its gaps."""

HEADLINES: Final = (
    ("request_throughput", SCALAR_STATISTIC),
    ("output_token_throughput", SCALAR_STATISTIC),
    ("time_to_first_token", "p50"),
    ("time_to_first_token", "p99"),
    ("request_latency", "p99"),
    ("error_rate", SCALAR_STATISTIC),
)
"""(metric, statistic) of a cell's row in status and of its Prometheus series."""


def statistics_of(metric: str) -> tuple[str, ...]:
    """Return the statistics that `metric` has.

    Raises:
        KeyError: there is no such metric.
    """
    is_scalar = METRICS[metric].kind is Kind.SCALAR
    return (SCALAR_STATISTIC,) if is_scalar else STATISTICS
