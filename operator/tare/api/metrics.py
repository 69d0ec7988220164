"""Names of the metrics and statistics that goals may use, with the unit of their bounds.

Definitions and directions stand in `measure.metrics`, which is above this layer; a test holds the
two tables against each other. Standard library only.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args

__all__ = [
    "COST_METRICS",
    "DISTRIBUTIONS",
    "GOODPUT_RATES",
    "NEEDS_STREAMING",
    "Bound",
    "Metric",
    "Statistic",
    "bound_of",
]


class Bound(StrEnum):
    """What the bound of a goal is written in."""

    DURATION = "duration"
    """`500ms`; seconds inside."""
    FRACTION = "fraction"
    """`1%` or 0.01."""
    NUMBER = "number"


Time = Literal[
    "time_to_first_token",
    "time_to_first_event",
    "time_to_first_output_token",
    "request_latency",
    "request_latency_from_due",
    "inter_chunk_latency",
    "time_per_output_token",
    "stream_closed",
    "schedule_lag",
    "send_lag",
]
Amount = Literal["output_tokens", "prompt_tokens", "cached_tokens", "chunks"]
Share = Literal["error_rate", "good_request_fraction", "output_length_mismatch"]
Rate = Literal[
    "request_throughput",
    "output_token_throughput",
    "prompt_token_throughput",
    "request_throughput_with_drain",
    "output_token_throughput_with_drain",
    "goodput",
    "tokens_per_chunk",
]
Cost = Literal["monthly_cost", "cost_per_million_output_tokens"]

Metric = Literal[Time, Amount, Rate, Share, Cost]
Statistic = Literal["mean", "p50", "p90", "p95", "p99", "min", "max", "stddev"]

_TIMES: tuple[str, ...] = get_args(Time)
_SHARES: tuple[str, ...] = get_args(Share)

DISTRIBUTIONS: tuple[str, ...] = (*_TIMES, *get_args(Amount))
"""Metrics with a value for each request or chunk, of which a goal names a statistic."""
COST_METRICS: tuple[str, ...] = get_args(Cost)
"""Metrics that need `spec.cost`."""
GOODPUT_RATES = ("goodput", "good_request_fraction")
"""Metrics that need `spec.goodput`."""
NEEDS_STREAMING = (
    "time_to_first_token",
    "time_to_first_event",
    "time_to_first_output_token",
    "inter_chunk_latency",
    "time_per_output_token",
)
"""Metrics that need the moment at which a single chunk came."""


def bound_of(metric: Metric) -> Bound:
    """Say what bounds of a metric are written in."""
    if metric in _TIMES:
        return Bound.DURATION
    return Bound.FRACTION if metric in _SHARES else Bound.NUMBER
