"""Whether one request is good: it is ok and meets every limit of the run.

Workers ask this for each request as it ends; shares and rates are computed later, over everything
that was issued. Definition: https://github.com/kubernetes-sigs/inference-perf docs/goodput.md,
with two differences: a failed request is bad instead of left out, and an undefined pace is neutral
instead of 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tare.measure.metrics import GOODPUT_METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["is_good", "limits_in_nanoseconds"]

_NEUTRAL: Final = ("time_per_output_token", "inter_chunk_latency")
_NANOSECONDS: Final = 1_000_000_000


def limits_in_nanoseconds(limits: Mapping[str, float]) -> dict[str, int]:
    """Turn limits in seconds into the unit in which workers keep times.

    Raises:
        ValueError: a metric has no value for single requests.
    """
    for metric in limits:
        if metric not in GOODPUT_METRICS:
            allowed = ", ".join(GOODPUT_METRICS)
            raise ValueError(f"goodput.{metric}: unknown; allowed are {allowed}")
    return {metric: round(seconds * _NANOSECONDS) for metric, seconds in limits.items()}


def is_good(limits: Mapping[str, int], values: Mapping[str, int | None], *, ok: bool) -> bool:
    """Return whether a request with these `values` meets every limit; both in one unit.

    A value that is None misses its limit: an empty answer has no first token, so it cannot have
    been in time. Only what describes a pace is neutral then, since a single token has none. The
    value of `inter_chunk_latency` is the mean gap of the request.
    """
    if not ok:
        return False
    for metric, limit in limits.items():
        value = values[metric]
        if value is None:
            if metric not in _NEUTRAL:
                return False
        elif value > limit:
            return False
    return True
